# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What verbs_server.py hands out by number."""


class Remotable:
    """An object with its constant fields."""

    def fields(self) -> dict:
        return {}
