# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs in guests that move or rest."""

import shlex
import time

from .lab import Guest
from .process import Failure

TIMEOUT_S = 240.0


class Detached:
    """A program in a guest that does not depend on a connection to the guest, because moves end connections."""

    def __init__(self, guest: Guest, command: str) -> None:
        self._guest = guest
        self._command = command
        run = f"{command} >/root/output 2>&1; echo $? >/root/status"
        guest.script(f"rm -f /root/status; setsid sh -c {shlex.quote(run)} </dev/null >/dev/null 2>&1 &")

    def goes_on(self) -> bool:
        return self._guest.run("test -e /root/status", check=False).status != 0

    def await_file(self, path: str) -> None:
        """Returns when the program has made a file."""
        self._await(f"test -e {path} -o -e /root/status")
        if not self.goes_on():
            raise Failure(f"{self._command}: has ended too early:\n{self._guest.read('/root/output')}")

    def status(self) -> int:
        """Waits for its end; returns its exit status."""
        self._await("test -e /root/status")
        return int(self._guest.read("/root/status"))

    def _await(self, condition: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while self._guest.run(condition, check=False).status:
            if time.monotonic() > deadline:
                raise Failure(f"{self._command}: not done after {TIMEOUT_S:.0f} s:\n{self._guest.read('/root/output')}")
            time.sleep(0.5)

    def output(self) -> str:
        """Waits for its end; returns its output if it has succeeded."""
        status, output = self.status(), self._guest.read("/root/output")
        if status:
            raise Failure(f"{self._command}: exit status {status}\n{output}")
        return output
