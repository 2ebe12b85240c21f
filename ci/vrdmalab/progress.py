# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Reports the lab's progress on stderr, because booting takes long."""

import sys
import time

_start = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - _start:6.1f} s] {text}", file=sys.stderr, flush=True)
