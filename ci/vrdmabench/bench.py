# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The parameters that every family of measurements gets."""

from dataclasses import dataclass
from pathlib import Path

from .devices import Devices


@dataclass(frozen=True)
class Bench:
    build: Path
    devices: Devices
    quick: bool
