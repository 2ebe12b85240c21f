# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Gives vrdma's devices to Kubernetes' kubelet: see vrdma-device-plugin(8)."""

import argparse
import signal
import sys
import threading
from pathlib import Path

import grpc

sys.dont_write_bytecode = True  # a package would leave it behind

from vrdmaplugin import config  # noqa: E402
from vrdmaplugin.devices import Devices  # noqa: E402
from vrdmaplugin.plugin import KUBELET_SOCKET, Plugin  # noqa: E402

NAME = "vrdma-device-plugin"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=NAME, description="Gives vrdma's devices to Kubernetes' kubelet.")
    parser.add_argument("--config", type=Path, default=Path("/etc/vrdma/device-plugin.toml"), metavar="FILE",
                        help="the resources (%(default)s)")
    parser.add_argument("--kubelet", type=Path, default=Path("/var/lib/kubelet/device-plugins"), metavar="DIRECTORY",
                        help="where kubelet's socket is (%(default)s)")
    parser.add_argument("--socket", default="/run/vrdma/control.sock", help="vrdmad's control socket (%(default)s)")
    parser.add_argument("--vrdmactl", default="vrdmactl", metavar="PROGRAM", help="%(default)s")
    parser.add_argument("--interval", type=float, default=2, metavar="SECONDS",
                        help="how often kubelet and vrdmad are looked for (%(default)s)")
    return parser.parse_args()


def identity(path: Path) -> tuple[int, int] | None:
    """Another kubelet makes another socket."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


class Watch:
    """Registers with each kubelet that comes, and looks whether vrdmad is there."""

    def __init__(self, plugins: list[Plugin], devices: Devices, kubelet: Path) -> None:
        self._plugins = plugins
        self._devices = devices
        self._kubelet = kubelet / KUBELET_SOCKET
        self._known: tuple[int, int] | None = None

    def look(self) -> None:
        available = self._devices.available()
        for plugin in self._plugins:
            plugin.set_health(available)
        found = identity(self._kubelet)
        if found is not None and found != self._known and self._register():
            self._known = found

    def _register(self) -> bool:
        try:
            for plugin in self._plugins:
                plugin.start()
        except (grpc.RpcError, RuntimeError, OSError) as error:
            print(f"kubelet cannot be reached: {error}", file=sys.stderr, flush=True)
            return False
        names = ", ".join(plugin.resource.name for plugin in self._plugins)
        print(f"registered: {names}", file=sys.stderr, flush=True)
        return True


def main() -> int:
    options = parse()
    try:
        resources = config.read(options.config)
    except config.ConfigError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    devices = Devices(options.vrdmactl, options.socket)
    plugins = [Plugin(resource, devices, options.kubelet) for resource in resources]
    watch = Watch(plugins, devices, options.kubelet)
    while True:
        watch.look()
        if ended.wait(options.interval):
            break
    for plugin in plugins:
        plugin.stop()
        plugin.endpoint.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
