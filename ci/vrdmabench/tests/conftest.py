# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Makes the package importable as ci/bench does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
