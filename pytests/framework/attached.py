# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Commands of `ci/lab exec` without a process for each: tests start thousands, and Python takes longer to start than
most of them to run."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "ci"))

from vrdmalab import remote  # noqa: E402  the path is needed first
from vrdmalab.cli import FAILED  # noqa: E402
from vrdmalab.diagnosis import watching  # noqa: E402
from vrdmalab.errors import LabError  # noqa: E402
from vrdmalab.state import load  # noqa: E402

from .process import Child, Process  # noqa: E402


class AttachedProcess(Process):
    """A command of a VM. argv begins with the VM's name, and the environment names the lab's directory."""

    def _start(self, argv: list[str], environment: dict[str, str]) -> Child:
        return Attached(Path(environment["VRDMA_LAB_DIR"]), argv[0], argv[1:])


class Attached:
    """The connection to a command. As with `ci/lab exec`, the agent kills a command whose client has gone, and errors
    of the lab come on stderr."""

    pid = 0  # it has no process on this machine

    def __init__(self, directory: Path, vm: str, command: list[str]) -> None:
        readers, self._outputs = zip(*(os.pipe() for _ in ("stdout", "stderr")), strict=True)
        self.stdout, self.stderr = (open(fd, errors="replace", encoding="utf-8") for fd in readers)
        self.stdin = self
        self._session: remote.Session | None = None
        self._killed = False
        self._status: int | None = None
        self._ended = threading.Event()
        self._directory = directory
        self._vm = vm
        self._command = command
        self._begun = threading.Event()  # or did not
        threading.Thread(target=self._run, daemon=True).start()

    def write(self, text: str) -> None:
        """Sends it to the command's stdin."""
        self._begun.wait()
        try:
            if self._session:
                self._session.send(b"I", text.encode())
        except OSError as error:
            raise BrokenPipeError from error

    def flush(self) -> None:
        """Every write is sent at once."""

    def poll(self) -> int | None:
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(self._command, timeout or 0)
        assert self._status is not None
        return self._status

    def kill(self) -> None:
        self._killed = True
        self._begun.wait()
        if self._session:
            self._session.close()

    def terminate(self) -> None:
        self.kill()

    def send_signal(self, sig: int) -> None:
        raise NotImplementedError(f"no signal reaches a command in a VM, and not {sig}")

    def _run(self) -> None:
        try:
            status = self._attach()
        except remote.Refused as error:
            status = self._complain(error, error.status)
        # Nobody else would tell the readers of the output. A lab that goes down takes files away, for example.
        except Exception as error:
            status = self._complain(error, FAILED)
        finally:
            self._begun.set()
        # The status is there when the output ends, as readers ask for it then.
        self._status = status
        for fd in self._outputs:
            os.close(fd)
        self._ended.set()

    def _complain(self, error: Exception, status: int) -> int:
        text = str(error) if isinstance(error, LabError) else repr(error)
        os.write(self._outputs[1], f"ci/lab: {text}\n".encode())
        return status

    def _attach(self) -> int:
        state = load(self._directory)
        if not state:
            raise LabError("the lab is not up")
        vm = state.find(self._vm)
        with watching(state, vm):
            return self._follow(state.address(vm))

    def _follow(self, address: remote.Address) -> int:
        try:
            sock = address.connect("exec", *self._command)
            self._session = remote.Session(sock)
        finally:
            self._begun.set()
        with sock:
            try:
                return self._session.receive(remote.into(*self._outputs))
            except remote.Unreachable:
                if self._killed:
                    return -signal.SIGKILL
                raise
