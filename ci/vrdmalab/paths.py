# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Where the project is."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
