# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The connection manager in processes on the host, which implement it themselves, and in guests, where the kernel has
it. They connect to each other."""

import pytest

from framework.connections import (PINGS, address, allow_users, await_listener, pings, rounds, rping, run_pair,
                                   start_pair)
from framework.lab import TIMEOUT_S, kept
from framework.programs import bandwidths, next_port

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module", autouse=True)
def user_access(guest0):
    with kept(allow_users, guest0):
        yield


@pytest.fixture(params=["process to guest", "guest to process"])
def sides(request, processes, guest0):
    """The server, and the client. Native tests cover connections between two processes."""
    return {"process to guest": (guest0, processes[0]), "guest to process": (processes[0], guest0)}[request.param]


# A case takes seconds if a guest connects before the process listens, because kernels retry after 4 s.
@pytest.mark.parametrize("family, size", [(4, 64), (4, 65000), (6, 64)])
def test_rping(sides, family, size):
    """Connects, and has the server READ and WRITE buffers that the client verifies; expects every round to succeed."""
    server, client = sides
    assert rounds(*start_pair(server, client, *rping(server, family, f"-S {size}"))) == PINGS


@pytest.mark.parametrize("command, port", [("ucmatose -p {port}", None), ("udaddy", 7174)], ids=["ucmatose", "udaddy"])
def test_messages(sides, command, port):
    """Makes 5 connections, or resolves 5 datagram services, exchanges messages and disconnects; expects both sides to
    report success."""
    server, client = sides
    command += " -c 5 -C 10 -S 512"
    for result in run_pair(server, client, f"{command} -b 0.0.0.0", f"{command} -s {address(server, 4)}", port=port):
        assert "return status 0" in result.stdout


@pytest.mark.parametrize("command, answer", [
    ("rping -c -a {address} -p 18599 -C 1", "RDMA_CM_EVENT_REJECTED, error 8"),
    ("udaddy -s {address}", "RDMA_CM_EVENT_UNREACHABLE, error: 1"),
], ids=["connection", "datagrams"])  # fmt: skip
def test_nobody_listens(sides, command, answer):
    """Connects to a service without a listener, beside one that has a listener; expects a prompt error with the reason.
    """
    server, client = sides
    port = next_port()
    listening = server.start(f"rping -s -a 0.0.0.0 -p {port} -C 1")
    await_listener(server, port)
    result = client.run(f"timeout 20 {command.format(address=address(server, 4))}", check=False)
    listening.kill()
    assert answer in result.stdout + result.stderr


def test_killed_peer(processes, guest0):
    """Kills a guest's process that is connected; expects its kernel to disconnect, and the host's process to be told.
    """
    port = next_port()
    server = processes[0].start(f"rping -s -a 0.0.0.0 -p {port}")
    client = guest0.start(f"rping -c -a {address(processes[0], 4)} -p {port} -v")
    assert "rdma-ping-0" in client.next_line(TIMEOUT_S)
    client.kill()
    assert "DISCONNECT EVENT" in server.wait(TIMEOUT_S, check=False).stderr


def test_killed_client(processes, guest0):
    """Kills a host's process that is connected to a guest, which is not told; expects the guest's server to serve the
    next client."""
    port = next_port()
    server = guest0.start(f"rping -s -P -a 0.0.0.0 -p {port}")
    await_listener(guest0, port)
    client = f"rping -c -a {address(guest0, 4)} -p {port} -v"
    victim = processes[0].start(client)
    assert "rdma-ping-0" in victim.next_line(TIMEOUT_S)
    victim.kill()
    again = processes[0].run(f"{client} -C {PINGS}", check=False)
    server.kill()
    assert pings(again) == PINGS


@pytest.mark.parametrize("program, kind", [("ib_write_bw", "RC"), ("ib_send_bw", "UD")])
def test_perftest(device, processes, guest0, program, kind):
    """Has perftest connect by rdma_cm; expects all operations to be carried out. Perftest's client does not wait until
    the server listens for the second time. Without a kernel that delays it, it is too fast for a server in a guest."""
    server, client = processes[0], guest0
    command = f"{program} -R -F -d {device} -p {{port}} -c {kind} -s 1024 -n 500"
    _, result = run_pair(server, client, command, f"{command} {address(server, 4)}")
    (line,) = bandwidths(result)
    assert line.iterations == 500


def test_many_connections(sides):
    """Makes 50 connections at once; expects both sides to report success. The cmtime of one release does not understand
    that of another."""
    server, client = sides
    command = "ucmatose -p {port} -c 50 -C 1 -S 64"
    for result in run_pair(server, client, f"{command} -b 0.0.0.0", f"{command} -s {address(server, 4)}"):
        assert "return status 0" in result.stdout
