# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""How many devices a crowd has, and what vrdmad is told of them."""

import resource
import tomllib
from pathlib import Path

import pytest
from vrdmabench.crowd import DESCRIPTORS, FEW, MOST, QUICK, Crowd


@pytest.mark.parametrize("quick, descriptors, size", [
    (False, 1 << 20, MOST), (True, 1 << 20, QUICK), (False, 4 * 20 * DESCRIPTORS, 60 - FEW)])  # fmt: skip
def test_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quick: bool, descriptors: int, size: int) -> None:
    """Limits the descriptors; expects as many devices as three quarters of these allow, and a table for each."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, descriptors))
    crowd = Crowd(tmp_path, tmp_path, quick)
    assert crowd.size == size
    devices = tomllib.loads(crowd.config)["vfio_user"]
    assert len({device["socket"] for device in devices}) == size
