# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs that connect by the connection manager (rdma_cm)."""

import re

from .lab import TIMEOUT_S, Guest, Machine
from .native import Owner
from .process import Process, Result
from .programs import await_condition, next_port

PINGS = 20
LISTENING = "rdma resource show cm_id | grep LISTEN | grep -qE ':{port}\\b'"


def allow_users(guest: Guest) -> None:
    """Loads rdma_ucm, by which programs reach the connection manager."""
    guest.run("modprobe rdma_ucm")


def await_listener(server: Machine, port: int) -> None:
    """Returns when a cm_id listens on the port, in any network namespace. For a process without a kernel driver this
    cannot be seen. There the client asks again until the server listens, unless another process of its device refuses.
    """
    if isinstance(server, Owner):
        return
    await_condition(server, LISTENING.format(port=port))


def address(machine: Machine, family: int) -> str:
    """The machine's own address."""
    if isinstance(machine, Owner):
        return machine.addresses[family]
    network = {4: "10.77.0.0/16", 6: "fd77::/64"}[family]
    words = machine.script(f"ip -o -{family} address show to {network}").stdout.split()
    return words[words.index({4: "inet", 6: "inet6"}[family]) + 1].split("/")[0]


def start_pair(server: Machine, client: Machine, server_command: str, client_command: str,
               port: int | None = None) -> tuple[Process, Process]:
    """Starts both sides. `{port}` in the commands is replaced by an unused port, unless the program has a fixed one."""
    port = port or next_port()
    waiting = server.start(server_command.format(port=port))
    await_listener(server, port)
    return waiting, client.start(client_command.format(port=port))


def run_pair(server: Machine, client: Machine, server_command: str, client_command: str,
             timeout: float = TIMEOUT_S, port: int | None = None) -> tuple[Result, Result]:
    """Runs both sides to their end; returns the server's and the client's output."""
    waiting, calling = start_pair(server, client, server_command, client_command, port)
    done = calling.wait(timeout)
    return waiting.wait(timeout), done


def rping(server: Machine, family: int, options: str = "") -> tuple[str, str]:
    """The commands of rping's server there, and of a client of it. Both verify the data that they receive."""
    listen = f"rping -s -a {'::' if family == 6 else '0.0.0.0'} -p {{port}} -C {PINGS} -V {options}"
    return listen, f"rping -c -a {address(server, family)} -p {{port}} -C {PINGS} -V -v {options}"


def start_rping(server: Machine, port: int) -> Process:
    """Starts a server and waits until it has the port."""
    listen, _ = rping(server, 4)
    waiting = server.start(f"stdbuf -oL {listen} -d".format(port=port))
    while "rdma_bind_addr successful" not in waiting.next_line(TIMEOUT_S):
        pass
    await_listener(server, port)
    return waiting


def pings(result: Result) -> int:
    """The number of rounds that the client reports."""
    return len(re.findall(r"^ping data: rdma-ping", result.stdout, re.MULTILINE))


def rounds(server: Process, client: Process) -> int:
    """The number of rounds of rping when both sides have ended. The exit status does not count: when rping ends, its
    thread may find the event channel already closed, and takes that for an error."""
    done = client.wait(TIMEOUT_S, check=False)
    server.wait(TIMEOUT_S, check=False)
    return pings(done)
