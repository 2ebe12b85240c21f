# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""vrdma-torture: random verbs from both sides at once. Every message is verified, and processes are killed."""

import itertools
import random
import re
import subprocess
import time
from pathlib import Path

import pytest

from framework import programs
from framework.lab import PROJECT, Guest
from framework.native import BUILD, Native
from framework.process import Failure, Process
from framework.text import found

# It only matters for a failure: without one, a run ends soon after its time is up.
TIMEOUT_S = 300.0
HOSTILE_S = 4
SCRIPT_STEPS = 2000
# All neighbours except packet_flood, which is another host.
NEIGHBOURS = ("write_flood", "moderated_cqs", "registration_storm", "hole_punching", "multicast_flood",
              "doorbell_storm",
              "odp_storm", "odp_silence", "garbage_requests", "garbage_commands")  # fmt: skip


@pytest.fixture
def torture(native, device, guest0, guest1):
    """Starts both sides; returns their processes."""
    program = (BUILD if native else PROJECT / "build/release") / "torture/vrdma-torture"

    def start(server: Guest, client: Guest, options: str) -> tuple[Process, Process]:
        port = programs.next_port()
        own = [f"{guest.bring(program)} --device {device} --gid-index {guest.gid(device).index} --port {port}"
               for guest in (server, client)]
        waiting = server.start(own[0])
        programs.await_listener(server, port)
        return waiting, client.start(f"{own[1]} {options} {server.name}")

    return start


def test_random_verbs(torture, guest0, guest1, native, measured, pytestconfig):
    """Runs for a while, in the lab as two pairs of processes at once; expects every message to be right."""
    seconds = pytestconfig.getoption("torture_seconds")
    directions = [(guest0, guest1)] if native else [(guest0, guest1), (guest1, guest0)]
    size = "" if native else "--conversations 2 --steps 60"
    running = [torture(server, client, f"--seconds {seconds} {size}") for server, client in directions]
    for waiting, client in running:
        result = client.wait(seconds + TIMEOUT_S)
        assert waiting.wait(TIMEOUT_S).status == 0
        assert "nothing wrong" in result.stdout
        measured.append(f"vrdma-torture: {result.stdout.splitlines()[-1]}")


def first_difference(left: list[str], right: list[str]) -> str:
    """The first difference, with its scene."""
    number, lines = next((number, lines) for number, lines in enumerate(itertools.zip_longest(left, right))
                         if lines[0] != lines[1])
    begin = max((at for at in range(min(number, len(left))) if left[at].startswith("scene")), default=0)
    return "\n".join([*left[begin:number], f"here:    {lines[0]}", f"there:   {lines[1]}"])


def suspensions(lab: Native) -> int:
    """How often a device was suspended, as others had waited for its memory."""
    return sum("suspended, because" in line for mediator in lab.mediators for line in mediator.lines("stderr"))


@pytest.mark.native  # in guests the host makes the difference as well
def test_placement_cannot_be_seen(torture, lab, guest0, guest1, tmp_path, measured, pytestconfig):
    """Runs random scripts, each between two processes of one device and between the two devices; expects both pairs to
    get the same statuses, bytes, events and states. A machine that is too busy for the scripts' memory suspends a
    device, whose peer on another host loses it then; two such scripts do not count."""
    seeds = random.SystemRandom()
    steps = scripts = broken = 0
    end = time.monotonic() + pytestconfig.getoption("torture_seconds")

    def play(client: Guest, seed: int, to: Path) -> tuple[Process, Process]:
        return torture(guest0, client, f"--seed {seed} --round 0 --steps {SCRIPT_STEPS} --transcript {to}")

    while scripts == 0 or time.monotonic() < end:
        seed = seeds.getrandbits(32)
        paths = [tmp_path / "here", tmp_path / "there"]
        running = [play(client, seed, path) for client, path in zip((guest0, guest1), paths, strict=True)]
        before = suspensions(lab)
        try:
            for process in itertools.chain(*running):
                result = process.wait(TIMEOUT_S)
        except Failure:
            broken += 1
            if suspensions(lab) == before or broken > 2:
                raise
            for process in itertools.chain(*running):
                process.kill()
            continue
        here, there = (path.read_text().splitlines() for path in paths)
        assert here == there, f"seed {seed}: {first_difference(here, there)}"
        steps += int(found(r"(\d+) steps", result.stdout)[1])
        scripts += 1
    measured.append(f"vrdma-torture saw no difference in {steps} steps of {scripts} scripts")


def standstills(mediator: Process, begin: int) -> list[int]:
    """The times, in ms, for which a device has stood still, from log line `begin` of vrdmad on. Returns when the device
    owes nothing."""
    while True:
        said = mediator.lines("stderr", begin)
        turns = [line for line in said if "suspended" in line or "is paid" in line]
        if not turns or "is paid" in turns[-1]:
            return [int(match[1]) for line in said if (match := re.search(r"resumed after (\d+) ms", line))]
        mediator.await_line("is paid", TIMEOUT_S, begin=begin + len(said))


def played_beside(name: str, neighbour: Process, server: Process, client: Process) -> str:
    """Expects that both sides found no error and that the neighbour was active; returns a line for the summary."""
    result = client.wait(HOSTILE_S + TIMEOUT_S)
    assert server.wait(TIMEOUT_S).status == 0
    assert "nothing wrong" in result.stdout
    assert f"{name} is at work" in neighbour.wait(HOSTILE_S + TIMEOUT_S).stdout
    return f"vrdma-torture beside {name}: {result.stdout.splitlines()[-1]}"


@pytest.mark.native  # in a guest there is no socket, and thousands of objects take too long
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_beside_a_hostile_neighbour(torture, lab, guest0, guest1, device, measured, name):
    """Runs between two processes of one device, beside a hostile process of the other; expects every message to be
    right, and the neighbour to have been active."""
    mediator = lab.mediator_of(guest1.name)
    begin = len(mediator.lines("stderr"))
    neighbour = guest1.start(f"{BUILD}/torture/vrdma-torture --hostile={name} --device {device} --seconds {HOSTILE_S}"
                             f" --gid-index {guest1.gid(device).index} --socket {lab.socket(guest1.name)}")  # fmt: skip
    measured.append(played_beside(name, neighbour, *torture(guest0, guest0, f"--seconds {HOSTILE_S}")))
    standstills(mediator, begin)  # the next test's process may get the same function


@pytest.mark.lab
@pytest.mark.parametrize("name", ["garbage_requests", "multicast_flood"])  # these need no socket, and few objects
def test_beside_a_hostile_guest(torture, guest0, guest1, device, measured, name):
    """Runs between two processes of one guest, beside another guest that is hostile; expects every message to be right,
    and that guest to have been active."""
    program = guest1.bring(PROJECT / "build/release/torture/vrdma-torture")
    neighbour = guest1.start(f"{program} --hostile={name} --device {device} --seconds {HOSTILE_S}"
                             f" --gid-index {guest1.gid(device).index}")  # fmt: skip
    sides = torture(guest0, guest0, f"--seconds {HOSTILE_S} --conversations 2 --steps 60")
    measured.append(played_beside(name, neighbour, *sides))


@pytest.mark.hosts
@pytest.mark.roce
def test_beside_a_flood_of_packets(torture, guest0, guest1, device, measured):
    """Runs between two processes of one device, while the other host sends it packets as fast as it can; expects every
    message to be right, and that host to have been active."""
    neighbour = guest1.start(f"{BUILD}/torture/vrdma-torture --hostile=packet_flood --device {device} --seconds "
                             f"{HOSTILE_S}"
                             f" --network {guest0.name}")  # fmt: skip
    sides = torture(guest0, guest0, f"--seconds {HOSTILE_S}")
    measured.append(played_beside("packet_flood", neighbour, *sides))


@pytest.mark.native
def test_waits_are_paid_for(lab, guest1, device, measured):
    """Punches holes into memory that its device touches; expects the device to stand still, because the poller has
    waited, and to continue in the end."""
    mediator = lab.mediator_of(guest1.name)
    if any("are not held back" in line for line in mediator.lines("stderr")):
        pytest.skip("the kernel tells nobody of faults")
    begin = len(mediator.lines("stderr"))
    neighbour = guest1.start(f"{BUILD}/torture/vrdma-torture --hostile=hole_punching --device {device} --seconds "
                             f"{HOSTILE_S}"
                             f" --gid-index {guest1.gid(device).index} --socket {lab.socket(guest1.name)}")  # fmt: skip
    neighbour.wait(HOSTILE_S + TIMEOUT_S)
    stood = sum(standstills(mediator, begin))
    measured.append(f"while it punched holes for {HOSTILE_S} s, a device stood still for {stood} ms")
    assert stood > 100  # the cost of one long wait; a busy machine may have only one


@pytest.mark.native  # the program's own output is the same in guests
def test_seed_reproduces(torture, guest0, guest1):
    """Runs the same round twice, without killing a process; expects both sides to send the same messages again."""

    def play() -> list[str]:
        server, client = torture(guest0, guest1, "--seed 1 --round 2 --conversations 2 --steps 60")
        return [process.wait(TIMEOUT_S).stdout for process in (client, server)]

    first = play()
    assert all(re.search(r"seed 1 round 2: [1-9]\d* messages", side) for side in first)
    assert play() == first


@pytest.mark.native
def test_failure_names_its_place(torture, guest0, guest1):
    """Kills the server; expects the client to fail, and to print the seed and the round."""
    server, client = torture(guest0, guest1, "--seed 7 --seconds 600")
    client.next_line(TIMEOUT_S)
    server.kill()
    result = client.wait(TIMEOUT_S, check=False)
    assert result.status == 1
    assert re.search(r"torture: seed 7 round \d+ .*the peer is gone", result.stderr) or "broken" in result.stderr


@pytest.mark.native
@pytest.mark.together
def test_vrdmad_restarts(torture, lab, guest0, guest1, measured, pytestconfig):
    """Restarts vrdmad again and again at random times; expects every message to be right."""
    seconds = pytestconfig.getoption("torture_seconds")
    server, client = torture(guest0, guest1, f"--seconds {seconds}")
    client.next_line(TIMEOUT_S)
    moments = random.SystemRandom()
    restarts = 0
    while client.running:
        lab.stop_mediator()
        lab.start_mediator_again()
        restarts += 1
        time.sleep(moments.uniform(0, 1))
    result = client.wait(TIMEOUT_S)
    assert server.wait(TIMEOUT_S).status == 0
    assert "nothing wrong" in result.stdout
    measured.append(f"vrdma-torture over {restarts} restarts: {result.stdout.splitlines()[-1]}")


@pytest.mark.native
@pytest.mark.parametrize("option, reason", [
    ("--seed x", "'x' must be a number"), ("--port 70000", "'70000' must be a number"),
    ("--hostile=storm", "there is no neighbour 'storm'; --list names them"),
    ("--hostile=packet_flood", "'packet_flood' needs --socket or --network"),
])  # fmt: skip
def test_wrong_arguments(option, reason):
    """Gives vrdma-torture wrong arguments; expects a reason, and the exit status 2."""
    done = subprocess.run([BUILD / "torture/vrdma-torture", *option.split()], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2 and reason in done.stderr
