# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The command line of ci/layers."""

import sys
from pathlib import Path

from .rules import check


def main(arguments: list[str]) -> int:
    problems = check(Path(*arguments))
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(bool(problems))
