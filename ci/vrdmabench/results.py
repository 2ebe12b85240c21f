# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Saves a run to a file, and loads it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import BenchError
from .point import Point

VERSION = 1


@dataclass(frozen=True)
class Results:
    machine: dict[str, str | int]
    points: list[Point]

    def save(self, path: Path) -> None:
        document = {"version": VERSION, "machine": self.machine, "points": [asdict(point) for point in self.points]}
        path.write_text(json.dumps(document, indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> "Results":
        try:
            document = json.loads(path.read_text())
            if document["version"] != VERSION:
                raise BenchError(f"{path}: made by another version of ci/bench")
            return Results(document["machine"], [Point(**point) for point in document["points"]])
        except OSError as error:
            raise BenchError(f"{path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise BenchError(f"{path}: is no result of ci/bench") from None
