# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Results that a run refuses, and the command line."""

import math
from pathlib import Path

import pytest
from vrdmabench.tests.points import latency
from vrdmabench import cli
from vrdmabench.errors import BenchError
from vrdmabench.families import NAMES
from vrdmabench.point import Point


@pytest.mark.parametrize("point", [latency(math.nan), latency(-1), latency(1, math.inf),
                                   latency(1, distribution={"p99": math.nan})])
def test_what_is_no_number_is_no_result(point: Point) -> None:
    with pytest.raises(BenchError, match="latency"):
        cli.checked("latency", [point])


def test_nothing_is_no_result() -> None:
    with pytest.raises(BenchError, match="no result"):
        cli.checked("latency", [])


def test_results_pass() -> None:
    assert cli.checked("latency", [latency(0), latency(2, 1)]) == [latency(0), latency(2, 1)]


def test_the_list_names_every_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == NAMES


def test_an_unknown_measurement_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--only", "nothing"])
    assert "nothing" in capsys.readouterr().err


def test_a_comparison_with_nothing_fails_before_anything_is_measured(tmp_path: Path,
                                                                     capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--compare", str(tmp_path / "nothing.json")]) == 1
    assert "nothing.json" in capsys.readouterr().err
