# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What runs, with files in a directory of its own, while it is used as a context."""

import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self


class Running(ABC):
    def __enter__(self) -> Self:
        self._temporary = tempfile.TemporaryDirectory(prefix="vrdma-bench-")
        try:
            self._begin(self.directory)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    @property
    def directory(self) -> Path:
        return Path(self._temporary.name)

    def _end(self) -> None:
        self._stop()
        self._temporary.cleanup()

    @abstractmethod
    def _begin(self, directory: Path) -> None:
        """Starts all of it."""

    @abstractmethod
    def _stop(self) -> None:
        """Stops what was started."""
