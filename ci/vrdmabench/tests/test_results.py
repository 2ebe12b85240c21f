# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A run is the same after it was saved and loaded; other files are refused."""

from pathlib import Path

import pytest
from vrdmabench.tests.points import latency
from vrdmabench.errors import BenchError
from vrdmabench.results import Results


def test_a_saved_run_is_the_same(tmp_path: Path) -> None:
    results = Results({"cores": 2}, [latency(1.5, 1.25, spread=0.1, distribution={"p99": 3.0}), latency(2, x=None)])
    results.save(tmp_path / "results.json")
    assert Results.load(tmp_path / "results.json") == results


@pytest.mark.parametrize("text",
                         ["", "[]", "{}", '{"version": 0}', '{"version": 1, "machine": {}, "points": [{"x": 1}]}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(BenchError, match="results.json"):
        Results.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="nothing.json"):
        Results.load(tmp_path / "nothing.json")
