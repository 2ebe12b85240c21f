# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""vrdma-torture between two virtual machines that move and rest meanwhile."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from framework.detached import Detached
from framework.lab import PROJECT, Guest
from framework.moving import AWAY, HOME, host_of, restore, resume, save, stop
from framework.programs import await_listener, next_port

pytestmark = pytest.mark.lab_hosts

PROGRAM = PROJECT / "build/release/torture/vrdma-torture"
# A run lasts for some moves. A sleeping VM's peer waits for it without an end, as both sleep at once.
RUN = "--seconds 20 --conversations 2 --steps 60 --lossy"


@pytest.fixture
def torture(device: str, mover: Guest, guest1: Guest) -> Callable[[], tuple[Detached, Detached]]:
    """Starts both sides, which do not depend on connections to their guests."""
    for guest in (mover, guest1):
        guest.bring(PROGRAM)

    def start() -> tuple[Detached, Detached]:
        port = next_port()
        own = [f"/root/{PROGRAM.name} --device {device} --gid-index {guest.gid(device).index} --port {port} {RUN}"
               for guest in (guest1, mover)]
        server = Detached(guest1, own[0])
        await_listener(guest1, port)
        return server, Detached(mover, f"{own[1]} {guest1.name}")

    return start


def move(guest: Guest) -> None:
    guest.migrate(AWAY if host_of(guest) == HOME else HOME)


def save_and_restore(*guests: Guest) -> None:
    stop(*guests)
    save(*guests)
    restore(*guests)
    resume(*guests)


def test_random_verbs(torture, mover, guest1, health, measured, pytestconfig):
    """Moves two guests, saves and restores them, and restarts the vrdmads, at random, while random verbs run between
    the guests; expects every message to be right."""
    wanted = pytestconfig.getoption("torture_moves")
    events = {"moves": lambda: move(mover), "moves of the other": lambda: move(guest1),
              "restarts": health.restart_mediators, "restores": lambda: save_and_restore(mover, guest1)}  # fmt: skip
    chance = random.SystemRandom()
    done: Counter[str] = Counter()
    results = []
    while done.total() < wanted:
        server, client = torture()
        while client.goes_on():
            name = chance.choice(list(events))
            events[name]()
            done[name] += 1
        results.append(client.output().splitlines()[-1])
        assert "nothing wrong" in results[-1]
        server.output()
    measured.append(f"vrdma-torture over {', '.join(f'{count} {name}' for name, count in done.items())}: "
                    f"{'; '.join(results)}")
