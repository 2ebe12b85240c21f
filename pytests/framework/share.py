# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Several runs beside each other, each in a lab whose host has one processor. A run that is ready takes the next file
of tests. So all end at about the same time, however long a file takes today.
"""

from pathlib import Path

import pytest


class Share:
    """One of the runs: its number is the last part of the path, the rest a directory that was empty when they began. There
    is a file for each that is taken."""

    def __init__(self, text: str) -> None:
        path = Path(text)
        self.number = int(path.name)
        self._directory = path.parent.resolve(strict=True)
        self._ours: dict[str, bool] = {}

    def has(self, name: str) -> bool:
        """Whether the file of tests is ours, now if it was nobody's."""
        if name not in self._ours:
            self._ours[name] = self._take(name)
        return self._ours[name]

    def next_of(self, item: pytest.Item) -> pytest.Item | None:
        """The test that comes after it here. It is asked for before this one ends, as that ends what the next has no use for."""
        items = item.session.items
        return next((later for later in items[items.index(item) + 1:] if self.has(later.path.name)), None)

    def _take(self, name: str) -> bool:
        try:
            (self._directory / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
