# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs in guests that move or rest."""

import shlex
import time

from .connections import address, allow_users, await_listener
from .lab import Guest
from .process import Failure, Process
from .programs import await_condition, next_port

TIMEOUT_S = 240.0


class Detached:
    """A program in a guest that does not depend on a connection to the guest, because moves end connections."""

    def __init__(self, guest: Guest, command: str) -> None:
        self._guest = guest
        self._command = command
        run = f"{command} >/root/output 2>&1; echo $? >/root/status"
        guest.script(f"rm -f /root/status /root/output; setsid sh -c {shlex.quote(run)} </dev/null >/dev/null 2>&1 &")

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


class EndlessRping:
    """rping between two guests, of which the client moves or rests: it READs, WRITEs and compares until it is stopped,
    however long a move takes."""

    def __init__(self, server: Guest, client: Guest) -> None:
        for guest in (server, client):
            allow_users(guest)
        port = next_port()
        self._client = client
        self._server: Process = server.start(f"rping -s -a 0.0.0.0 -p {port} -V")
        await_listener(server, port)
        Detached(client, f"stdbuf -oL rping -c -a {address(server, 4)} -p {port} -V -v")

    def await_more(self) -> None:
        """Returns when the client has completed a round that it began after this call."""
        done = int(self._client.run("grep -c ping /root/output", check=False).stdout or 0)
        await_condition(self._client, f"test $(grep -c ping /root/output) -gt {done + 1}")

    def stop(self) -> None:
        self._client.run("pkill rping")
        self._server.kill()
