# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Copies files and directories from and to VMs, as `cp -r` would."""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO

from . import remote, topology
from .diagnosis import watching
from .errors import LabError
from .state import State

# Prints the mode of a file, or "directory".
LOOK = 'if [ -d "$1" ]; then echo directory; else stat -L -c %a "$1"; fi'
PACK_DIRECTORY, UNPACK_DIRECTORY = 'tar -C "$1" -c .', 'mkdir -p "$1" && tar -C "$1" -x --no-same-owner'
PACK_FILE, UNPACK_FILE = 'cat "$1"', 'install -m "$2" /dev/stdin "$1"'


@dataclass(frozen=True)
class Place:
    """A path in a VM, or on this machine when vm is None."""

    state: State
    vm: topology.Host | topology.Guest | None
    path: str

    @staticmethod
    def parse(state: State, text: str) -> "Place":
        """A local file with a colon in its name is written ./a:b, as with scp."""
        name, colon, path = text.partition(":")
        if not colon or "/" in name:
            return Place(state, None, text)
        return Place(state, state.find(name), path or ".")

    def run(self, script: str, *arguments: str, stdin: IO[bytes] | None = None) -> IO[bytes]:
        """Runs a shell script with the path as $1. Its output is spooled, because it may be large."""
        output = tempfile.TemporaryFile()
        argv = ["sh", "-euc", script, "sh", self.path, *arguments]
        if self.vm:
            errors = bytearray()
            with watching(self.state, self.vm):
                status = remote.stream(self.state.address(self.vm), argv, stdin, output, errors)
        else:
            done = subprocess.run(argv, stdin=stdin or subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE,
                                  check=False)
            status, errors = done.returncode, bytearray(done.stderr)
        if status:
            output.close()
            raise LabError(f"{self}: {errors.decode(errors='replace').strip()}")
        output.seek(0)
        return output

    def look(self) -> str:
        with self.run(LOOK) as answer:
            return answer.read().decode().strip()

    def is_directory(self) -> bool:
        try:
            return self.look() == "directory"
        except LabError:
            return False

    def __str__(self) -> str:
        return f"{self.vm.name}:{self.path}" if self.vm else self.path


def copy(state: State, source_text: str, destination_text: str) -> None:
    source, destination = Place.parse(state, source_text), Place.parse(state, destination_text)
    kind = source.look()
    if destination.is_directory():
        inside = PurePath(destination.path, PurePath(source.path).name)
        destination = Place(state, destination.vm, str(inside))
    if kind == "directory":
        with source.run(PACK_DIRECTORY) as content:
            destination.run(UNPACK_DIRECTORY, stdin=content).close()
    else:
        with source.run(PACK_FILE) as content:
            destination.run(UNPACK_FILE, kind, stdin=content).close()
