# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A disk that one guest offers and another one uses: data is written to it and verified."""

from .lab import Guest

SIZE = 8 << 20
RAM = "/dev/ram0"
# Requests have several sizes, so that the target READs and WRITEs one and several pages.
WRITE = """
head -c {size} /dev/urandom > /tmp/pattern
dd if=/tmp/pattern of={block} bs=256k oflag=direct status=none
dd if=/tmp/pattern of={block} bs=4k count=64 oflag=direct status=none
"""
VERIFY = ("dd if={block} bs={request} count={count} iflag=direct status=none | cmp -n $(({request} * {count})) - "
          "/tmp/pattern")
# Request size and count. There are few small ones, because they take long on emulated processors.
READS = [(4096, 256), (1 << 20, SIZE >> 20)]


def digest(guest: Guest, path: str) -> str:
    return guest.script(f"head -c {SIZE} {path} | sha256sum").stdout


def assert_survives(target: Guest, user: Guest, block: str, reconnect: list[str]) -> None:
    """Writes a pattern and reads it back in requests of two sizes, and once more after the scripts of `reconnect`. The
    pattern must also be in the target's RAM disk."""
    user.script(WRITE.format(size=SIZE, block=block))
    for request, count in READS:
        user.script(VERIFY.format(block=block, request=request, count=count))
    assert digest(target, RAM) == digest(user, "/tmp/pattern")
    for script in reconnect:
        user.script(script)
    user.script(VERIFY.format(block=block, request=65536, count=SIZE >> 16))
