# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Watches what no test may break: the kernels and vrdmad."""

import re

from .children import ENGINE
from .lab import Guest, Machine
from .process import Failure, Process

RESTART_S = 30.0
# systemd starts no unit more than five times in ten seconds, unless it forgets how often it did.
RESTART = "systemctl reset-failed vrdmad && systemctl restart vrdmad"
COMPLAINT = re.compile(r"WARNING:|BUG:|Oops|Call Trace:|general protection|UBSAN|KASAN|blocked for more than")
# A host whose emulated processor had no timer interrupts for seconds (see emulator.py), or a machine that is too busy
# for it. A processor that is stuck while it idles is of the same kind. A fault of ours shows again when the test is
# repeated.
STALL = re.compile(r"rcu: .*(timer wakeup didn't happen for \d+ jiffies|detected (expedited )?stall)|"
                   r"soft lockup - .*\[swapper/\d+:0\]")
# Messages of a kernel about its emulated CPU, before it starts /init, are not caused by tests.
FOLLOW_KERNEL = "sh -c \"dmesg --follow | sed -un '/Run .init as init process/,$p'\""
# For systemd vrdmad is active as soon as it serves, and still for a moment after its end.
AWAIT_MEDIATOR = """until pid=$(systemctl show --property MainPID --value vrdmad) && pidof vrdmad | grep -qw "$pid" &&
systemctl is-active --quiet vrdmad; do sleep 0.05; done; echo "$pid" """
# Ends when the process does.
AWAIT_END = """python3 -c "import os, select, sys
poll = select.poll()
poll.register(os.pidfd_open(int(sys.argv[1])))
poll.poll()" """
# Ends only if each processor executes something.
EACH_PROCESSOR = "for cpu in $(seq 0 $(($(nproc) - 1))); do taskset -c $cpu true; done"
# For a vrdmad that does not start or end: what its threads wait for.
WHAT_HANGS = """systemctl status --no-pager --full --lines 20 vrdmad || :
systemctl list-jobs --no-pager
for task in $(pgrep vrdma | sed 's|.*|/proc/&/task/*|'); do
    echo "$task $(cat $task/comm): $(cat $task/wchan)"
    cat $task/stack
done"""


class Kernels:
    """Follows the logs of kernels."""

    def __init__(self) -> None:
        self._logs: dict[str, Process] = {}
        self._boots: dict[str, str] = {}

    def follow(self, machine: Machine) -> None:
        """From now on, the system that runs there now."""
        if old := self._logs.get(machine.name):
            old.kill()
        self._logs[machine.name] = machine.watch(FOLLOW_KERNEL)
        self._boots[machine.name] = machine.boot_id()

    def down(self, name: str) -> bool:
        return not self._logs[name].running

    def other(self, machine: Machine) -> bool:
        """Whether the system there does not answer, or is another one."""
        return machine.boot_id() != self._boots[machine.name]

    def new_lines(self) -> dict[str, list[str]]:
        return {f"{name}'s kernel": log.new_lines() for name, log in self._logs.items()}

    def complaints(self, new: dict[str, list[str]]) -> list[str]:
        """Errors in these lines, and the systems that are down."""
        found = [f"{source}: {line.rstrip()}" for source, lines in new.items() if source.endswith("'s kernel")
                 for line in lines if COMPLAINT.search(line)]
        return found + [f"{name} has gone down" for name in self._logs if self.down(name)]

    def close(self) -> None:
        for log in self._logs.values():
            log.kill()


class Health:
    """Follows kernel logs and vrdmad's log, so that each test can be told what it caused."""

    def __init__(self, host: Machine, guests: list[Guest], with_mediator: bool) -> None:
        self._host = host
        self._guests = guests
        self._kernels = Kernels()
        self._mediator_log: Process | None = None
        self._mediator: Process | None = None
        self.mediator_pid = 0
        self.new: dict[str, list[str]] = {}
        self._with_mediator = with_mediator
        for guest in guests:
            guest.after_boot.append(self._kernels.follow)
            self._kernels.follow(guest)
        self._follow_host()

    def _follow_host(self) -> None:
        self._kernels.follow(self._host)
        if self._with_mediator:
            self._mediator_log = self._host.watch("journalctl -q -f -n 0 -o cat -u vrdmad")
            self.watch_mediator()

    def renew(self) -> None:
        """Starts again after all VMs have booted."""
        self.close()
        self.new = {}
        self._mediator = None
        self._follow_host()
        for guest in self._guests:
            guest.booted()

    def gone(self, failed: bool) -> list[str]:
        """The VMs that have gone down, or the host if it has stalled. After a failure, also the VMs that do not answer
        or have booted again: a connection to a system that no longer exists does not end by itself. And the host if one
        of its processors executes nothing, which a kernel does not report of one that idles. Guests go with their
        host."""
        machines = (self._host, *self._guests)
        gone = [machine.name for machine in machines
                if self._kernels.down(machine.name) or failed and self._kernels.other(machine)]
        if any(map(STALL.search, self.new.get(f"{self._host.name}'s kernel", []))):
            return [self._host.name]
        if failed and not gone and not self._host.answers(EACH_PROCESSOR):
            return [self._host.name]
        return gone[:1] if self._host.name in gone else gone

    def watch_mediator(self) -> None:
        """From now on, the vrdmad that runs now or starts soon must stay alive."""
        if self._mediator:
            self._mediator.wait(RESTART_S, check=False)
        self.mediator_pid = int(self._host.script(AWAIT_MEDIATOR, RESTART_S).stdout)
        self._mediator = self._host.watch(f"{AWAIT_END} {self.mediator_pid}")

    def restart_mediator(self) -> None:
        """Restarts vrdmad, and returns when it serves."""
        try:
            self._host.script(RESTART)
        except Failure as failure:
            raise Failure(f"{failure}\n{self._host.script(WHAT_HANGS, check=False).stdout}") from failure
        self.watch_mediator()

    @property
    def engine_pid(self) -> int:
        """The process to which vrdmad's pollers belong."""
        return int(self._host.run(f"pgrep -P {self.mediator_pid} -x {ENGINE}").stdout)

    def kill_mediator(self) -> None:
        """Kills the process of vrdmad's control thread. The other one hands the devices over to the vrdmad that systemd
        starts. Returns when that one serves."""
        self._host.script(f"systemctl reset-failed vrdmad\nkill -9 {self.mediator_pid}")
        self.watch_mediator()

    def kill_mediator_and_engine(self) -> None:
        """Kills both processes of vrdmad, so that nobody hands the devices over."""
        self._host.script(f"systemctl reset-failed vrdmad\nkill -9 {self.engine_pid} {self.mediator_pid}")

    def begin(self) -> None:
        """Starts a new test, which is not blamed for a vrdmad that has ended or a guest that has gone down before."""
        if self._mediator and not self._mediator.running:
            self.watch_mediator()
        for guest in self._guests:
            if self._kernels.down(guest.name):
                guest.booted()

    def collect(self) -> None:
        """Collects the lines that were logged since the last call."""
        self.new = self._kernels.new_lines()
        if self._mediator_log:
            self.new["vrdmad"] = self._mediator_log.new_lines()

    def complaints(self) -> list[str]:
        """Errors in the collected logs, or of vrdmad."""
        found = self._kernels.complaints(self.new)
        if self._mediator and not self._mediator.running:
            found.append("vrdmad has ended")
        return found

    def close(self) -> None:
        self._kernels.close()
        for process in (self._mediator_log, self._mediator):
            if process:
                process.kill()


class HostsHealth:
    """The same for several hosts, each with its guests."""

    def __init__(self, hosts: dict[str, Health]) -> None:
        self._hosts = hosts
        self.new: dict[str, list[str]] = {}

    def renew(self) -> None:
        for health in self._hosts.values():
            health.renew()

    def restart_mediators(self) -> None:
        """On one host after the other."""
        for health in self._hosts.values():
            health.restart_mediator()

    def gone(self, failed: bool) -> list[str]:
        return [name for health in self._hosts.values() for name in health.gone(failed)]

    def begin(self) -> None:
        for health in self._hosts.values():
            health.begin()

    def collect(self) -> None:
        for health in self._hosts.values():
            health.collect()
        self.new = {f"{name}: {source}": lines for name, health in self._hosts.items()
                    for source, lines in health.new.items()}

    def complaints(self) -> list[str]:
        return [f"{name}: {complaint}" for name, health in self._hosts.items() for complaint in health.complaints()]

    def close(self) -> None:
        for health in self._hosts.values():
            health.close()
