# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Watches what must stay well whatever a test does: the kernels and vrdmad."""

import re

from .lab import Guest, Machine
from .process import Process

RESTART_S = 30.0
COMPLAINT = re.compile(r"WARNING:|BUG:|Oops|Call Trace:|general protection|UBSAN|KASAN|blocked for more than")
# What a kernel says of its emulated CPU before it starts /init is not of the tests' making.
FOLLOW_KERNEL = "sh -c \"dmesg --follow | sed -un '/Run .init as init process/,$p'\""
# Ends when the process does.
AWAIT_END = """python3 -c "import os, select, sys
poll = select.poll()
poll.register(os.pidfd_open(int(sys.argv[1])))
poll.poll()" """


class Health:
    """Follows kernel logs and vrdmad's log, so that each test can be told from what it caused."""

    def __init__(self, host: Machine, guests: list[Guest], with_mediator: bool) -> None:
        self._host = host
        self._kernels: dict[str, Process] = {}
        self._mediator_log: Process | None = None
        self._mediator: Process | None = None
        self.mediator_pid = 0
        self.new: dict[str, list[str]] = {}
        for machine in (host, *guests):
            self._follow_kernel(machine)
        for guest in guests:
            guest.after_boot.append(self._follow_kernel)
        if with_mediator:
            self._mediator_log = host.watch("journalctl -q -f -n 0 -o cat -u vrdmad")
            self.watch_mediator()

    def _follow_kernel(self, machine: Machine) -> None:
        if old := self._kernels.get(machine.name):
            old.kill()
        self._kernels[machine.name] = machine.watch(FOLLOW_KERNEL)

    def watch_mediator(self) -> None:
        """Takes the vrdmad that runs now, or soon, for the one that has to live on."""
        if self._mediator:
            self._mediator.wait(RESTART_S, check=False)
        self.mediator_pid = int(self._host.script("until pidof vrdmad; do sleep 0.05; done", RESTART_S).stdout)
        self._mediator = self._host.watch(f"{AWAIT_END} {self.mediator_pid}")

    def begin(self) -> None:
        """A new test begins: that vrdmad has ended is not its fault."""
        if self._mediator and not self._mediator.running:
            self.watch_mediator()

    def collect(self) -> None:
        """Takes in what was logged since the last time."""
        self.new = {f"{name}'s kernel": log.new_lines() for name, log in self._kernels.items()}
        if self._mediator_log:
            self.new["vrdmad"] = self._mediator_log.new_lines()

    def complaints(self) -> list[str]:
        """What is wrong, in the logs collected or with vrdmad."""
        found = [f"{source}: {line.rstrip()}" for source, lines in self.new.items() if source != "vrdmad"
                 for line in lines if COMPLAINT.search(line)]
        if self._mediator and not self._mediator.running:
            found.append("vrdmad has ended")
        return found

    def close(self) -> None:
        for process in (*self._kernels.values(), self._mediator_log, self._mediator):
            if process:
                process.kill()
