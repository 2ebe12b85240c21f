# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The service that kubelet calls, for one resource."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from vrdmaplugin import api
from vrdmaplugin.config import Resource
from vrdmaplugin.devices import DeviceError, Devices, Edits

PREFIX = "vrdma.io/"
KUBELET_SOCKET = "kubelet.sock"
THREADS = 4  # of which ListAndWatch keeps one
TIMEOUT_S = 10


class Plugin:
    """Devices are created when kubelet allocates them, because only then a container needs what they take. kubelet does
    not say when it has no use for a device any more. So a device stays until it is allocated again, and is replaced."""

    def __init__(self, resource: Resource, devices: Devices, directory: Path) -> None:
        self.resource = resource
        self._devices = devices
        self._directory = directory
        self._changed = threading.Condition()
        self._healthy = False
        self._version = 0  # of what kubelet is told
        self._changing = threading.Lock()  # vrdmad's devices
        self._server: grpc.Server | None = None

    @property
    def endpoint(self) -> Path:
        return self._directory / f"vrdma-{self.resource.name}.sock"

    def set_health(self, healthy: bool) -> None:
        with self._changed:
            if healthy != self._healthy:
                self._healthy = healthy
                self._version += 1
                self._changed.notify_all()

    def start(self) -> None:
        """Listens, and registers with kubelet. kubelet has removed an older socket when it started."""
        self.stop()
        self.endpoint.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(THREADS))
        server.add_generic_rpc_handlers([self._handlers()])
        server.add_insecure_port(f"unix://{self.endpoint}")
        server.start()
        self._server = server
        self._register()

    def stop(self) -> None:
        server, self._server = self._server, None
        with self._changed:
            self._changed.notify_all()
        if server:
            server.stop(grace=None).wait()

    def _register(self) -> None:
        request = api.make("RegisterRequest", version=api.VERSION, endpoint=self.endpoint.name,
                           resource_name=PREFIX + self.resource.name, options=self._options())
        with grpc.insecure_channel(f"unix://{self._directory / KUBELET_SOCKET}") as channel:
            channel.unary_unary(f"/{api.REGISTRATION}/Register", api.write, api.reader("Empty"))(
                request, timeout=TIMEOUT_S)

    def _handlers(self) -> grpc.GenericRpcHandler:
        def unary(function: Any, request: str) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(function, api.reader(request), api.write)

        return grpc.method_handlers_generic_handler(api.DEVICE_PLUGIN, {
            "GetDevicePluginOptions": unary(lambda request, context: self._options(), "Empty"),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list, api.reader("Empty"), api.write),
            "Allocate": unary(self._allocate, "AllocateRequest"),
            "PreStartContainer": unary(self._prepare, "PreStartContainerRequest"),
        })

    @staticmethod
    def _options() -> Any:
        return api.make("DevicePluginOptions", pre_start_required=True)

    def _list(self, _request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Tells kubelet the devices, and again at each change."""
        server = self._server
        told = -1
        while context.is_active() and self._server is server:
            with self._changed:
                self._changed.wait_for(lambda: self._version != told or self._server is not server, timeout=1)
                if self._version == told:
                    continue
                told, health = self._version, api.HEALTHY if self._healthy else api.UNHEALTHY
            yield api.make("ListAndWatchResponse", devices=[
                api.make("Device", ID=device, health=health) for device in self.resource.devices])

    def _known(self, names: list[str], context: grpc.ServicerContext) -> list[str]:
        for name in names:
            if name not in self.resource.devices:
                context.abort(grpc.StatusCode.NOT_FOUND, f"{PREFIX}{self.resource.name} has no device '{name}'")
        return names

    def _allocate(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Each container gets new devices, with nothing of those who had them before."""
        responses = []
        for container in request.container_requests:
            edits = Edits()
            for name in self._known(list(container.devicesIDs), context):
                self._create(name, edits, context, anew=True)
            responses.append(api.make(
                "ContainerAllocateResponse",
                envs=[api.make("Environment", key=key, value=value) for key, value in edits.environment.items()],
                mounts=[api.make("Mount", container_path=inside, host_path=outside, read_only=True)
                        for inside, outside in edits.mounts.items()]))
        return api.make("AllocateResponse", container_responses=responses)

    def _prepare(self, request: Any, context: grpc.ServicerContext) -> Any:
        """A container starts, maybe again. After a boot of the host, its devices are gone, but kubelet knows them."""
        for name in self._known(list(request.devicesIDs), context):
            self._create(name, Edits(), context, anew=False)
        return api.make("PreStartContainerResponse")

    def _create(self, name: str, edits: Edits, context: grpc.ServicerContext, anew: bool) -> None:
        try:
            with self._changing:
                exists = self._devices.exists(name)
                if exists and anew:
                    self._devices.destroy(name)
                if anew or not exists:
                    self._devices.create(self.resource, name, edits)
                    print(f"{name}: created", file=sys.stderr, flush=True)
        except DeviceError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            context.abort(grpc.StatusCode.UNAVAILABLE, f"{name}: {error}")
