# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The messages of Kubernetes' device plug-in API, version v1beta1, as far as this plug-in and its tests need them. They
are described here in the place of generated code, which would have to fit the version of protobuf where it runs."""

from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

VERSION = "v1beta1"
REGISTRATION = "v1beta1.Registration"
DEVICE_PLUGIN = "v1beta1.DevicePlugin"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"

# By message: the fields, each with its type and its number. A star stands for any number of them.
_FIELDS: dict[str, list[str]] = {
    "Empty": [],
    "DevicePluginOptions": ["bool pre_start_required 1", "bool get_preferred_allocation_available 2"],
    "RegisterRequest": ["string version 1", "string endpoint 2", "string resource_name 3",
                        "DevicePluginOptions options 4"],
    "Device": ["string ID 1", "string health 2"],
    "ListAndWatchResponse": ["Device* devices 1"],
    "ContainerAllocateRequest": ["string* devicesIDs 1"],
    "AllocateRequest": ["ContainerAllocateRequest* container_requests 1"],
    "Environment": ["string key 1", "string value 2"],
    "Mount": ["string container_path 1", "string host_path 2", "bool read_only 3"],
    "ContainerAllocateResponse": ["Environment* envs 1", "Mount* mounts 2"],
    "AllocateResponse": ["ContainerAllocateResponse* container_responses 1"],
    "PreStartContainerRequest": ["string* devicesIDs 1"],
    "PreStartContainerResponse": [],
}


def _describe(message: DescriptorProto, field: str) -> None:
    kind, name, number = field.split()
    described = message.field.add(name=name, number=int(number))
    described.label = (FieldDescriptorProto.LABEL_REPEATED if kind.endswith("*")
                       else FieldDescriptorProto.LABEL_OPTIONAL)
    kind = kind.rstrip("*")
    if kind in _FIELDS:
        described.type = FieldDescriptorProto.TYPE_MESSAGE
        described.type_name = f".{VERSION}.{kind}"
    else:
        described.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")


def _messages() -> dict[str, Any]:
    file = FileDescriptorProto(name="vrdma/device_plugin.proto", package=VERSION, syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _describe(message, field)
    return message_factory.GetMessages([file])


_CLASSES = _messages()


def make(name: str, **fields: Any) -> Any:
    """A message of that name. A map of the API is on the wire what a list of pairs is, and is one here."""
    return _CLASSES[f"{VERSION}.{name}"](**fields)


def reader(name: str) -> Any:
    """The function that reads such a message from bytes."""
    return _CLASSES[f"{VERSION}.{name}"].FromString


def write(message: Any) -> bytes:
    return message.SerializeToString()
