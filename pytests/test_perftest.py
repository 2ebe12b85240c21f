# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""perftest between two guests: each operation on each kind of queue pair that supports it. Emulation allows only few
iterations."""

import pytest

from framework.programs import bandwidths, latencies

KINDS_OF = {
    "write": ("RC", "UC"),
    "send": ("RC", "UC", "UD"),
    "read": ("RC",),
    "atomic": ("RC",),
}
OPERATIONS = [(operation, kind) for operation, kinds in KINDS_OF.items() for kind in kinds]
MTU_PAYLOAD = 1024


@pytest.mark.parametrize("operation, kind", OPERATIONS)
def test_latency(pair, operation, kind):
    """Runs 200 operations of 8 bytes, one at a time; expects a plausible result for that size."""
    _, client = pair(f"ib_{operation}_lat -F -c {kind} -s 8 -n 200")
    (line,) = latencies(client)
    assert (line.size, line.iterations) == (8, 200)
    assert 0 < line.minimum <= line.typical <= line.maximum


@pytest.mark.parametrize("operation, kind", OPERATIONS)
def test_bandwidth(pair, operation, kind):
    """Runs 1,000 operations, many of them outstanding at a time; expects all to be carried out."""
    size = 8 if operation == "atomic" else MTU_PAYLOAD
    _, client = pair(f"ib_{operation}_bw -F -c {kind} -s {size} -n 1000")
    (line,) = bandwidths(client)
    assert (line.size, line.iterations) == (size, 1000)


@pytest.mark.parametrize("operation", ["write", "send", "read"])
def test_all_sizes(pair, operation, native):
    """Runs 5 operations of each power of two from 2 B to 8 MB; expects a line for each. Latency is only measured
    natively, because perftest takes half a second per line to measure the processor's clock."""
    _, client = pair(f"ib_{operation}_bw -F -a -n 5")
    assert [line.size for line in bandwidths(client)] == [1 << shift for shift in range(1, 24)]
    if native:
        _, client = pair(f"ib_{operation}_lat -F -a -n 5")
        assert [line.size for line in latencies(client)] == [1 << shift for shift in range(1, 24)]


@pytest.mark.parametrize("operation", ["write", "send", "read"])
def test_one_byte(pair, operation):
    """Runs operations of a single byte; expects them to be counted with this size."""
    _, client = pair(f"ib_{operation}_bw -F -s 1 -n 500")
    assert [line.size for line in bandwidths(client)] == [1]


@pytest.mark.parametrize("operation", KINDS_OF)
def test_many_queue_pairs(pair, operation):
    """Spreads operations over 16 queue pairs; expects all of them to be carried out."""
    size = "" if operation == "atomic" else "-s 4096"
    _, client = pair(f"ib_{operation}_bw -F -q 16 {size} -n 100")
    (line,) = bandwidths(client)
    assert line.iterations == 1600


@pytest.mark.parametrize("operation", KINDS_OF)
def test_both_directions(pair, operation):
    """Runs operations both ways at once; expects all to be carried out."""
    size = "" if operation == "atomic" else "-s 4096"
    _, client = pair(f"ib_{operation}_bw -F -b {size} -n 500")
    (line,) = bandwidths(client)
    assert line.iterations == 500


@pytest.mark.parametrize("operation, kind", [("send", "RC"), ("send", "UD"), ("read", "RC"), ("atomic", "RC")])
def test_events(pair, operation, kind):
    """Sleeps for each completion event instead of polling; expects no lost wake-up."""
    _, client = pair(f"ib_{operation}_lat -F -e -c {kind} -s 8 -n 200")
    (latency,) = latencies(client)
    assert latency.iterations == 200
    _, client = pair(f"ib_{operation}_bw -F -e -c {kind} -s 8 -n 500")
    (bandwidth,) = bandwidths(client)
    assert bandwidth.iterations == 500
