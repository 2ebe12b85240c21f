# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The connection manager between guests or processes: management datagrams over QP1, and stock programs that use it."""

import re
from contextlib import ExitStack

import pytest

from framework import connections
from framework.connections import PINGS, address, allow_users, rounds, rping, run_pair, start_pair, start_rping
from framework.lab import TIMEOUT_S, kept
from framework.programs import await_listener, bandwidths, latencies, next_port

FAMILIES = [4, 6]
ANY = {4: "-b 0.0.0.0", 6: "-b ::"}
GROUP = "239.77.0.1"
VENDOR = 0x7276  # the value of ibv_query_ece(3)


@pytest.fixture(scope="module", autouse=True)
def user_access(native, guest0, guest1):
    """Loads rdma_ucm, by which programs in guests reach the connection manager."""
    with ExitStack() as stack:
        for guest in () if native else (guest0, guest1):
            stack.enter_context(kept(allow_users, guest))
        yield


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [64, 65000])
def test_rping(device, guest0, guest1, family, size):
    """Connects, and has the server READ and WRITE buffers that the client verifies; expects every round to succeed."""
    assert rounds(*start_pair(guest0, guest1, *rping(guest0, family, f"-S {size}"))) == PINGS


def test_rping_within_a_guest(device, guest0):
    """Connects to the guest's own address; expects QP1's messages to loop back."""
    port = next_port()
    _, connect = rping(guest0, 4)
    assert rounds(start_rping(guest0, port), guest0.start(connect.format(port=port))) == PINGS


@pytest.mark.parametrize("vendor", [VENDOR, 0xABCDEF], ids=["ours", "another"])
def test_ece(device, guest0, guest1, vendor):
    """Connects queue pairs that librdmacm does not know, with a vendor and options (ECE); expects each side to get the
    other side's values."""
    server, client = (f"python3 {guest.programs}/ece.py {{port}}" for guest in (guest0, guest1))
    asked, answered = run_pair(guest0, guest1, server, f"{client} {address(guest0, 4)} {vendor:#x} 0x80000001")
    assert asked.stdout == f"vendor {vendor:#x}, options 0x80000001\n"
    assert answered.stdout == f"vendor {vendor:#x}, options 0x80000002\n"


def test_several_processes(device, guest0, guest1):
    """Makes three connections each way at once; expects each to belong to its own port and process."""
    pairs = []
    for server, client in ((guest0, guest1), (guest1, guest0)) * 3:
        port = next_port()
        _, connect = rping(server, 4)
        pairs.append((start_rping(server, port), client.start(connect.format(port=port))))
    for server, client in pairs:
        assert rounds(server, client) == PINGS


def test_a_port_is_one_process(device, guest0, guest1):
    """Has a second process listen on a port that has a listener. Expects an error (from Linux, if one of them listens
    at all addresses, that its own is not available), and connections to reach the first."""
    port = next_port()
    listen, connect = (command.format(port=port) for command in rping(guest0, 4))
    server = start_rping(guest0, port)
    second = guest0.run(listen, check=False)
    assert second.status != 0
    assert re.search("Address already in use|Cannot assign requested address", second.stderr)
    assert rounds(server, guest1.start(connect)) == PINGS


def test_nobody_listens(device, guest0, guest1):
    """Connects to a port without a listener, while another port has one; expects a prompt rejection instead of a
    timeout."""
    port = next_port()
    server = guest0.start(f"rping -s -a 0.0.0.0 -p {port} -C 1")
    connections.await_listener(guest0, port)
    result = guest1.run(f"timeout 20 rping -c -a {address(guest0, 4)} -p 18599 -C 1", check=False)
    server.kill()
    assert result.status not in (0, 124)
    assert "REJECTED" in result.stdout + result.stderr


@pytest.mark.parametrize("family", FAMILIES)
def test_messages(device, guest0, guest1, family):
    """Makes 5 connections and exchanges messages; expects both sides to report success."""
    command = "ucmatose -p {port} -c 5 -C 10 -S 512"
    sides = run_pair(guest0, guest1, f"{command} {ANY[family]}", f"{command} -s {address(guest0, family)}")
    for result in sides:
        assert "return status 0" in result.stdout


@pytest.mark.parametrize("family", FAMILIES)
def test_datagrams(device, guest0, guest1, family):
    """Resolves 5 datagram services and exchanges messages; expects both sides to report success."""
    command = "udaddy -c 5 -C 10 -S 512"
    sides = run_pair(guest0, guest1, f"{command} {ANY[family]}", f"{command} -s {address(guest0, family)}", port=7174)
    for result in sides:
        assert "return status 0" in result.stdout


def mckey(guest, options=""):
    """Starts a program and waits until it has joined a group."""
    running = guest.start(f"stdbuf -oL mckey -m {GROUP} -b {address(guest, 4)} {options}")
    while "joined" not in running.next_line(TIMEOUT_S):
        pass
    return running


def test_multicast(device, guest0, guest1):
    """Joins a group in both guests and sends to it from one; expects 10 messages for each of two members in both."""
    receivers = [mckey(guest, "-c 2") for guest in (guest0, guest1)]
    for process in (*receivers, mckey(guest1, "-s")):
        assert "data transfers complete" in process.wait(TIMEOUT_S).stdout


def test_many_connections(device, guest0, guest1):
    """Makes and closes 50 connections; expects a time for each step."""
    server, client = start_pair(guest0, guest1, "cmtime -p {port} -c 50",
                                f"cmtime -p {{port}} -c 50 -s {address(guest0, 4)}")
    result = client.wait(TIMEOUT_S)
    server.kill()
    for step in ("create id", "resolve addr", "resolve route", "create qp", "connect", "disconnect", "destroy"):
        assert step in result.stdout


@pytest.mark.parametrize("family", FAMILIES)
def test_rsockets(device, guest0, guest1, family):
    """Streams over rsockets with verification; expects a result for each direction."""
    options = "-p {port} -S 4096 -C 100 -I 1 -T v"
    _, client = run_pair(guest0, guest1, f"rstream {options} {ANY[family]}",
                         f"rstream {options} -s {address(guest0, family)}")
    assert "4k" in client.stdout


@pytest.mark.parametrize("endpoint", ["msg", "rdm"])
def test_libfabric(device, guest0, guest1, endpoint):
    """Ping-pongs over libfabric's verbs provider: connected endpoints, and reliable datagrams on top of them. Expects
    both sides to report all rounds. The test does not wait for their end: when the peer disconnects, libfabric (rxm)
    drops messages of the connection that it has not polled, even the message about the end."""
    provider = {"msg": "verbs", "rdm": "verbs;ofi_rxm"}[endpoint]
    command = f"stdbuf -oL fi_pingpong -p '{provider}' -e {endpoint} -I 20 -S 1024 -c"
    port = next_port()
    server = guest0.start(f"{command} -B {port}")
    await_listener(guest0, port)  # of TCP, by which the two sides find each other
    client = guest1.start(f"{command} -P {port} {guest0.name}")
    for side in (client, server):
        while not re.match(r"1k\s+20\s", side.next_line(TIMEOUT_S)):
            pass
    for side in (client, server):
        side.kill()


@pytest.mark.parametrize("program", ["ib_write_lat", "ib_send_lat", "ib_read_lat"])
def test_perftest_latency(device, guest0, guest1, program):
    """Has perftest connect by rdma_cm; expects a plausible result."""
    command = f"{program} -R -F -d {device} -p {{port}} -s 8 -n 200"
    _, client = run_pair(guest0, guest1, command, f"{command} {address(guest0, 4)}")
    (line,) = latencies(client)
    assert line.iterations == 200
    assert 0 < line.minimum <= line.typical <= line.maximum


@pytest.mark.parametrize("program, kind", [("ib_write_bw", "RC"), ("ib_send_bw", "RC"), ("ib_send_bw", "UD")])
def test_perftest_bandwidth(device, guest0, guest1, program, kind):
    """Has perftest connect by rdma_cm, for datagrams too; expects all operations to be carried out."""
    command = f"{program} -R -F -d {device} -p {{port}} -c {kind} -s 1024 -n 500"
    _, client = run_pair(guest0, guest1, command, f"{command} {address(guest0, 4)}")
    (line,) = bandwidths(client)
    assert line.iterations == 500


@pytest.mark.lab
def test_gsi_is_the_kernels(device, guest0):
    """Looks for the owner of QP1; expects the kernel's MAD layer, and no other."""
    lines = [line for line in guest0.script("rdma resource show qp").stdout.splitlines() if " lqpn 1 " in line]
    assert len(lines) == 1
    assert f"{device}/1" in lines[0]
    assert "type GSI state RTS" in lines[0]
    assert "[ib_core]" in lines[0]


@pytest.mark.lab
def test_netdev_in_sysfs(device, guest0):
    """Looks for the paired netdev at the place where programs look; expects it and its address there, and no other."""
    directory = f"/sys/class/infiniband/{device}/device/net"
    nic = guest0.nic
    assert guest0.script(f"ls {directory}").stdout.split() == [nic]
    assert guest0.script(f"cat {directory}/{nic}/address").stdout.strip() == guest0.mac
