# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The resources of the configuration: vrdma-device-plugin(8) describes the file."""

import re
import tomllib
from dataclasses import dataclass, field
from ipaddress import ip_network
from itertools import islice
from pathlib import Path
from typing import Any

MOST_DEVICES = 100
# Options of `vrdmactl device create` that a resource may have.
OPTIONS = {"ah", "blocks", "bytes-per-second", "clients", "cq", "driver", "group", "memory", "mode", "mr",
           "operations-per-second", "pd", "pkeys", "protocol", "qp", "srq", "uplink", "vlans", "weight", "window-gib",
           "xrcd"}


class ConfigError(Exception):
    """A sentence for people."""


@dataclass(frozen=True)
class Resource:
    """Devices of one kind, of which a container asks for some. Its devices are named NAME-0 and so on."""

    name: str
    type: str
    addresses: list[list[str]]  # of each device
    options: list[str] = field(default_factory=list)  # of vrdmactl

    @property
    def devices(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(len(self.addresses))]

    def addresses_of(self, device: str) -> str:
        return ",".join(self.addresses[self.devices.index(device)])


def _addresses(name: str, ranges: list[str], count: int) -> list[list[str]]:
    """One of each range for each device. No device has an address of another one."""
    columns: list[list[str]] = []
    for text in ranges:
        try:
            columns.append([str(address) for address in islice(ip_network(text).hosts(), count)])
        except ValueError as error:
            raise ConfigError(f"resources.{name}.addresses: {error}") from None
        if len(columns[-1]) < count:
            raise ConfigError(f"resources.{name}.addresses: {text} has fewer than {count} addresses")
    return [[column[number] for column in columns] for number in range(count)]


def _option(name: str, key: str, value: Any) -> list[str]:
    option = key.replace("_", "-")
    if option not in OPTIONS:
        raise ConfigError(f"resources.{name}.{key}: unknown key")
    return [f"--{option}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]


def _resource(name: str, table: dict[str, Any]) -> Resource:
    keys = dict(table)
    count = keys.pop("count", 1)
    if not isinstance(count, int) or not 1 <= count <= MOST_DEVICES:
        raise ConfigError(f"resources.{name}.count: must be a number from 1 to {MOST_DEVICES}")
    if not re.fullmatch("[a-z0-9][a-z0-9-]*", name) or len(f"{name}-{count - 1}") > 15:
        raise ConfigError(f"resources.{name}: the names of its devices must have at most 15 characters a-z, 0-9 and -")
    ranges = keys.pop("addresses", [])
    ranges = [ranges] if isinstance(ranges, str) else ranges
    device_type = str(keys.pop("type", "small"))
    options = [word for key, value in keys.items() for word in _option(name, key, value)]
    return Resource(name, device_type, _addresses(name, ranges, count), options)


def _refuse_shared(resources: list[Resource]) -> None:
    owners: dict[str, str] = {}
    for resource in resources:
        for device, addresses in zip(resource.devices, resource.addresses, strict=True):
            for address in addresses:
                if owners.setdefault(address, device) != device:
                    raise ConfigError(f"{owners[address]} and {device} would both have the address {address}")


def read(path: Path) -> list[Resource]:
    try:
        file = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from None
    tables = file.pop("resources", {})
    if file or not isinstance(tables, dict) or not tables:
        raise ConfigError(f"{path}: must have tables [resources.NAME], and nothing else")
    resources = [_resource(name, table) for name, table in tables.items()]
    _refuse_shared(resources)
    return resources
