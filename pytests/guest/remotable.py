# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Base class of the objects that verbs_server.py returns by number."""


class Remotable:
    """An object with its constant fields."""

    def fields(self) -> dict:
        return {}
