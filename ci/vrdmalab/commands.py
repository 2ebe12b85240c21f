# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The commands of ci/lab for the whole lab, and commands that need not start fast."""

import json
import sys
from argparse import Namespace

from . import lab, newer_qemu
from .state import current
from .terminal import words
from .topology import Guest, Host, Shape
from .transfer import copy


def image(options: Namespace) -> int:
    if options.sockets:
        newer_qemu.ensure()
    print(lab.build_image(options.packages, options.releases).directory)
    return 0


def up(options: Namespace) -> int:
    shape = Shape(options.hosts, options.guests, options.packages, options.guest_cpus, options.guest_memory,
                  options.host_cpus, options.type, options.host_kernel, options.guest_kernel,
                  options.host_release, options.guest_release, options.movable, options.sockets, options.pvrdma,
                  options.pvrdma_guests, options.iommufd)
    state, was_up = lab.up(shape)
    if was_up:
        print("the lab is up already", file=sys.stderr)
    machines: list[Host | Guest] = [*state.hosts, *state.guests]
    vms = [lab.describe(state, vm) for vm in machines]
    if options.json:
        print(json.dumps({"vrdma": state.with_vrdma, "vms": vms}, indent=2))
    else:
        for vm in vms:
            print(f"{vm['name']:<8} {vm['ipv4']:<12} {vm['ipv6']}")
    return 0


def status(options: Namespace) -> int:
    state = current()
    vms = lab.status(state)
    if options.json:
        print(json.dumps({"vrdma": state.with_vrdma, "vms": vms}, indent=2))
    else:
        for vm in vms:
            memory = f"{vm['memory'] >> 20} MiB" if "memory" in vm else ""
            print(f"{vm['name']:<8} {vm['state']:<12} {vm['ipv4']:<12} {vm['ipv6']:<12} {memory}".rstrip())
    return 0


def cp(options: Namespace) -> int:
    copy(current(), options.source, options.destination)
    return 0


def logs(options: Namespace) -> int:
    sys.stdout.write(lab.logs(options.name))
    return 0


def monitor(options: Namespace) -> int:
    sys.stdout.write(lab.monitor(options.name, " ".join(words(options)), options.timeout).replace("\r\n", "\n"))
    return 0


def reboot(options: Namespace) -> int:
    lab.reboot(options.name)
    return 0


def kill(options: Namespace) -> int:
    lab.kill(options.name)
    return 0


def start(options: Namespace) -> int:
    lab.start(options.name)
    return 0


def migrate(options: Namespace) -> int:
    print(json.dumps(lab.migrate(options.name, options.host, options.bandwidth)))
    return 0


def note_move(options: Namespace) -> int:
    lab.note_move(options.name, options.host)
    return 0


def save(options: Namespace) -> int:
    lab.save(options.name)
    return 0


def restore(options: Namespace) -> int:
    print(lab.restore(options.name))
    return 0


def push(_options: Namespace) -> int:
    lab.push()
    return 0


def down(_options: Namespace) -> int:
    if not lab.down():
        print("the lab is not up", file=sys.stderr)
    return 0
