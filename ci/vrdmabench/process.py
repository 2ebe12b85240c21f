# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Runs programs, alone or as server and client."""

import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .errors import BenchError

START_S = 20.0
LISTEN = "0A"


def run(argv: list[str], timeout: float, environment: dict[str, str] | None = None) -> str:
    """Returns the program's stdout. If it fails, the error contains its stderr."""
    try:
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=timeout, errors="replace")
    except subprocess.TimeoutExpired:
        raise BenchError(f"{' '.join(argv)}: not done after {timeout:.0f} s") from None
    except OSError as error:
        raise BenchError(f"{argv[0]}: {error.strerror}") from None
    if done.returncode:
        raise BenchError(f"{' '.join(argv)}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


@dataclass(frozen=True)
class Reaction:
    """What is done when a program prints a line."""

    line: str
    action: Callable[[], None]


def run_with(reaction: Reaction, argv: list[str], timeout: float, environment: dict[str, str] | None = None) -> str:
    """As run(), and reacts to the program. A program that does not print the line is an error."""
    said, reacted = [], False
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace") as child:  # fmt: skip
        watchdog = threading.Timer(timeout, child.kill)
        watchdog.start()
        try:
            assert child.stdout
            for line in child.stdout:
                said.append(line)
                if line.rstrip() == reaction.line and not reacted:
                    reacted = True
                    reaction.action()
            child.wait()
        finally:
            watchdog.cancel()
            child.kill()
    if child.returncode or not reacted:
        raise BenchError(f"{' '.join(argv)}: exit status {child.returncode}\n{''.join(said)[-4000:]}")
    return "".join(said)


def converse(server: list[str], client: list[str], port: int, timeout: float, environment: dict[str, str]) -> str:
    """Runs a server and, when it listens at the port, its client. Returns the client's output."""
    with subprocess.Popen(server, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            await_listener(port, process, server[0])
            printed = run(client, timeout, environment)
            process.communicate(timeout=timeout)
            return printed
        except (BenchError, subprocess.TimeoutExpired) as error:
            process.kill()
            said = process.communicate()[0].decode(errors="replace")[-2000:]
            raise BenchError(f"{error}\nits server, {' '.join(server)}:\n{said}") from None
        finally:
            process.kill()


def await_listener(port: int, process: subprocess.Popen[bytes], name: str) -> None:
    deadline = time.monotonic() + START_S
    while port not in listeners(process):
        if process.poll() is not None or time.monotonic() > deadline:
            raise BenchError(f"{name}: does not listen")
        time.sleep(0.02)


def listeners(process: subprocess.Popen[bytes]) -> set[int]:
    """The TCP ports that have listeners in the network namespace of the process. A connection for this check would take
    the place of a server's only client."""
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{process.pid}/net", table).read_text().splitlines()[1:]
        except OSError:
            return set()  # the process has ended
        for line in lines:
            _, local, _, state, *_ = line.split()
            if state == LISTEN:
                found.add(int(local.rpartition(":")[2], 16))
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
