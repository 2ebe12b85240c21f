# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""vrdmad's devices, which vrdmactl creates and destroys, and what a container gets with them."""

import json
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from vrdmaplugin.config import Resource

TIMEOUT_S = 60


class DeviceError(Exception):
    """What vrdmactl said."""


@dataclass
class Edits:
    """The environment of a container, and its mounts: their places on the host, by those in the container."""

    environment: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, str] = field(default_factory=dict)

    def add(self, specification: Path) -> None:
        """Adds those of the one device in a specification of CDI. The driver takes the devices of an environment
        with semicolons between them, and needs to be loaded once."""
        device, = json.loads(specification.read_text(encoding="utf-8"))["devices"]
        for variable in device["containerEdits"]["env"]:
            name, value = variable.split("=", 1)
            others = self.environment.get(name)
            self.environment[name] = f"{others};{value}" if others and name == "VRDMA_RUN_DEVICES" else value
        for mount in device["containerEdits"]["mounts"]:
            self.mounts[mount["containerPath"]] = mount["hostPath"]


class Devices:
    """Of a vrdmad, by vrdmactl and the control socket."""

    def __init__(self, vrdmactl: str, socket: str) -> None:
        self._command = [vrdmactl, "--socket", socket]

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run([*self._command, *words], capture_output=True, text=True, check=False,
                                  timeout=TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DeviceError(str(error)) from None

    def _change(self, *words: str) -> None:
        done = self._run("device", *words)
        if done.returncode != 0:
            raise DeviceError(done.stderr.strip())

    def available(self) -> bool:
        """Whether vrdmad answers."""
        try:
            return self._run("log-level").returncode == 0
        except DeviceError:
            return False

    def exists(self, name: str) -> bool:
        listed = self._run("device", "list", "--json")
        if listed.returncode != 0:
            raise DeviceError(listed.stderr.strip())
        return any(device["name"].split("/")[0] == name for device in json.loads(listed.stdout)["devices"])

    def create(self, resource: Resource, name: str, edits: Edits) -> None:
        """The edits are all that the plug-in needs of the device's specification."""
        with tempfile.TemporaryDirectory() as specifications:
            self._change("create", resource.type, "--name", name, "--addresses", resource.addresses_of(name), "--cdi",
                         "--cdi-directory", specifications, *resource.options)
            edits.add(next(Path(specifications).glob("*.json")))

    def destroy(self, name: str) -> None:
        """Also if a container still uses it."""
        self._change("destroy", name, "--force")
