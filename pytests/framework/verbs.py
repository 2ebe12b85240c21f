# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Verbs objects that live in a process of a guest (guest/endpoints.py), driven from the test."""

import json
from types import SimpleNamespace

import pytest

from .lab import TIMEOUT_S, Guest
from .process import Failure, Process, Record


class VerbsError(Exception):
    """A verb returned an error."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.errno = number


def refused(call, *args, **kwargs) -> int:
    """Checks that a verb fails; returns its errno."""
    with pytest.raises(VerbsError) as refusal:
        call(*args, **kwargs)
    return refusal.value.errno


class Remote:
    """An object in the guest: its fields are attributes here, its methods are called there."""

    def __init__(self, session: "Session", number: int, fields: dict) -> None:
        self.session = session
        self._number = number
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        return f"#{self._number}"

    def __getattr__(self, method: str):
        return lambda *args, **kwargs: self.begin(method, *args, **kwargs)()

    def begin(self, method: str, *args, **kwargs):
        """Starts a call and returns at once; calling the result waits for the answer."""
        return self.session.begin(self._number, method, args, kwargs)


class Session:
    """A process in a guest that makes verbs calls, one at a time."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._record: Record = guest.lab.record
        self._unanswered = 0
        self._process: Process = guest.watch(f"/usr/bin/python3 {guest.programs}/verbs_server.py")
        guest.after_boot.append(lambda _guest: self.kill())

    @property
    def usable(self) -> bool:
        """Whether the next answer will belong to the next call."""
        return self._process.running and not self._unanswered

    def open(self, device: str) -> Remote:
        return self.begin(0, "Device", (device,), {})()

    @property
    def pid(self) -> int:
        return self.begin(0, "process_id", (), {})()

    def begin(self, number: int, method: str, args: tuple, kwargs: dict):
        call = {"object": number, "method": method, "args": args, "kwargs": kwargs}
        self._process.write(json.dumps(call, default=self._reference) + "\n")
        self._unanswered += 1
        shown = [*map(str, args), *(f"{key}={value}" for key, value in kwargs.items())]
        what = f"{self._guest.name}: #{number}.{method}({', '.join(shown)})"

        def finish(timeout: float = TIMEOUT_S):
            self._record.note(what)
            line = self._process.next_line(timeout)
            self._unanswered -= 1
            self._record.note(f"    {line.strip()}")
            return self._result(json.loads(line))

        return finish

    @staticmethod
    def _reference(value: object) -> dict:
        assert isinstance(value, Remote), value
        return {"object": value._number}

    def _result(self, answer: dict):
        if "errno" in answer:
            if answer["errno"]:
                raise VerbsError(answer["error"], answer["errno"])
            raise Failure(answer["error"])
        value = answer["value"]
        if isinstance(value, dict) and "object" in value:
            return Remote(self, value["object"], value["fields"])
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [SimpleNamespace(**item) for item in value]
        return SimpleNamespace(**value) if isinstance(value, dict) else value

    def await_end(self) -> None:
        self._process.wait(TIMEOUT_S, check=False)

    def kill(self) -> None:
        self._process.kill()
