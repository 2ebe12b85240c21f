# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Bringing a lab up and down, and the operations on its VMs."""

import fcntl
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from . import guest as guests
from . import host as hosts
from . import images, kernels, kvm, migration, newer_qemu, releases, remote, saving, share, topology
from . import socket_guest as socket_guests
from .common import boot_id, script
from .diagnosis import watching
from .errors import LabError, VmError
from .process import Process
from .progress import say
from .paths import PROJECT
from .state import CACHE, State, current, lab_directory, load, stage_directory
from .topology import Guest, Host, Shape, SocketGuest

T = TypeVar("T")
ANSWER_S = 10.0
BOOT_TRIES = 5


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Allows only one `up`, `down` or `push` of a lab at a time."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"another ci/lab is at work on {directory}") from None
        yield


def in_parallel(work: Callable[[T], None], items: Iterable[T]) -> None:
    """Runs work on all items at once; raises the first failure without waiting for the others."""
    pool = ThreadPoolExecutor(max_workers=topology.MAX_GUESTS)
    try:
        for done in as_completed([pool.submit(work, item) for item in items]):
            done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


# --- up and down ---


def build_image(packages: tuple[str, ...], for_releases: tuple[str, ...] = ()) -> images.Image:
    """Builds the image unless it exists, and the disks of the releases. Installs the packages that the build needs
    first."""
    subprocess.run([PROJECT / "ci/packages"], check=True)
    image = images.ensure(CACHE, packages)
    for userland in {releases.RELEASES[release].userland for release in for_releases} - {releases.OWN}:
        images.ensure_disk(CACHE, userland, packages)
    return image


def up(shape: Shape) -> tuple[State, bool]:
    """Boots a lab of this shape. The second result tells whether it was already up."""
    directory = lab_directory()
    with locked(directory):
        state = load(directory)
        if state:
            _check_reusable(state, shape)
            return state, True
        socket_guests.check(shape)
        if shape.sockets:
            newer_qemu.ensure()
        image = build_image(shape.packages)
        for _ in range(BOOT_TRIES - 1):
            try:
                return _boot_new(directory, shape, image), False
            except VmError as error:
                say(f"{error}\nbooting all anew: the emulator loses a VM now and then")
        return _boot_new(directory, shape, image), False


def _boot_new(directory: Path, shape: Shape, image: images.Image) -> State:
    """Boots a lab. If that fails, only the consoles are left."""
    state = State(directory, shape, secrets.token_hex(16), str(image.directory))
    try:
        _boot(state, image)
    except BaseException:
        _stop(state)
        raise
    return state


def _check_reusable(state: State, shape: Shape) -> None:
    if not state.ready:
        raise LabError("an earlier `ci/lab up` was cut off; clear it away with: ci/lab down")
    dead = [host for host, process in state.processes.items() if not process.alive()]
    if dead:
        raise LabError(f"{dead[0].name} of this lab has died; clear it away with: ci/lab down")
    if state.shape != shape:
        raise LabError("the lab is up in another shape; take it down first with: ci/lab down")


def _system(state: State, image: images.Image, kind: str, release: str, kernel: str | None) -> share.System:
    """What VMs of this kind and release boot and get. An initrd exists as long as the lab."""
    stage = stage_directory() / kind
    if release != releases.OWN:
        stage = state.directory / "stage" / f"{kind}-{release}"
        releases.unpack(release, kind, stage)
    initrd = state.directory / f"{kind}-{release}.initrd"
    return share.System(kernels.choose(kernel or releases.kernel_directory(release), image, initrd), stage)


def _guest_systems(state: State, image: images.Image) -> dict[str, share.System]:
    shape = state.shape
    guests = {release: _system(state, image, "guest", release, shape.guest_kernel)
              for release in dict.fromkeys(shape.guest_releases)}
    if not shape.pvrdma:
        return guests
    stock = share.System(guests[shape.guest_releases[0]].kernel, None, Path(shape.pvrdma))
    vms = [*topology.guests(shape), *(vm for vm in topology.hosts(shape) if isinstance(vm, SocketGuest))]
    wanted = {shape.system(guest) for guest in vms}
    return {name: system for name, system in {**guests, topology.PVRDMA: stock}.items() if name in wanted}


# That of hosts, and those of guests by their release (Shape.system()).
Systems = tuple[share.System, dict[str, share.System]]


def _systems(state: State, image: images.Image) -> Systems:
    """Unpacks packages, and makes initrds."""
    shape = state.shape
    host = _system(state, image, "host", shape.host_release, shape.host_kernel)
    return host, _guest_systems(state, image)


def _fill_share(state: State, image: images.Image) -> Systems:
    shape = state.shape
    systems = host, by_release = _systems(state, image)
    share.assemble(state.share, host, by_release, share.build_agent(CACHE), share.build_preload(CACHE),
                   topology.hosts_file(shape), state.token, topology.mediator_config(shape),
                   kernel_on_disk=shape.host_release == releases.OWN)
    state.with_vrdma = share.has_vrdma(state.share, host, by_release)
    return systems


def _disks(shape: Shape, image: images.Image) -> list[Path]:
    return [image.disk if userland == releases.OWN else images.ensure_disk(CACHE, userland, shape.packages)
            for userland in shape.userlands]


def _boot(state: State, image: images.Image) -> None:
    systems = _fill_share(state, image)
    if not state.with_vrdma:
        say(f"no vrdma in {stage_directory()}: the lab comes without it")
    _start(state, image, systems, state.hosts)
    in_parallel(lambda host: _bring_up_host(state, host), state.hosts)
    state.ready = True
    state.save()


def _start(state: State, image: images.Image, systems: Systems, vms: list[Host]) -> None:
    """Starts VMs that are processes of this machine: all hosts, or some guests behind sockets."""
    accelerator = kvm.accelerator(CACHE, image)
    host, by_release = systems
    qemu = newer_qemu.for_hosts(system.kernel.release for system in (host, *by_release.values()))
    disks = _disks(state.shape, image)
    cables = hosts.cables(state.shape)
    for vm in vms:
        if isinstance(vm, SocketGuest):
            kernel = by_release[state.shape.system(vm)].kernel
            process = socket_guests.start(state.directory, vm, state.shape, kernel, disks[-1], accelerator,
                                          state.with_vrdma)
        else:
            process = hosts.start(state.directory, vm, state.shape, host.kernel, disks, qemu, accelerator, cables[vm])
        state.processes[vm] = Process.of(process.pid)
        state.save()
    for end in (end for ends in cables.values() for end in ends):
        end.close()
    say(f"booting {', '.join(vm.name for vm in vms)} ({accelerator}, {state.shape.memory_of(vms[0])} MiB each)")
    for vm in vms:
        state.ports[vm] = hosts.wait_for_port(state.directory, vm, state.processes[vm])
    state.save()


def _bring_up_host(state: State, host: Host) -> None:
    if isinstance(host, SocketGuest):
        _await_guest(state, host)
        return
    _await_host(state, host)
    mine = _guests_on(state, host)
    with watching(state, host):
        for guest in mine:
            guests.start(guest, state.address(host), state.shape, state.with_vrdma)
    in_parallel(lambda guest: _await_guest(state, guest), mine)


def _guests_on(state: State, host: Host) -> list[Guest]:
    return [guest for guest in state.guests if guest.host == host]


def _await_host(state: State, host: Host, other_than: str = "") -> None:
    """Waits until a host is up, in a boot other than the given one. Prepares it for guests."""
    address = state.address(host)
    hosts.wait_for_boot(state.directory, host, state.processes[host], address, other_than)
    say(f"{host.name} is up")
    with watching(state, host):
        taps = [f"tap-{guest.name}" for guest in _guests_on(state, host)]
        hosts.prepare(host, address, taps, topology.uplink(state.shape))
        if state.with_vrdma:
            hosts.start_mediator(host, address, state.shape.type)
            say(f"{host.name} runs vrdmad")


def _await_guest(state: State, guest: Guest | SocketGuest, other_than: str = "") -> None:
    with watching(state, guest):
        if isinstance(guest, SocketGuest):
            hosts.wait_for_boot(state.directory, guest, state.processes[guest], state.address(guest), other_than)
        else:
            guests.wait_for_boot(guest, state.address(guest.host), state.address(guest), other_than)
        if state.with_vrdma:
            guests.wait_for_device(guest, state.address(guest), state.shape)
    say(f"{guest.name} is up")


def down() -> bool:
    """Kills all VMs and removes all files; false if there were none."""
    directory = lab_directory()
    if not directory.exists():
        return False
    with locked(directory):
        state = load(directory)
        if state:
            _stop(state)
        for path in [*directory.glob("*.console"), *directory.glob("*.processors")]:
            path.unlink()
        (directory / "lock").unlink()
    if not any(directory.iterdir()):
        directory.rmdir()
    return state is not None


def _stop(state: State) -> None:
    """Keeps the consoles, to show why `up` has failed."""
    for process in state.processes.values():
        process.kill()
    for name in ("share", "share.new", "stage"):
        shutil.rmtree(state.directory / name, ignore_errors=True)
    for path in (path for kind in ("*.qmp", "*.cable", "*.initrd", "state.*") for path in state.directory.glob(kind)):
        path.unlink()


# --- operations on what is up ---


def push() -> None:
    """Copies the stage into all running VMs. Running programs and loaded modules stay as they are."""
    with locked(lab_directory()):
        state = current()
        _fill_share(state, _image(state))
        # Hosts first, because a guest's files come from its host.
        groups: list[Sequence[Host | Guest]] = [state.hosts, state.guests]
        for machines in groups:
            in_parallel(lambda machine: _refresh(state, machine), machines)


def _image(state: State) -> images.Image:
    return images.Image(Path(state.image), images.kernel_version())


def _refresh(state: State, machine: Host | Guest) -> None:
    if isinstance(machine, Guest) and not guests.running(machine, state.address(machine.host)):
        return
    with watching(state, machine):
        script(machine.name, state.address(machine), "/usr/lib/vrdma-lab/refresh", "take the new files")
        if isinstance(machine, Host) and not isinstance(machine, SocketGuest):
            script(machine.name, state.address(machine), "systemctl daemon-reload", "reload systemd")


def the_guest(state: State, name: str) -> Guest | SocketGuest:
    vm = state.find(name)
    if not isinstance(vm, (Guest, SocketGuest)):
        raise LabError(f"{name} is a host; this works on guests")
    return vm


def movable_guest(state: State, name: str) -> Guest:
    guest = the_guest(state, name)
    if isinstance(guest, SocketGuest):
        raise LabError(f"{name} has a device behind a socket, which QEMU does not migrate")
    return guest


def reboot(name: str) -> None:
    """Reboots the system of a VM, and waits until it is back. A host's guests end with it."""
    state = current()
    vm = state.find(name)
    if isinstance(vm, (Guest, SocketGuest)):
        _await_guest(state, vm, _begin_reboot(state, vm, ["reboot"]))
    else:
        with watching(state, vm):
            hosts.allow_reboot(state.directory, vm)
        _await_host(state, vm, _begin_reboot(state, vm, ["systemctl", "reboot", "--force"]))


def _begin_reboot(state: State, vm: Host | Guest, command: list[str]) -> str:
    """Returns the identity of the boot that ends."""
    address = state.address(vm)
    with watching(state, vm):
        before = boot_id(address)
        try:
            remote.run(address, command, timeout=30)
        except remote.Unreachable:
            pass  # this error is expected
    return before


def kill(name: str) -> None:
    state = current()
    guest = the_guest(state, name)
    if isinstance(guest, SocketGuest):
        state.processes[guest].kill()
        return
    with watching(state, guest.host):
        guests.kill(guest, state.address(guest.host))


def start(name: str) -> None:
    state = current()
    guest = the_guest(state, name)
    if isinstance(guest, SocketGuest):
        if state.processes[guest].alive():
            raise LabError(f"{name} is running")
        image = _image(state)
        _start(state, image, _systems(state, image), [guest])
    else:
        with watching(state, guest.host):
            guests.start(guest, state.address(guest.host), state.shape, state.with_vrdma)
    _await_guest(state, guest)


def _host(state: State, name: str) -> Host:
    host = state.find(name)
    if not isinstance(host, Host):
        raise LabError(f"{name} is no host")
    return host


def migrate(name: str, host_name: str, bandwidth: int | None) -> dict:
    """Moves a running guest to another host, with this number of MiB per second, or QEMU's. Returns QEMU's report."""
    state = current()
    guest = movable_guest(state, name)
    moved = Guest(guest.index, _host(state, host_name))
    result = migration.move(state, guest, moved, bandwidth)
    note_move(name, host_name)
    with watching(state, moved):
        guests.wait_for_boot(moved, state.address(moved.host), state.address(moved))
    return result


def note_move(name: str, host_name: str) -> None:
    """From now on, commands find the guest on this host."""
    with locked(lab_directory()):
        state = current()
        state.moved[movable_guest(state, name).index] = _host(state, host_name).index
        state.save()


def save(name: str) -> None:
    """Saves a guest to a file of its host, where only restore() continues it."""
    state = current()
    saving.save(state, movable_guest(state, name))


def restore(name: str) -> str:
    """Continues a saved guest; returns QEMU's status, which is "paused" if the guest was stopped when it was saved."""
    state = current()
    guest = movable_guest(state, name)
    status = saving.restore(state, guest)
    if status == "running":
        with watching(state, guest):
            guests.wait_for_boot(guest, state.address(guest.host), state.address(guest))
    return status


def monitor(name: str, command: str, timeout: float) -> str:
    """The answer of QEMU's monitor."""
    state = current()
    vm = state.find(name)
    if isinstance(vm, Host):
        try:
            with hosts.monitor(state.directory, vm, timeout) as qmp:
                return qmp.ask(command)
        except OSError as error:
            raise LabError(f"the QEMU of {name} does not answer: {error}") from error
    with watching(state, vm.host), guests.monitor(vm, state.address(vm.host), timeout) as qmp:
        return qmp.ask(command)


def logs(name: str) -> str:
    """A VM's console. That of a process of this machine stays readable after its death, and after an `up` that failed.
    """
    state = load(lab_directory())
    host_log = lab_directory() / f"{name}.console"
    if host_log.exists():
        return host_log.read_text(errors="replace")
    if not state:
        raise LabError(f"there is no console of {name}")
    guest = state.find(name)
    if isinstance(guest, Host):
        raise LabError(f"{name} has not been started")
    with watching(state, guest.host):
        return guests.console(guest, state.address(guest.host))


def describe(state: State, vm: Host | Guest) -> dict:
    """The description of a VM for tests and scripts."""
    entry = {"name": vm.name, "ipv4": vm.ipv4, "ipv6": vm.ipv6, "mac": vm.mac}
    if isinstance(vm, Guest):
        entry["host"] = vm.host.name
        entry["directory"] = guests.directory(vm)
        if state.with_vrdma:
            entry["uuid"] = vm.uuid
    return entry


def status(state: State) -> list[dict]:
    """All VMs, each with "up", "dead", or "silent" if it runs but does not answer."""
    vms = [*state.hosts, *state.guests]
    with ThreadPoolExecutor(max_workers=len(vms)) as pool:
        return list(pool.map(lambda vm: describe(state, vm) | _condition(state, vm), vms))


def _condition(state: State, vm: Host | Guest) -> dict:
    host = vm.host if isinstance(vm, Guest) else vm
    process = state.processes.get(host)
    if not process or not process.alive():
        return {"state": "dead"}
    memory = {"memory": process.memory(), "pid": process.pid} if isinstance(vm, Host) else {}
    try:
        if isinstance(vm, Guest) and not guests.running(vm, state.address(host)):
            return {"state": "dead"}
        remote.run(state.address(vm), ["true"], timeout=ANSWER_S)
        return {"state": "up", **memory}
    except remote.Unreachable:
        return {"state": "silent", **memory}
