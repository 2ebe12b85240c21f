# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The duration of each control verb in a guest, compared to SoftRoCE in the same guest."""

import json
from pathlib import Path

import pytest

from framework.lab import PROJECT, Guest
from framework.rxe import add_rxe, remove_rxe

pytestmark = pytest.mark.lab

PROGRAM = PROJECT / "build/release/bench/vrdma_verbs_bench"
LIBRARY = Path("/usr/lib/x86_64-linux-gnu/libbenchmark.so.1debian")  # not installed in guests
VERBS = "^control_verb|^reg_mr/touched/(4096|65536|1048576)/"
CALLS = 40  # of each verb: the emulated processor takes milliseconds for one
TIMEOUT_S = 240.0


def measure(guest: Guest, device: str) -> dict[str, float]:
    """By verb, the median of many calls in us."""
    program, library = guest.bring(PROGRAM), guest.bring(LIBRARY)
    directory = Path(library).parent
    environment = f"env LD_LIBRARY_PATH={directory} VRDMA_BENCH_DEVICE={device} VRDMA_BENCH_CALLS={CALLS}"
    guest.run(f"{environment} {program} --benchmark_filter={VERBS} --benchmark_out={directory}/out.json", TIMEOUT_S)
    found = json.loads(guest.read(f"{directory}/out.json"))["benchmarks"]
    return {each["name"].removeprefix("control_verb/").split("/iterations")[0]: each["value"] for each in found}


def test_table(device, guest0, measured):
    """Measures every control verb over vrdma and over SoftRoCE; expects results for all, and writes the table."""
    ours = measure(guest0, device)
    theirs = measure(guest0, add_rxe(guest0))
    remove_rxe(guest0)
    assert ours.keys() == theirs.keys()
    assert len(ours) == 20
    measured.append(f"{'control verb, us':32}{'vrdma':>10}{'rxe':>10}")
    measured.extend(f"{verb:32}{took:10.1f}{theirs[verb]:10.1f}" for verb, took in ours.items())
