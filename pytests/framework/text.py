# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What programs print."""

import re


def found(pattern: str, text: str) -> re.Match[str]:
    """The first match of the pattern. A text without one fails the test."""
    match = re.search(pattern, text)
    assert match, f"{pattern!r} is not in:\n{text}"
    return match
