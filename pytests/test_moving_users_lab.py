# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Users of RDMA in a guest's kernel, while the guest or its peer is moved by QEMU's live migration."""

import pytest

from framework.detached import Detached
from framework.lab import Guest
from framework.moving import AWAY, HOME
from framework.nvme import BLOCK
from framework.programs import await_condition

pytestmark = pytest.mark.lab_hosts

SIZE = 2 << 20
# Writes new contents again and again, past the caches, and compares them.
USE = """sh -euc 'while test -e /root/goes-on; do
    head -c {size} /dev/urandom >/root/pattern
    dd if=/root/pattern of={path} bs=256k oflag=direct conv=notrunc status=none
    dd if={path} bs=64k count=$(({size} >> 16)) iflag=direct status=none | cmp - /root/pattern
    echo right
done'"""


class Use:
    """A user of a disk or a file of another guest, until it is stopped."""

    def __init__(self, guest: Guest, path: str) -> None:
        guest.run("touch /root/goes-on")
        self._guest = guest
        self._program = Detached(guest, USE.format(size=SIZE, path=path))

    def await_more(self) -> None:
        """Returns when it has verified contents that it wrote after this call."""
        done = self._rounds()
        await_condition(self._guest, f"test $(grep -c right /root/output) -gt {done + 1} -o -e /root/status")
        assert self._program.goes_on(), self._program.output()

    def __enter__(self) -> "Use":
        return self

    def __exit__(self, *_: object) -> None:
        self._guest.run("rm /root/goes-on")
        self._program.output()

    def _rounds(self) -> int:
        return int(self._guest.run("grep -c right /root/output", check=False).stdout or 0)


def connections(guest: Guest, device: str) -> set[str]:
    """The numbers of the guest's connected QPs, which a new connection would change."""
    return {line.split("lqpn")[1].split()[0] for line in guest.run("rdma resource show qp").stdout.splitlines()
            if f"link {device}/" in line and " type RC " in line and " state RTS " in line}


@pytest.mark.parametrize("user, path", [("connection", BLOCK), ("mounted", "/run/mounted/file")],
                         ids=["NVMe over RDMA", "NFS over RDMA"])
def test_goes_on(request, device, mover, guest1, user, path):
    """Moves the guest whose disk or directory its peer uses, then the peer, and both back, while the peer writes and
    reads. Expects everything to be right, over the same connections."""
    request.getfixturevalue(user)
    with Use(guest1, path) as use:
        use.await_more()
        before = connections(guest1, device)
        assert before
        for guest, host in ((mover, AWAY), (guest1, HOME), (mover, HOME), (guest1, AWAY)):
            guest.migrate(host)
            use.await_more()
            assert connections(guest1, device) == before
