# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A vrdmad that reads its configuration again (SIGHUP) while its devices are used."""

import time
from collections.abc import Callable, Iterator

import pytest

from framework.endpoint import Endpoint
from framework.native import Native

pytestmark = pytest.mark.native

TRANSFER = 20 << 20
FAST = 10_000_000  # bytes per second: two seconds for the transfer
SLOW = 100_000  # bytes per second: more than three minutes for the transfer


@pytest.fixture
def limit(lab: Native) -> Iterator[Callable[[int], str]]:
    """Limits the first device to a number of bytes per second; restores its old limit after the test."""
    usual = lab.configurations[0].read_text()

    def change(bytes_per_second: int, **says: str) -> str:
        own = f'type = "medium"\nmax_bytes_per_second = {bytes_per_second}'
        return lab.reconfigure(usual.replace('type = "medium"', own, 1), **says)

    yield change
    lab.reconfigure(usual)


@pytest.fixture
def transfer(connected) -> tuple[Endpoint, Endpoint]:
    """Queue pairs on the first device and on the second, which were connected before any limit was set."""
    return connected(options={"buffer": TRANSFER})


def write(left: Endpoint, right: Endpoint) -> None:
    left.send("RDMA_WRITE", length=TRANSFER, target=right.target())


def seconds_of_a_write(left: Endpoint, right: Endpoint) -> float:
    begin = time.monotonic()
    write(left, right)
    assert left.sent(timeout=60) == ["SUCCESS"]
    return time.monotonic() - begin


def test_lower_and_raise(limit, transfer) -> None:
    """Lowers a running device's limit, and raises it during a transfer; expects the same queue pairs to obey both."""
    left, right = transfer
    limit(FAST)
    assert seconds_of_a_write(left, right) > TRANSFER / FAST / 2
    limit(SLOW)
    write(left, right)
    limit(0)
    assert left.sent(timeout=60) == ["SUCCESS"]


def test_of_the_asking_device_only(limit, transfer) -> None:
    """Limits the target of a WRITE, so that its own requests would not complete; expects the peer's WRITE to complete.
    """
    limited, free = transfer
    limit(SLOW)
    assert seconds_of_a_write(free, limited) < TRANSFER / SLOW / 2


def test_invalid_configuration(limit, transfer) -> None:
    """Has vrdmad read an invalid file after one with a limit; expects a log line, and the limit to stay."""
    left, right = transfer
    limit(FAST)
    assert "max_bytes_per_second = -1: must be a number" in limit(-1, says="nothing changes")
    assert seconds_of_a_write(left, right) > TRANSFER / FAST / 2
