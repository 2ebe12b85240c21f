# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The vrdmad of one host is killed while its devices talk to another host: no connection breaks."""

import signal
import time

import pytest

from framework.lab import TIMEOUT_S
from framework.programs import Program, start_server
from test_restart_sockets import await_traffic

pytestmark = [pytest.mark.hosts, pytest.mark.roce]

CRASHES = 3


# Its timeout of a second lasts longer than a restart.
@pytest.mark.parametrize("command", ["ib_send_bw -F -D 6 -u 18", "ib_write_bw -F -s 65536 -q 8 -D 6 -u 18",
                                     "ib_read_lat -F -D 6 -u 18", "ib_atomic_bw -F -D 6 -u 18"],
                         ids=lambda command: command.split()[0])
def test_programs_continue(guest0, guest1, device, lab, command):
    """Kills the vrdmad of one host several times under a program of perftest; expects both sides to end with
    success."""
    if lab.sanitizers.used:
        pytest.skip("a sanitizer knows the threads of one process, so pollers have none of their own")
    program = Program(command, device)
    server, port = start_server(program, guest0)
    client = guest1.start(f"{program.arguments(guest1, port)} {guest0.name}")
    first = f"{guest0.name.replace('.', '-')}/0"
    for _ in range(CRASHES):
        await_traffic(lab, guest0.name, first)
        lab.crash_mediator(signal.SIGKILL)
        lab.start_mediator_again().await_line(": continues", TIMEOUT_S)
        time.sleep(0.2)  # a part of the run between two crashes
    client.wait(TIMEOUT_S)
    server.wait(TIMEOUT_S)
