# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The ping-pong programs of libibverbs between two guests. With -c they compare each message with what was sent."""

import re

import pytest

PROGRAMS = ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong")


def assert_done(output: str, iterations: int) -> None:
    assert re.search(rf"^{iterations} iters in .* usec/iter", output, re.MULTILINE)
    assert "invalid data" not in output


@pytest.mark.parametrize("wait", ["", "-e"], ids=["polling", "events"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_defaults(pair, program, wait):
    """Sends 200 messages of the default size each way, waiting by polling or by events; expects all to arrive
    intact."""
    for result in pair(f"{program} -c -n 200 {wait}"):
        assert_done(result.stdout, 200)


@pytest.mark.parametrize("size", [1, 32, 4096, 1 << 20, 8 << 20])
def test_rc_sizes(pair, size):
    """Sends 10 messages of each size each way, the small ones inline, up to 8 MB; expects all to arrive intact."""
    for result in pair(f"ibv_rc_pingpong -c -n 10 -s {size}"):
        assert_done(result.stdout, 10)


@pytest.mark.parametrize("program", PROGRAMS)
def test_roce_v1_gid(pair, program):
    """Connects by the GID of type RoCE v1 instead of v2; expects the same results."""
    for result in pair(f"{program} -c -n 50", gid_type="IB/RoCE v1"):
        assert_done(result.stdout, 50)
