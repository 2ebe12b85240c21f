# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A guest of the lab as a domain of libvirt: it boots as the lab boots it, with the same device, NIC and address of its
agent, so that tests use it as before."""

import re

from .lab import MOVE_TIMEOUT_S, TIMEOUT_S, Guest, Machine
from .mdev import Mdev, mdev_of
from .process import Failure, Result

EMULATOR = "/usr/bin/qemu-system-x86_64"
# Only this one can save VFIO devices.
NEWER_EMULATOR = "/opt/qemu/usr/bin/qemu-system-x86_64"
# It answers when it has looked at the first emulator, which takes seconds.
START = "systemd-sysusers && systemctl start libvirtd && virsh version"
ARGUMENTS = "tr '\\0' '\\n' </proc/$(systemctl show --property MainPID --value {name})/cmdline"
ALIAS = "ua-vrdma"
# libvirt has no element for this property of QEMU's.
MOVABLE = f"""
  <qemu:override>
    <qemu:device alias='{ALIAS}'>
      <qemu:frontend><qemu:property name='enable-migration' type='string' value='on'/></qemu:frontend>
    </qemu:device>
  </qemu:override>"""
# VMware's driver looks for a vmxnet3 in the slot of its device.
PLACE = "<address type='pci' domain='0' bus='0' slot='0x10' {function}/>"
NIC, NIC_OF_PVRDMA = (
    "<model type='virtio'/>", "<model type='vmxnet3'/>" + PLACE.format(function="function='0' multifunction='on'"))
DOMAIN = """
<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{name}</name>
  <memory unit='MiB'>{memory}</memory>
  <vcpu>{cpus}</vcpu>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>{kernel}</kernel>
    <initrd>{initrd}</initrd>
    <cmdline>{append}</cmdline>
  </os>
  <features><acpi/></features>
  <cpu mode='host-passthrough'/>
  <devices>
    <emulator>{emulator}</emulator>
    <disk type='block'>
      <driver name='qemu' type='raw'/>
      <source dev='/dev/vda'/>
      <target dev='vda' bus='virtio'/>
      <readonly/>
    </disk>
    <filesystem type='mount' multidevs='remap'>
      <source dir='{share}'/>
      <target dir='lab'/>
      <readonly/>
    </filesystem>
    <interface type='bridge'>
      <source bridge='br0'/>
      <mac address='{mac}'/>
      {nic}
      <rom enabled='no'/>
    </interface>
    <vsock><cid auto='no' address='{cid}'/></vsock>
    <serial type='file'><source path='/run/vrdma-lab/{name}/console'/></serial>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
    <hostdev mode='subsystem' type='mdev' model='vfio-pci'>
      <source><address uuid='{uuid}'/></source>
      <alias name='{alias}'/>
      {place}
    </hostdev>
  </devices>{more}
</domain>
"""


class Libvirt:
    """libvirtd on a host."""

    def __init__(self, host: Machine) -> None:
        self.host = host

    def start(self) -> None:
        self.host.script(START)

    def virsh(self, command: str, check: bool = True, timeout: float = TIMEOUT_S) -> Result:
        return self.host.run(f"virsh {command}", timeout, check)

    def refusal(self, command: str) -> str:
        """The error message of a command that fails."""
        result = self.virsh(command, check=False)
        assert result.status != 0
        return result.stderr


class Domain(Libvirt):
    """The domain that has taken the place of a guest."""

    def __init__(self, host: Machine, guest: Guest) -> None:
        super().__init__(host)
        self.guest = guest
        self._emulator = ""
        self._uuid = ""
        self._lab_arguments: list[str] = []

    @property
    def device(self) -> Mdev:
        return mdev_of(self.host, self.guest)

    def run(self, emulator: str) -> None:
        """Starts the domain with this emulator, unless it runs. Another domain or the lab's QEMU that runs instead is
        ended."""
        in_lab = self.host.run(f"systemctl is-active {self.guest.name}", check=False).status == 0
        if in_lab:
            self._take_over()
        elif self._emulator == emulator:
            return
        else:
            self.destroy()
        self._define(emulator)
        self.virsh(f"start {self.guest.name}")
        self.await_boot()

    def _take_over(self) -> None:
        self.start()
        self._lab_arguments = self.host.script(ARGUMENTS.format(name=self.guest.name)).stdout.splitlines()
        self._uuid = self.device.uuid
        self.guest.kill()

    def _define(self, emulator: str) -> None:
        words = self._lab_arguments
        value = {word: words[words.index(f"-{word}") + 1] for word in ("m", "smp", "kernel", "initrd", "append")}
        (cid,) = re.findall(r"guest-cid=(\d+)", " ".join(words))
        (share,) = re.findall(r"path=(/var/lib/vrdma-lab/share/\w+)", " ".join(words))
        pvrdma = "vmxnet3" in " ".join(words)
        xml = DOMAIN.format(name=self.guest.name, emulator=emulator, memory=value["m"], cpus=value["smp"],
                            kernel=value["kernel"], initrd=value["initrd"], append=value["append"], cid=cid,
                            share=share, mac=self.guest.mac, nic=NIC_OF_PVRDMA if pvrdma else NIC, uuid=self._uuid,
                            place=PLACE.format(function="function='1'") if pvrdma else "", alias=ALIAS,
                            more=MOVABLE if emulator == NEWER_EMULATOR else "")  # fmt: skip
        self.host.script(f"cat >/run/domain.xml <<'END'{xml}END\nvirsh define --validate /run/domain.xml")
        self._emulator = emulator

    def await_boot(self, other_than: str = "") -> None:
        """Waits until the guest answers, in a boot other than the given one."""
        try:
            self.guest.await_boot(other_than)
        except Failure as failure:
            raise Failure(f"{failure}:\n{self.console()}") from failure

    def console(self) -> str:
        return self.host.run(f"tail -n 30 /run/vrdma-lab/{self.guest.name}/console", check=False).stdout

    def migration(self, there: Libvirt, options: str = "") -> str:
        """virsh's command that moves it to another host while it runs."""
        return (f"migrate --live --persistent --undefinesource {options} {self.guest.name} "
                f"qemu+tcp://{there.host.name}/system")  # fmt: skip

    def migrate(self, there: Libvirt, options: str = "") -> None:
        """Moves it, to a device that gets the same attributes there. The one that it leaves is removed."""
        left = self.device
        there.host.run(f"mkdir -p /run/vrdma-lab/{self.guest.name}")
        left.make_again(there.host)
        self.virsh(self.migration(there, options), timeout=MOVE_TIMEOUT_S)
        left.remove()
        self.host = there.host
        self.guest.has_moved_to(there.host.name)

    def destroy(self) -> None:
        """Ends the domain and forgets it; returns when its device is as before."""
        self.virsh(f"destroy {self.guest.name}")
        self.virsh(f"undefine {self.guest.name}")
        Mdev(self.host, self._uuid).await_unpinned()
        self._emulator = ""

    def give_back(self) -> None:
        """Boots the guest as one of the lab again."""
        if self._emulator and self.host.run(f"systemctl is-active {self.guest.name}", check=False).status != 0:
            self.destroy()
            self.guest.boot()
