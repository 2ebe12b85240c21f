# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Bash completes the command lines of programs that are installed. Programs are in build/release."""

import os
import re
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PROGRAMS = {
    "vrdmad": ("mediator/control/vrdmad.completion", "mediator/control/vrdmad"),
    "vrdmactl": ("ctl/vrdmactl.completion", "ctl/vrdmactl"),
    "vrdma-run": ("providers/vrdma/direct/run/vrdma-run.completion", "providers/vrdma/vrdma-run"),
}


@pytest.fixture(scope="module")
def completions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory where bash finds the completions before any others."""
    data = tmp_path_factory.mktemp("data")
    directory = data / "bash-completion/completions"
    directory.mkdir(parents=True)
    for program, (source, _) in PROGRAMS.items():
        (directory / program).symlink_to(PROJECT / source)
    return data


def complete(completions: Path, *words: str) -> list[str]:
    done = subprocess.run([PROJECT / "ci/complete", *words], env={**os.environ, "XDG_DATA_HOME": str(completions)},
                          check=True, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("program", PROGRAMS)
def test_options(completions: Path, program: str) -> None:
    """Expects just the long options that the program's help names; a summary need not name --help."""
    help_text = subprocess.run([PROJECT / "build/release" / PROGRAMS[program][1], "--help"], check=True,
                               capture_output=True, text=True).stdout
    assert set(complete(completions, program, "--")) == {*re.findall(r"--[a-z-]+", help_text), "--help"}


@pytest.mark.parametrize("line, expected", [
    ("vrdmad --log-level d", ["debug"]),
    ("vrdmad --forbidden-calls k", ["kill"]),
    ("vrdmactl uplink add eth0 --transport ", ["auto", "af_packet", "af_xdp"]),
    ("vrdmactl uplink add eth0 --transport af_x", ["af_xdp"]),
    ("vrdma-run --devices 8", ["8"]),
    ("vrdma-run --devices 9", []),
    ("vrdma-run --address 1", []),
    ("vrdma-run -d a.sock -a 10.0.0.1 -- vrdmad --co", ["--config", "--core-dumps"]),
    ("vrdma-run vrdma-run vrdmad --check-c", ["--check-config"]),
])  # fmt: skip
def test_words(completions: Path, line: str, expected: list[str]) -> None:
    assert complete(completions, *line.split(" ")) == expected


def test_names_of_devices(completions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a vrdmactl list devices, one of whose names a shell would execute; expects the others to be offered."""
    made = tmp_path / "made"
    program = tmp_path / "vrdmactl"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' Name disk '$(touch${{IFS}}{made})' vm-1.sock\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert {"disk", "vm-1.sock"} <= {*complete(completions, "vrdmactl", "device", "show", "")}
    assert not made.exists()


def test_the_socket_is_asked_that_is_named(completions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a vrdmactl show its arguments as a device; expects the socket among them."""
    program = tmp_path / "vrdmactl"
    program.write_text("#!/bin/sh\nIFS=.\nprintf '%s\\n' Name \"$*\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    names = complete(completions, "vrdmactl", "--socket", "mine", "device", "stats", "")
    assert "--socket.mine.device.list" in names


@pytest.mark.parametrize("line", ["vrdma-run unsh", "vrdma-run -n 2 unsh", "vrdma-run --device a -- unsh"])
def test_program(completions: Path, line: str) -> None:
    """Expects the names of programs where one can stand."""
    assert "unshare" in complete(completions, *line.split())
