# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Two hosts whose vrdmads reach each other by libfabric's tcp provider: between them there is no RoCE."""

import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from .authority import Authority, Credentials
from .hosts import Hosts
from .lab import TIMEOUT_S
from .process import Record

PORT = 7471
FABRIC = """
[[fabric]]
name = "wan"
host = "{host}"
listen = "{host}:{port}"
certificate_file = "{credentials.certificate}"
private_key_file = "{credentials.key}"
ca_file = "{credentials.ca}"
[[fabric.peer]]
name = "{peer}"
address = "{peer}:{port}"
gids = [{gids}]
"""
# A filter for ss(8).
CONNECTIONS = f"( sport = :{PORT} or dport = :{PORT} )"
BINDING = """
uplink = "wan"
mac = "02:00:00:00:00:{number:02x}"
"""


def fabric_config(host: str, peer: str, credentials: Credentials, gids: Iterable[object]) -> str:
    """The configuration of the host with that address, which is also its name. The peer's devices have these GIDs."""
    return FABRIC.format(host=host, peer=peer, port=PORT, credentials=credentials,
                         gids=", ".join(f'"{gid}"' for gid in gids))


class FabricHosts(Hosts):
    """Hosts, and vrdmads, by their IPv4 addresses. A device has its host's address."""

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._certificates = tempfile.TemporaryDirectory(prefix="vrdma-ca-")
        self._authority = Authority(Path(self._certificates.name))

    def up(self) -> None:
        super().up()
        self.await_connections()

    def await_connections(self) -> None:
        """A message that is sent before the connection exists is lost, and a datagram is never sent again."""
        for mediator in self.mediators:
            mediator.await_line("connected with", TIMEOUT_S)

    def down(self) -> None:
        super().down()
        self._certificates.cleanup()

    def _uplink(self, name: str) -> str:
        (peer,) = (other for other in self.addresses if other != name)
        gids = [*self.addresses[peer].values(), f"fe80::ff:fe00:{self._number(peer)}"]
        return fabric_config(name, peer, self._authority.issue(name), gids)

    def _binding(self, name: str) -> str:
        return BINDING.format(number=self._number(name))

    @staticmethod
    def _number(name: str) -> int:
        return int(name.rsplit(".", 1)[1])

    def cut(self, name: str) -> int:
        """Resets the connection, as a middlebox may. Returns the number of connections that it has reset."""
        killed = subprocess.run([*self._within(name), "ss", "-KtnH", "state", "established", CONNECTIONS], check=True,
                                text=True,
                                stdout=subprocess.PIPE).stdout
        return len(killed.splitlines())

    def link(self, name: str, state: str) -> None:
        """Turns the interface between the hosts up or down."""
        subprocess.run([*self._within(name), "ip", "link", "set", "lan", state], check=True)
