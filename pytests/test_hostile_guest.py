# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A guest that breaks every rule: vrdmad and the other guest must continue, and the guest's own device must recover."""

import json
import random

import pytest

from framework.programs import Program, latencies, start_server

pytestmark = pytest.mark.lab


@pytest.fixture
def seed(record) -> int:
    number = random.SystemRandom().randrange(1 << 32)
    record.note(f"seed {number}")
    return number


@pytest.fixture
def bystander(device, guest1):
    """Traffic inside guest1 that must complete whatever happens meanwhile."""
    program = Program("ib_send_lat -F -e -s 64 -n 500", device)
    server, port = start_server(program, guest1)
    client = guest1.start(f"{program.arguments(guest1, port)} guest1")

    def finish() -> None:
        for process in (client, server):
            (line,) = latencies(process.wait(120))
            assert line.iterations == 500

    return finish


@pytest.fixture
def unbound(guest0, works):
    """guest0's function without its driver. It is bound again after the test, and must then work."""
    name = guest0.function.rsplit("/", 1)[1]
    guest0.script(f"echo {name} >{guest0.function}/driver/unbind; echo 1 >{guest0.function}/enable")
    yield guest0.function
    guest0.script(f"echo 0 >{guest0.function}/enable; echo {name} >/sys/bus/pci/drivers/vrdma_ib/bind")
    works()


def misuse(guest, function: str, mode: str, seed: int, count: int) -> dict:
    command = f"/usr/bin/python3 {guest.programs}/hostile_driver.py {function} {mode} {seed} {count}"
    return json.loads(guest.run(command, timeout=120).stdout)


@pytest.mark.parametrize("mode", ["registers", "flood", "doorbells"])
def test_registers(guest0, unbound, seed, bystander, mode):
    """Writes 1,000 random values to registers, doorbells or both; expects a reset to make the device ready."""
    status = misuse(guest0, unbound, mode, seed, 1000)["status"]
    assert status in (1, 2, 4)
    bystander()


def test_admin_commands(guest0, unbound, seed, bystander):
    """Executes 1,000 random commands on a valid admin queue; expects an answer to each, most of them refusals."""
    answers = misuse(guest0, unbound, "admin", seed, 1000)
    assert sum(answers.values()) == 1000
    assert answers["refused"] > 500
    bystander()


def test_work_requests(guest0, device, seed, bystander, works):
    """Fills the send queue and the doorbell page with random bytes 40 times; expects that queue pair in ERR, and a new
    one to work."""
    gid = guest0.gid(device)
    program = f"/usr/bin/python3 {guest0.programs}/hostile_process.py"
    done = guest0.run(f"{program} {device} {gid.address} {gid.index} {seed} 40", timeout=120)
    assert done.stdout.split() == ["ERR", "SUCCESS"]
    bystander()
    works()


def test_address_of_another(guest0, guest1, device, works):
    """Gives guest0 the link-local address of guest1; expects guest0 to get no GID for it, and guest1 to keep it."""
    (stolen,) = [gid.address for gid in guest1.gids[device] if gid.address.startswith("fe80") and gid.type == "RoCE v2"]
    guest0.run(f"ip address add {stolen}/64 dev {guest0.nic} nodad")
    try:
        guest0.forget("gids")
        assert stolen not in [gid.address for gid in guest0.gids[device]]
    finally:
        guest0.run(f"ip address del {stolen}/64 dev {guest0.nic}")
    works()
