# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""UCX over its transports for plain verbs, by ucx_perftest and io_demo."""

import re

import pytest

from framework.connections import address, start_pair
from framework.lab import TIMEOUT_S, Guest
from framework.programs import await_listener, next_port
from framework.sockets import PVRDMA_DEVICE

# The number of messages in the line with the end result.
FINAL = re.compile(r"^Final:\s+(\d+)", re.MULTILINE)
# The number of operations in one of io_demo's reports.
MOVED = re.compile(r"total min:\d+ max:\d+ total:(\d+) \| read")
ITERATIONS = 100


def run(server: Guest, client: Guest, variables: str, options: str) -> int:
    """Returns the number of messages that the client reports."""
    port = next_port()
    command = f"env {variables} ucx_perftest -p {port} {options} -n {ITERATIONS} -w 10"
    waiting = server.start(command)
    await_listener(server, port)
    done = client.run(f"{command} {server.name}", TIMEOUT_S)
    waiting.wait(TIMEOUT_S)
    (count,) = FINAL.findall(done.stdout)
    return int(count)


@pytest.mark.parametrize("transports", ["rc_v", "ud_v"])
@pytest.mark.parametrize("test, size", [("tag_lat", 8), ("tag_bw", 1 << 16), ("ucp_put_lat", 8), ("ucp_get", 1 << 16),
                                        ("ucp_fadd", 8)])
def test_protocols(device, guest0, guest1, transports, test, size):
    """Runs UCP's protocols, eager and by rendezvous, over RC (which UCX connects over UD) and over UD alone; expects
    each message to arrive."""
    variables = f"UCX_TLS={transports} UCX_NET_DEVICES={device}:1"
    assert run(guest0, guest1, variables, f"-t {test} -s {size}") == ITERATIONS


@pytest.mark.parametrize("transport, test, how", [("rc_verbs", "am_lat", "short"), ("rc_verbs", "put_lat", "short"),
                                                  ("rc_verbs", "get", "zcopy"), ("rc_verbs", "fadd", "short"),
                                                  ("ud_verbs", "am_lat", "short")])
def test_transports(device, guest0, guest1, transport, test, how):
    """Runs operations of a transport without UCP; expects each to be carried out."""
    if device == PVRDMA_DEVICE and test.endswith("_lat"):
        how = "bcopy"  # it has no inline data
    size = 4096 if how == "zcopy" else 8
    options = f"-t {test} -x {transport} -d {device}:1 -s {size} -D {how}"
    assert run(guest0, guest1, "UCX_NET_DEVICES=all", options) == ITERATIONS


@pytest.mark.parametrize("transports", ["rc_v", "ud_v"])
@pytest.mark.parametrize("interface", ["", "-A"], ids=["tag", "am"])
def test_connection_manager(device, guest0, guest1, transports, interface):
    """Has a client connect by rdma_cm, and write to and read from the server. Both check the data. Expects each
    operation to be carried out."""
    variables = f"UCX_TLS={transports} UCX_NET_DEVICES={device}:1 UCX_SOCKADDR_TLS_PRIORITY=rdmacm"
    command = f"env {variables} io_demo -p {{port}} -d 8:65536 -q {interface}"
    server, client = start_pair(guest0, guest1, command,
                                f"{command} -o read,write -i {ITERATIONS} {address(guest0, 4)}")
    done = client.wait(TIMEOUT_S)
    server.kill()
    assert sum(int(count) for count in MOVED.findall(done.stdout)) == ITERATIONS
    assert "Client exit with status 'OK'" in done.stdout
