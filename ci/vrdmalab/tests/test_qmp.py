# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Commands for QEMU's monitors."""

import json
import socket
from collections.abc import Iterator
from threading import Thread

import pytest
from vrdmalab.errors import LabError
from vrdmalab.qmp import Qmp


class Monitor:
    """QEMU's end of a connection: it answers each command with its number, after an event."""

    def __init__(self, end: socket.socket) -> None:
        self.commands: list[dict] = []
        self._file = end.makefile("rw")
        self._say({"QMP": {}})
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def _say(self, *messages: dict) -> None:
        self._file.writelines(f"{json.dumps(message)}\n" for message in messages)
        self._file.flush()

    def _serve(self) -> None:
        for line in self._file:
            self.commands.append(json.loads(line))
            self._say({"event": "RESET"}, {"return": len(self.commands)})

    def join(self) -> None:
        self._thread.join()


@pytest.fixture
def both() -> Iterator[tuple[Qmp, Monitor]]:
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            monitor = Monitor(theirs)
            yield Qmp(ours, 10), monitor
            ours.shutdown(socket.SHUT_RDWR)
        monitor.join()


def test_a_command_in_json_is_for_qmp(both: tuple[Qmp, Monitor]) -> None:
    qmp, monitor = both
    command = {"execute": "device_del", "arguments": {"id": "vrdma"}}
    assert qmp.ask(json.dumps(command)) == "2\n"
    assert monitor.commands[-1] == command


def test_other_commands_are_for_the_human_monitor(both: tuple[Qmp, Monitor]) -> None:
    qmp, monitor = both
    assert qmp.ask("info status") == "2"
    assert monitor.commands[-1] == {"execute": "human-monitor-command", "arguments": {"command-line": "info status"}}


@pytest.mark.parametrize("text", ["{", '{"command": 1}'])
def test_what_is_no_command_is_an_error(both: tuple[Qmp, Monitor], text: str) -> None:
    with pytest.raises(LabError, match="query-status"):
        both[0].ask(text)
