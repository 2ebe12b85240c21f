# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The part of QEMU's monitor protocol that the lab needs."""

import json
import socket

from .errors import LabError


class Qmp:
    """A connection to a monitor, after its greeting."""

    def __init__(self, sock: socket.socket, timeout: float) -> None:
        sock.settimeout(timeout)
        self.events: list[str] = []  # that came before the answers so far
        self._file = sock.makefile("rw", encoding="utf-8")
        self._read("QMP")
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: object) -> object:
        self._file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._file.flush()
        return self._read("return")

    def human(self, command: str) -> str:
        return str(self.execute("human-monitor-command", **{"command-line": command}))

    def ask(self, text: str) -> str:
        """The answer to a command of the human monitor, or to one of QMP in JSON."""
        if not text.startswith("{"):
            return self.human(text)
        try:
            request = json.loads(text)
            command, arguments = request["execute"], request.get("arguments", {})
        except (ValueError, KeyError) as error:
            raise LabError(f"not a command of QMP, such as {{\"execute\": \"query-status\"}}: {text}") from error
        return json.dumps(self.execute(command, **arguments)) + "\n"

    def _read(self, wanted: str) -> object:
        """The next answer."""
        while True:
            try:
                line = self._file.readline()
            except TimeoutError as error:
                raise LabError("QEMU's monitor did not answer in time") from error
            if not line:
                raise LabError("QEMU closed its monitor")
            message = json.loads(line)
            if "event" in message:
                self.events.append(message["event"])
            if "error" in message:
                raise LabError(f"QEMU: {message['error']['desc']}")
            if wanted in message:
                return message[wanted]
