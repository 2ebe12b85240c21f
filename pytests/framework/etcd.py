# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""An etcd for the tests alone, in a network namespace. One that Debian may have started is not used."""

import base64
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .lab import TIMEOUT_S
from .process import Failure, Process

PORT = 2379
# A program that sends a request to etcd. It runs within etcd's namespace.
CALL = ("import sys, urllib.request as r; print(r.urlopen(sys.argv[1], sys.argv[2].encode(), "
        "timeout=10).read().decode())")


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Etcd:
    """An etcd at an address of the host that the command prefix `within` enters."""

    def __init__(self, address: str, within: tuple[str, ...]) -> None:
        self.url = f"http://{address}:{PORT}"
        self._within = within
        self._directory = tempfile.TemporaryDirectory(prefix="vrdma-etcd-")
        self._data = Path(self._directory.name) / "data"
        self._process: Process | None = None

    def start(self) -> None:
        """Starts it with its previous data, if there is any."""
        peers = "http://127.0.0.1:2380"
        self._process = Process("etcd", [
            *self._within, "etcd", f"--data-dir={self._data}", f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}", f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}"], {})  # fmt: skip
        deadline = time.monotonic() + TIMEOUT_S
        while not self._answers():
            if not self._process.running or time.monotonic() > deadline:
                raise Failure(f"etcd does not start\n{self._process.report()}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            self.hosts()
        except subprocess.CalledProcessError:
            return False
        return True

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process = None

    def forget(self) -> None:
        """Deletes its data. It must be stopped."""
        shutil.rmtree(self._data)

    def down(self) -> None:
        self.stop()
        self._directory.cleanup()

    def _call(self, what: str, **request) -> dict:
        command = [*self._within, sys.executable, "-c", CALL, f"{self.url}/v3/kv/{what}", json.dumps(request)]
        return json.loads(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE).stdout)

    def put(self, key: str, value: str) -> None:
        self._call("put", key=coded(key), value=coded(value))

    def delete(self, key: str) -> None:
        self._call("deleterange", key=coded(key))

    def hosts(self) -> dict[str, str]:
        """Entries by the hosts' names."""
        prefix = "/vrdma/hosts/"
        pairs = self._call("range", key=coded(prefix), range_end=coded(prefix[:-1] + "0")).get("kvs", [])
        return {base64.b64decode(pair["key"]).decode().removeprefix(prefix): base64.b64decode(pair["value"]).decode()
                for pair in pairs}
