# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Tells on stderr what the lab is doing, as booting takes long enough to wonder."""

import sys
import time

_start = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - _start:6.1f} s] {text}", file=sys.stderr, flush=True)
