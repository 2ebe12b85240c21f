# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""64-bit atomic operations: their results, and that they are atomic against each other across guests."""

import pytest

from framework.endpoint import connect

COUNT = 300
MASK = (1 << 64) - 1


def value(side, offset: int = 0) -> int:
    return int.from_bytes(bytes.fromhex(side.mr.read(offset, 8)), "little")


def set_value(side, number: int, offset: int = 0) -> None:
    side.mr.write(offset, number.to_bytes(8, "little").hex())


def atomic(left, opcode: str, target: list, **operands) -> int:
    """Carries out one operation; returns the old value."""
    left.send(opcode, length=8, target=target, **operands)
    assert left.sent() == ["SUCCESS"]
    return value(left)


@pytest.mark.parametrize("before, add", [(5, 7), (MASK, 1), (0, MASK), (1 << 63, 1 << 63)])
def test_fetch_and_add(connected, before, add):
    """Adds, with and without overflow; expects the old value as the result, and the sum modulo 2^64 in memory."""
    left, right = connected()
    set_value(right, before)
    assert atomic(left, "ATOMIC_FETCH_AND_ADD", right.target(), compare_add=add) == before
    assert value(right) == (before + add) & MASK


@pytest.mark.parametrize("compare, after", [(0x1122334455667788, 0xff00000000000001), (0x1122334455667789, None)])
def test_compare_and_swap(connected, compare, after):
    """Swaps if the value is the expected one; expects the old value as the result, and the new one in memory only then.
    """
    left, right = connected()
    before = 0x1122334455667788
    set_value(right, before)
    found = atomic(left, "ATOMIC_CMP_AND_SWP", right.target(), compare_add=compare, swap=0xff00000000000001)
    assert found == before
    assert value(right) == (before if after is None else after)


@pytest.fixture
def rivals(endpoint, guest0, guest1):
    """The owner of a counter in guest0, and two users of it: one in each guest."""
    owner = endpoint(guest0)
    clients = [endpoint(guest0), endpoint(guest1)]
    for client, server in zip(clients, (owner, owner.another()), strict=True):
        connect(client, server)
    return owner, clients


def test_rivals_fetch_and_add(rivals):
    """Has both guests add 1 to one counter 300 times at once; expects each value to occur once, and the exact sum."""
    owner, clients = rivals
    running = [client.qp.begin("fetch_add", COUNT, client.send_cq, client.sge(0, 8), owner.target())
               for client in clients]
    seen = [number for finish in running for number in finish()]
    assert sorted(seen) == list(range(2 * COUNT))
    assert value(owner) == 2 * COUNT


def test_rivals_compare_and_swap(rivals):
    """Has one guest add by compare-and-swap while the other fetches and adds; expects no addition to be lost."""
    owner, (swapper, adder) = rivals
    swapping = swapper.qp.begin("compare_swap_add", COUNT, swapper.send_cq, swapper.sge(0, 8), owner.target())
    adding = adder.qp.begin("fetch_add", COUNT, adder.send_cq, adder.sge(0, 8), owner.target())
    attempts = swapping()
    adding()
    assert value(owner) == 2 * COUNT
    assert attempts >= COUNT
