# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Several programs in one guest: connected to each other, or independent users of the device."""

import pytest

from framework import programs
from framework.programs import Program, bandwidths, latencies


@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"])
def test_pingpong(pair, guest0, program):
    """Runs both sides of a ping-pong in one guest, sleeping for events; expects all messages to arrive intact."""
    for result in pair(f"{program} -c -e -n 100", guest0, guest0):
        assert "100 iters in" in result.stdout
        assert "invalid data" not in result.stdout


@pytest.mark.parametrize("command", ["ib_write_bw", "ib_send_bw", "ib_read_bw"])
def test_bandwidth(pair, guest0, command):
    """Runs both sides of a bandwidth test in one guest; expects all operations to be carried out."""
    _, client = pair(f"{command} -F -s 4096 -n 200", guest0, guest0)
    (line,) = bandwidths(client)
    assert line.iterations == 200


def test_two_pairs_at_once(device, guest0, guest1):
    """Runs two latency tests between the same guests at the same time, one each way; expects both to finish."""
    write, send = Program("ib_write_lat -F -s 64 -n 200", device), Program("ib_send_lat -F -e -s 64 -n 200", device)
    forth = programs.start_server(write, guest0), write, guest1, guest0
    back = programs.start_server(send, guest1), send, guest0, guest1
    clients = [client.start(f"{program.arguments(client, port)} {server.name}")
               for (_, port), program, client, server in (forth, back)]  # fmt: skip
    for process in (*clients, forth[0][0], back[0][0]):
        (line,) = latencies(process.wait(120))
        assert line.iterations == 200


def test_keys_are_of_one_process_domain(endpoint, guest0):
    """Has a process send from memory that another process registered; expects LOC_PROT_ERR, because the processes share
    only the device."""
    owner, thief = endpoint(guest0), endpoint(guest0, process=1)
    for side, peer in ((owner, thief), (thief, owner)):
        side.initialize()
        side.connect(peer)
    thief.qp.post_send("RDMA_WRITE", 1, [[owner.mr.addr, 64, owner.mr.lkey]], target=owner.target())
    assert thief.sent() == ["LOC_PROT_ERR"]


def test_each_process_has_its_own_numbers(endpoint, guest0):
    """Creates 8 queue pairs and regions in two processes; expects all numbers and keys to differ, and not to be
    consecutive."""
    sides = [endpoint(guest0, process=number % 2) for number in range(8)]
    for numbers in ([side.qp.num for side in sides], [side.mr.rkey for side in sides]):
        assert len(set(numbers)) == len(numbers)
        assert not any(later - earlier == 1 for earlier, later in zip(numbers, numbers[1:], strict=False))
