# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Several parallel runs, each in a lab whose host has one processor. A run that is ready takes the next file of tests.
So all runs end at about the same time, however long each file takes.
"""

from pathlib import Path

import pytest


class Share:
    """One of the runs. The last part of the path is its number. The rest is a directory that is empty at first, and
    gets a file for each file of tests that is taken."""

    def __init__(self, text: str) -> None:
        path = Path(text)
        self.number = int(path.name)
        self._directory = path.parent.resolve(strict=True)
        self._ours: dict[str, bool] = {}

    def has(self, name: str) -> bool:
        """Whether the file of tests belongs to this run. A file that no run has taken becomes this run's."""
        if name not in self._ours:
            self._ours[name] = self._take(name)
        return self._ours[name]

    def next_of(self, item: pytest.Item) -> pytest.Item | None:
        """The next test of this run. It must be known before the current one ends, because pytest then removes the
        fixtures that the next one does not use."""
        items = item.session.items
        return next((later for later in items[items.index(item) + 1:] if self.has(later.path.name)), None)

    def _take(self, name: str) -> bool:
        try:
            (self._directory / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
