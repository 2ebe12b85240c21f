# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""vrdmad is killed, or crashes, while processes use devices behind its sockets: the next one takes the devices over,
and no connection breaks. What cannot be taken over fails."""

import os
import re
import signal
import time
from collections.abc import Callable

import pytest

from framework.children import engine_of, runs
from framework.connections import rounds, rping, start_pair
from framework.endpoint import connect
from framework.lab import TIMEOUT_S
from framework.native import Native
from framework.programs import Program, start_server
from framework.verbs import VerbsError
from test_atomics import set_value, value
from test_restart_sockets import PAIRS, RINGS, assert_that_messages_wait, await_traffic, still, stop, write_both_ways

pytestmark = [pytest.mark.native, pytest.mark.together]

CRASHES = 3
SIGNALS = [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT]
ADDITIONS = 8
# A driver looks at its device just after that continues. If vrdmad is killed then, the device fails. Nothing reports
# the end of that.
CALM_S = 0.1


@pytest.fixture(autouse=True)
def with_engine_process(lab: Native) -> None:
    if lab.sanitizers.used:
        pytest.skip("a sanitizer knows the threads of one process, so pollers have none of their own")


@pytest.fixture
def crash(lab: Native) -> Callable[..., float]:
    """Crashes vrdmad, starts the next one, and returns when so many devices continue. Returns for how long they stood
    still, in ms."""

    def action(devices: int, number: signal.Signals = signal.SIGKILL) -> float:
        stood_still = still(lab.crash_mediator(number), lab.start_mediator_again(), devices)
        time.sleep(CALM_S)
        return stood_still

    return action


@pytest.mark.parametrize("command", ["ib_send_lat -F -D 6", "ib_read_lat -F -D 6", "ib_send_bw -F -D 6",
                                     "ib_write_bw -F -s 65536 -q 8 -D 6", "ib_atomic_bw -F -D 6"],
                         ids=lambda command: command.split()[0])
def test_programs_continue(guest0, guest1, device, lab, crash, command):
    """Crashes vrdmad in several ways under a program of perftest; expects both sides to end with success."""
    program = Program(command, device)
    server, port = start_server(program, guest0)
    client = guest1.start(f"{program.arguments(guest1, port)} {guest0.name}")
    await_traffic(lab)
    for number in SIGNALS:
        crash(2, number)
    client.wait(TIMEOUT_S)
    server.wait(TIMEOUT_S)


def test_connection_manager(guest0, guest1, lab, crash):
    """Kills vrdmad under rping, which connects by rdma_cm, READs, WRITEs and compares; expects it to succeed."""
    listening, connecting = rping(guest0, 4)
    server, client = start_pair(guest0, guest1, f"{listening} -C {RINGS}", f"{connecting} -C {RINGS}")
    await_traffic(lab)
    for _ in range(CRASHES):
        crash(2)
    assert rounds(server, client) == RINGS


def test_connections_continue(connected, crash):
    """Kills vrdmad under connected processes with sends that wait for receives; expects all messages, and each
    operation to work."""
    assert_that_messages_wait(connected, crash, CRASHES)


def test_atomics_happen_once(connected, crash):
    """Kills vrdmad again and again, just after additions were posted; expects the sum that they make."""
    left, right = connected()
    set_value(right, 0)
    for _ in range(3 * CRASHES):
        for _ in range(ADDITIONS):
            left.send("ATOMIC_FETCH_AND_ADD", length=8, target=right.target(), compare_add=1)
        crash(2)
        assert left.sent(ADDITIONS) == ["SUCCESS"] * ADDITIONS
    assert value(right) == 3 * CRASHES * ADDITIONS


def test_nothing_is_left(endpoint, guest0, guest1, lab, crash):
    """Kills vrdmad; expects its engine process to end as soon as the clients have their states."""
    left, right = endpoint(guest0), endpoint(guest1)
    connect(left, right)
    mediator = lab.mediators[0]
    engine = engine_of(mediator.pid)
    crash(2)
    mediator.wait(1, check=False)  # all of its output, of both processes
    assert not runs(engine)
    write_both_ways(left, right)


def test_both_die(endpoint, guest0, lab):
    """Kills vrdmad and its engine process; expects a process to lose its device, and the next one to get one."""
    side = endpoint(guest0)
    engine = engine_of(lab.mediators[0].pid)
    stop(lab.mediators[0].pid)  # it would end by itself
    os.kill(engine, signal.SIGKILL)
    lab.crash_mediator()
    lab.start_mediator_again()
    assert "DEVICE_FATAL" in side.device.await_event("DEVICE_FATAL", 20)
    with pytest.raises(VerbsError):
        side.pd.mr(4096, ["LOCAL_WRITE"])
    side.device.session.kill()
    endpoint(guest0, process=1).initialize()


def test_gap(guest0, guest1, device, lab, crash, measured):
    """Kills vrdmad under a thousand busy queue pairs; expects all to continue, and reports for how long they stood
    still."""
    program = Program(f"ib_write_bw -F -s 4096 -q {PAIRS} -t 8 -D 6", device)
    server, port = start_server(program, guest0)
    client = guest1.start(f"{program.arguments(guest1, port)} {guest0.name}")
    await_traffic(lab)
    gaps = [crash(2) for _ in range(CRASHES)]
    result = client.wait(TIMEOUT_S)
    server.wait(TIMEOUT_S)
    assert re.search(rf"Number of qps\s*: {PAIRS}", result.stdout)
    measured.append(f"{2 * PAIRS} QPs stood still for {', '.join(f'{gap:.0f}' for gap in gaps)} ms")
