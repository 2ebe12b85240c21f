# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What a device plug-in meets of Kubernetes: a kubelet that devices are registered with, and that asks for them."""

import queue
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from framework.lab import PROJECT, TIMEOUT_S

sys.path.insert(0, str(PROJECT / "kubelet"))

from vrdmaplugin import api  # noqa: E402


class Kubelet:
    """Listens in the directory, as kubelet does after it has removed all that was there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._requests: queue.Queue[Any] = queue.Queue()
        for left in directory.glob("*.sock"):
            left.unlink()
        self._server = grpc.server(ThreadPoolExecutor(1))
        register = grpc.unary_unary_rpc_method_handler(self._register, api.reader("RegisterRequest"), api.write)
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(api.REGISTRATION, {"Register": register})])
        self._server.add_insecure_port(f"unix://{directory}/kubelet.sock")
        self._server.start()

    def _register(self, request: Any, _context: grpc.ServicerContext) -> Any:
        self._requests.put(request)
        return api.make("Empty")

    def await_plugin(self) -> "Resource":
        """The next one that registers."""
        request = self._requests.get(timeout=TIMEOUT_S)
        assert request.version == "v1beta1"
        assert request.options.pre_start_required
        return Resource(request.resource_name, self.directory / request.endpoint)

    def stop(self) -> None:
        self._server.stop(grace=None).wait()


class Resource:
    """The plug-in of one resource, as kubelet calls it."""

    def __init__(self, name: str, endpoint: Path) -> None:
        self.name = name
        self._channel = grpc.insecure_channel(f"unix://{endpoint}")

    def _call(self, method: str, request: Any, response: str) -> Any:
        call = self._channel.unary_unary(f"/{api.DEVICE_PLUGIN}/{method}", api.write, api.reader(response))
        return call(request, timeout=TIMEOUT_S)

    def watch(self) -> Iterator[dict[str, str]]:
        """The health of each device, and again at each change."""
        call = self._channel.unary_stream(f"/{api.DEVICE_PLUGIN}/ListAndWatch", api.write,
                                          api.reader("ListAndWatchResponse"))
        for response in call(api.make("Empty"), timeout=TIMEOUT_S):
            yield {device.ID: device.health for device in response.devices}

    def allocate(self, *devices: str) -> tuple[str, ...]:
        """Options by which podman gives a container what kubelet would give it."""
        container = api.make("ContainerAllocateRequest", devicesIDs=devices)
        response, = self._call("Allocate", api.make("AllocateRequest", container_requests=[container]),
                               "AllocateResponse").container_responses
        return (*(f"--env={variable.key}={variable.value}" for variable in response.envs),
                *(f"--volume={mount.host_path}:{mount.container_path}:{'ro' if mount.read_only else 'rw'}"
                  for mount in response.mounts))

    def prepare(self, *devices: str) -> None:
        self._call("PreStartContainer", api.make("PreStartContainerRequest", devicesIDs=devices),
                   "PreStartContainerResponse")
