# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A virtual machine that moves between hosts that reach each other by libfabric: the same programs as with RoCE. Only a
directory, in an etcd on the second host, tells the vrdmads where a guest is.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework import etcd
from framework.authority import Authority
from framework.connections import address
from framework.directory import FABRIC
from framework.fabric import PORT
from framework.lab import TIMEOUT_S
from test_bad_network_lab import hosts  # noqa: F401 (a fixture)
from test_fabric_lab import BINDING, CREDENTIALS, ESTABLISHED, certify, configure
from test_moving_lab import test_connects_after_a_move, test_pingpong  # noqa: F401
from test_performance import CONFIGURATION

pytestmark = pytest.mark.lab_hosts

UNIT = "etcd-of-tests"


@pytest.fixture(scope="module")
def directory(hosts) -> Iterator[str]:  # noqa: F811
    """The URL of an etcd on the second host."""
    host = hosts[1]
    program = shutil.which("etcd")
    assert program
    url = f"http://{address(host, 4)}:{etcd.PORT}"
    host.run(f"systemd-run --unit={UNIT} {host.bring(Path(program))} --data-dir=/run/{UNIT} --listen-client-urls={url} "
             f"--advertise-client-urls={url} --listen-peer-urls=http://127.0.0.1:2380")
    host.script(f"until ss -tnlH 'sport = :{etcd.PORT}' | grep -q .; do sleep 0.05; done", TIMEOUT_S)
    yield url
    host.run(f"systemctl stop {UNIT}")


@pytest.fixture(scope="module", autouse=True)
def fabric(hosts, guest0, guest1, directory) -> Iterator[None]:  # noqa: F811
    """Binds the devices of both guests to fabrics that have the directory."""
    sides = list(zip(hosts, (guest0, guest1), strict=True))
    before = [host.read(CONFIGURATION) for host in hosts]
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        for host, guest in sides:
            certify(host, authority)
            name = address(host, 4)
            configure(host, guest, FABRIC.format(host=name, address=name, port=PORT, credentials=CREDENTIALS,
                                                 etcd=directory) + BINDING)  # fmt: skip
    hosts[0].script(f"until ss -tnH {ESTABLISHED} | grep -q .; do sleep 0.05; done", TIMEOUT_S)
    yield
    for side, config in zip(sides, before, strict=True):
        configure(*side, config)
