# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Virtual machines that are saved to files and restored later, by QEMU's migration to a file."""

from collections.abc import Callable

import pytest

from framework.detached import Detached
from framework.programs import Program, await_listener, next_port

pytestmark = pytest.mark.lab_hosts

# Retries of this timeout last for eight seconds.
PATIENT = "-u 18"
MESSAGES = 16000
# So ib_write_bw reports IBV_WC_RETRY_EXC_ERR.
LOST = "status 12"


@pytest.fixture
def start(guest0, guest1, device) -> Callable[[str], tuple[Detached, Detached]]:
    """Starts a program's server in one guest and its client in the other."""

    def do(command: str) -> tuple[Detached, Detached]:
        program, port = Program(f"{command} {PATIENT}", device), next_port()
        server = Detached(guest1, program.arguments(guest1, port))
        await_listener(guest1, port)
        return server, Detached(guest0, f"{program.arguments(guest0, port)} {guest1.name}")

    return do


def test_together(start, guest0, guest1, health):
    """Stops two guests in the middle of READs, saves both, and restores both on vrdmads that have started meanwhile;
    expects all to be carried out. test_mediators_restart says why these are no SENDs."""
    server, client = start(f"ib_read_lat -e -F -n {MESSAGES}")
    for guest in (guest0, guest1):
        guest.monitor("stop")
    for guest in (guest0, guest1):
        guest.save()
    health.restart_mediators()
    for guest in (guest0, guest1):
        guest.restore()
    for guest in (guest0, guest1):
        guest.resume()
    assert client.goes_on()
    client.output()
    server.output()


def test_alone(start, guest0, guest1, works):
    """Saves a guest in the middle of WRITEs, ends its peer, and restores the guest; expects its QP to find its peer
    lost, and new connections to work."""
    _, client = start(f"ib_write_bw -F -s 4096 -n {100 * MESSAGES}")
    guest0.save()
    guest1.run("pkill ib_write_bw")
    guest0.restore()
    assert client.status() != 0
    assert LOST in guest0.read("/root/output")
    works()
