# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A vrdmad of a test's own, with a control socket. A plug-in of pytest, for the fixture."""

import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from framework.lab import TIMEOUT_S
from framework.native import BUILD
from framework.process import Process

VRDMACTL = BUILD / "ctl/vrdmactl"


class Control:
    """It runs with the configuration `text`, to which the table [control] with its socket is added."""

    def __init__(self, directory: Path, environment: dict[str, str], text: str) -> None:
        self.directory = directory
        self.socket = directory / "control.sock"
        self.file = directory / "vrdmad.conf"
        self.text = f'mdev = false\n[control]\nsocket = "{self.socket}"\ngroup = "nogroup"\n{text}'
        self.file.write_text(self.text)
        self._environment = environment
        self.vrdmad = self._start()

    def _start(self) -> Process:
        vrdmad = Process("vrdmad", [str(BUILD / "mediator/control/vrdmad"), "--config", str(self.file),
                                    "--forbidden-calls", "kill"], self._environment)
        vrdmad.await_line(" serves vrdma", TIMEOUT_S)
        return vrdmad

    def start_again(self) -> None:
        """Once vrdmad has ended."""
        self.vrdmad = self._start()

    def run(self, *words: str, user: int | None = None, group: int | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run([VRDMACTL, "--socket", self.socket, *words], capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S, user=user, group=group, extra_groups=None if user is None else [])

    def says(self, *words: str) -> str:
        """What it prints if it succeeds."""
        result = self.run(*words)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    def refuses(self, *words: str) -> str:
        """What it says if vrdmad refuses."""
        result = self.run(*words)
        assert (result.returncode, result.stdout) == (1, "")
        return result.stderr

    def connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(self.socket))
        return client


@contextmanager
def public_directory() -> Iterator[Path]:
    """A directory that all users reach. pytest closes its own for others, each time that another pytest starts."""
    with tempfile.TemporaryDirectory(prefix="vrdma-control-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


@pytest.fixture
def directory() -> Iterator[Path]:
    with public_directory() as directory:
        yield directory


@contextmanager
def running(directory: Path, environment: dict[str, str], text: str) -> Iterator[Control]:
    control = Control(directory, environment, text)
    yield control
    control.vrdmad.terminate()
    control.vrdmad.wait(TIMEOUT_S)
    assert not control.socket.exists()
