# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""RDMA programs of other projects between two machines, and parsers of their output."""

import itertools
import re
from dataclasses import dataclass

from .lab import TIMEOUT_S, Guest, Machine
from .process import Process, Result

# Each run has its own port, so that it need not wait until an earlier run's is free.
_ports = itertools.count(18600)
LISTENING = "ss -ltnH 'sport = :{port}' | grep -q ."


def next_port() -> int:
    return next(_ports)


def await_condition(machine: Machine, condition: str) -> None:
    """Returns when the shell condition holds. It times out before the command is killed, because the shell's loop would
    survive that."""
    machine.run(f"timeout {TIMEOUT_S - 10:.0f} sh -c \"until {condition}; do sleep 0.02; done\"")


def await_listener(server: Guest, port: int) -> None:
    await_condition(server, LISTENING.format(port=port))


@dataclass(frozen=True)
class Program:
    """A command with its options, for both sides."""

    command: str
    device: str
    gid_type: str = "RoCE v2"
    family: int = 4

    def arguments(self, guest: Guest, port: int) -> str:
        index_option = "-g" if self.command.startswith("ibv_") else "-x"
        index = guest.gid(self.device, self.gid_type, self.family).index
        return f"{self.command} -d {self.device} {index_option} {index} -p {port}"


def start_server(program: Program, server: Guest, options: str = "") -> tuple[Process, int]:
    """Returns once the server listens; the second result is its port."""
    port = next_port()
    process = server.start(f"{program.arguments(server, port)} {options}")
    await_listener(server, port)
    return process, port


def run(program: Program, server: Guest, client: Guest, server_options: str = "", client_options: str = "",
        timeout: float = TIMEOUT_S) -> tuple[Result, Result]:
    """Runs the program on both sides to its end; returns the server's and the client's output."""
    waiting, port = start_server(program, server, server_options)
    done = client.run(f"{program.arguments(client, port)} {client_options} {server.name}", timeout)
    return waiting.wait(timeout), done


@dataclass(frozen=True)
class Latency:
    """A line of the output of perftest's *_lat; µs."""

    size: int
    iterations: int
    minimum: float
    maximum: float
    typical: float


@dataclass(frozen=True)
class Bandwidth:
    """A line of the output of perftest's *_bw; MB/s and million messages per second."""

    size: int
    iterations: int
    peak: float
    average: float
    message_rate: float


def _numbers(output: str) -> list[list[float]]:
    """The first five columns of each line of results. On a busy machine perftest may print inf or nan for times."""
    lines = re.findall(r"^[ \t]*\d+[ \t]+\d+(?:[ \t]+(?:[\d.]+|inf|-?nan)){3}", output, re.MULTILINE)
    return [[float(word) for word in line.split()] for line in lines]


def latencies(result: Result) -> list[Latency]:
    return [Latency(int(row[0]), int(row[1]), *row[2:5]) for row in _numbers(result.stdout)]


def bandwidths(result: Result) -> list[Bandwidth]:
    return [Bandwidth(int(row[0]), int(row[1]), *row[2:5]) for row in _numbers(result.stdout)]
