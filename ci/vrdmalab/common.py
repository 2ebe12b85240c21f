# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Definitions for both hosts and guests."""

from . import remote
from .errors import LabError
from .remote import Address

ANSWER_S = 20.0
# A panic ends the VM, so that it is noticed. Without address randomisation the emulator can use its translations of
# a program again when the program is started again. Without mitigations and early scans of an empty PCI bus there is
# less to emulate. The TSCs are those of the machine, and need no comparison with emulated timers.
COMMON_KERNEL_ARGUMENTS = (
    "console=ttyS0 quiet panic=-1 oops=panic norandmaps mitigations=off pci=noearly tsc=reliable "
    "net.ifnames=0 audit=0"
)


def script(name: str, address: Address, text: str, what: str, timeout: float = 60.0, **variables: str) -> str:
    """Runs a shell script in a VM. If it fails, the error contains its stderr."""
    assignments = [f"{key}={value}" for key, value in variables.items()]
    done = remote.run(address, ["env", *assignments, "sh", "-euc", text], timeout=timeout)
    if done.returncode:
        raise LabError(f"{name}: cannot {what}:\n{done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")


def boot_id(address: Address, boot_s: int = 0) -> str:
    """The boot's identity, which changes with every boot. A guest that boots in a host may take boot_s seconds."""
    done = remote.run(address, ["cat", "/proc/sys/kernel/random/boot_id"], ANSWER_S + boot_s, boot_s)
    return done.stdout.decode()
