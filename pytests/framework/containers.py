# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Containers of podman, which have this machine's programs and the devices that CDI specifications describe. They have
no capabilities, and no privileges but those of their users. A plug-in of pytest, for the fixture."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.control import public_directory
from framework.native import BUILD
from framework.process import Process, Record

# crun refuses a machine that mounts both versions of cgroups, and one that mounts none. It takes a tmpfs for version 1,
# of which these containers need nothing. /run/cdi, where podman looks for specifications, has those of one test.
MOUNTS = """
mount -t tmpfs tmpfs /sys/fs/cgroup
mkdir -p /run/cdi && mount --bind "$0" /run/cdi && exec "$@"
"""

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin"}


class Podman:
    """Everything that it keeps is in the directory, whose path must be short."""

    def __init__(self, directory: Path, record: Record) -> None:
        self.specifications = directory / "cdi"
        self.driver = directory / "lib"
        self._record = record
        self._machine = directory / "machine"
        # A podman that is killed would leave its container. So the container ends with its processes' namespace.
        self._podman = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                        "sh", "-c", MOUNTS, str(self.specifications),
                        "podman", *(f"--{key}={directory}/{key}" for key in ("root", "runroot", "tmpdir"))]
        for made in ("usr", "etc", "proc", "sys", "dev", "tmp", "run", "var/tmp"):
            (self._machine / made).mkdir(parents=True)
        for link in ("bin", "sbin", "lib", "lib64"):
            (self._machine / link).symlink_to(f"usr/{link}")
        self.specifications.mkdir()
        self._lay_out_driver()

    def _lay_out_driver(self) -> None:
        """As it is installed."""
        (self.driver / "vrdma").mkdir(parents=True)
        for installed in ("libvrdma.so.1", "vrdma/libvrdma-run.so"):
            (self.driver / installed).symlink_to(BUILD / "providers/vrdma" / Path(installed).name)

    def run(self, devices: list[str], *command: str, options: tuple[str, ...] = ()) -> Process:
        """Runs a command in a container that has these devices, in this network namespace."""
        words = [*self._podman, "run", "--rm", "--timeout=120", "--cgroups=disabled", "--network=host",
                 "--cap-drop=all", "--security-opt=no-new-privileges", "--ulimit=nofile=4096:4096",
                 "--ulimit=nproc=1024:1024", "--tmpfs=/tmp:mode=1777", "--volume=/usr:/usr:ro",
                 "--volume=/etc/ld.so.cache:/etc/ld.so.cache:ro", *(f"--device={device}" for device in devices),
                 *options, "--rootfs", str(self._machine), *command]
        return self._record.add(Process(f"container of {' '.join(devices)}", words, ENVIRONMENT))


@pytest.fixture
def podman(record: Record) -> Iterator[Podman]:
    with public_directory() as directory:
        yield Podman(directory, record)
