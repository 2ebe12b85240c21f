# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Commands in the lab's VMs, and the record of them that is printed if a test fails."""

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Protocol, TypeVar

T = TypeVar("T")

REPORTED_LINES = 60
OUTPUT_S = 10  # for the rest of the output of a command that has ended


class Failure(AssertionError):
    """A command has failed or an awaited event has not come in time. The output is in the test's record."""


@dataclass(frozen=True)
class Result:
    status: int
    stdout: str
    stderr: str


class Child(Protocol):
    """What Process uses of subprocess.Popen."""

    stdin: Any
    stdout: Any
    stderr: Any
    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def kill(self) -> None: ...
    def terminate(self) -> None: ...
    def send_signal(self, sig: int) -> None: ...


class Command(subprocess.Popen[str]):
    """subprocess.Popen looks for the end of a command every 50 ms. This one learns of it at once."""

    def wait(self, timeout: float | None = None) -> int:
        if timeout is None or self.poll() is not None:
            return super().wait()
        end = os.pidfd_open(self.pid)
        try:
            ended = select.poll()
            ended.register(end)
            ended.poll(timeout * 1000)
        finally:
            os.close(end)
        return super().wait(0)


class Process:
    """A command that runs in a VM. Its output is collected as it comes, and can be awaited."""

    def __init__(self, title: str, argv: list[str], environment: dict[str, str]) -> None:
        self.title = title
        self._changed = threading.Condition()
        self._lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._taken = {"stdout": 0, "stderr": 0}
        self._child = self._start(argv, environment)
        streams = (("stdout", self._child.stdout), ("stderr", self._child.stderr))
        self._readers = [threading.Thread(target=self._collect, args=stream, daemon=True) for stream in streams]
        for reader in self._readers:
            reader.start()

    def _start(self, argv: list[str], environment: dict[str, str]) -> Child:
        return Command(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, errors="replace")

    def _collect(self, name: str, stream: IO[str]) -> None:
        for line in stream:
            with self._changed:
                self._lines[name].append(line)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def write(self, text: str) -> None:
        assert self._child.stdin
        try:
            self._child.stdin.write(text)
            self._child.stdin.flush()
        except BrokenPipeError as error:
            raise Failure(f"{self.title}: has ended\n{self.report()}") from error

    def next_line(self, timeout: float) -> str:
        """The next line of stdout that has not been taken yet."""
        taken = self._taken["stdout"]
        (line,) = self._await(lambda: self._lines["stdout"][taken:taken + 1], "print a line", timeout)
        self._taken["stdout"] += 1
        return line

    def await_after(self, action: Callable[[], None], text: str, timeout: float, stream: str = "stderr") -> str:
        """The first line with this text that comes after the action has begun."""
        with self._changed:
            begin = len(self._lines[stream])
        action()
        return self.await_line(text, timeout, stream, begin)

    def await_line(self, text: str, timeout: float, stream: str = "stderr", begin: int = 0) -> str:
        """The first line with this text, after the first `begin` ones."""
        return self._await(lambda: next((line for line in self._lines[stream][begin:] if text in line), ""),
                           f"say '{text}'", timeout)

    def lines(self, stream: str, begin: int = 0) -> list[str]:
        """All lines so far, without the first `begin` ones."""
        with self._changed:
            return self._lines[stream][begin:]

    def new_lines(self, stream: str = "stdout") -> list[str]:
        """The lines since the last call."""
        with self._changed:
            lines = self._lines[stream][self._taken[stream]:]
            self._taken[stream] += len(lines)
        return lines

    def _await(self, condition: Callable[[], T], what: str, timeout: float) -> T:
        deadline = time.monotonic() + timeout
        with self._changed:
            while not (value := condition()):
                ended = not any(reader.is_alive() for reader in self._readers)
                left = deadline - time.monotonic()
                if ended or left <= 0:
                    reason = "it has ended" if ended else f"not within {timeout:.0f} s"
                    raise Failure(f"{self.title}: did not {what}: {reason}\n{self._report()}")
                # A stream's end is notified shortly before its thread ends, so check again soon.
                self._changed.wait(min(left, 0.2))
            return value

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def wait(self, timeout: float, check: bool = True) -> Result:
        """Waits for the end of the command. A command that does not end in time is killed and counts as failed."""
        try:
            status = self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"{self.title}: not done after {timeout:.0f} s\n{self.report()}") from None
        self._join_readers()
        if any(reader.is_alive() for reader in self._readers):
            raise Failure(f"{self.title}: has ended, but a process that it started has its output\n{self.report()}")
        if check and status:
            raise Failure(f"{self.title}: exit status {status}\n{self.report()}")
        return Result(status, "".join(self._lines["stdout"]), "".join(self._lines["stderr"]))

    def await_end(self, timeout: float) -> int:
        """Waits for the end of the command's own process, and returns its status. Others may have its output."""
        return self._child.wait(timeout)

    def terminate(self) -> None:
        """Asks the command to end, unless it has ended."""
        self._child.terminate()

    def signal(self, number: int) -> None:
        self._child.send_signal(number)

    def kill(self) -> None:
        """Ends the command: the lab's agent kills a command whose client has gone."""
        self._child.kill()
        self._child.wait()
        self._join_readers()

    def _join_readers(self) -> None:
        for reader in self._readers:
            reader.join(OUTPUT_S)

    def report(self) -> str:
        with self._changed:
            return self._report()

    def _report(self) -> str:
        status = self._child.poll()
        text = f"$ {self.title}  [{'running' if status is None else f'exit status {status}'}]\n"
        for name, lines in self._lines.items():
            left_out = max(0, len(lines) - REPORTED_LINES)
            note = f"  ... {left_out} lines\n" if left_out else ""
            text += note + "".join(f"  {name}| {line.rstrip()}\n" for line in lines[left_out:])
        return text


class Record:
    """All commands of the running test, for the report if it fails."""

    def __init__(self) -> None:
        self._processes: list[Process] = []
        self._notes: list[str] = []

    def add(self, process: Process) -> Process:
        self._processes.append(process)
        return process

    def note(self, text: str) -> None:
        """Records an action that is not a command."""
        self._notes.append(text)

    def begin(self) -> None:
        """A new test begins."""
        self._processes.clear()
        self._notes.clear()

    def kill_leftovers(self) -> list[Process]:
        """Kills the commands that are still running, and returns them."""
        left = [process for process in self._processes if process.running]
        for process in left:
            process.kill()
        return left

    def commands(self) -> str:
        return "".join(process.report() for process in self._processes)

    def notes(self) -> str:
        return "\n".join(self._notes)
