# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""vrdmad as its systemd unit starts it: as a user of its own, without capabilities, and with all its functions. The
other tests of the lab show that it serves mediated devices in this way."""

from collections.abc import Callable, Iterator

import pytest

from framework.lab import TIMEOUT_S

pytestmark = pytest.mark.lab

CONFIGURATION = "/etc/vrdma/vrdmad.conf"
DROP_IN = "/run/systemd/system/vrdmad.service.d/test.conf"
SOCKET = "/run/vrdma/shared.sock"
SERVE = f"""
mkdir -p $(dirname {DROP_IN})
printf '[Service]\\nSupplementaryGroups=kvm\\n' >{DROP_IN}
cat >>{CONFIGURATION} <<'END'
[[vfio_user]]
name = "shared"
group = "kvm"
mode = "0660"
END
systemctl daemon-reload
"""
AS_NOBODY = "setpriv --reuid=nobody --regid={group} --clear-groups --inh-caps=-all"


@pytest.fixture
def restart(guest0, guest1, device, health) -> Callable[[], None]:
    """Restarts vrdmad, and waits until the guests have their devices again."""

    def do() -> None:
        health.restart_mediator()
        for guest in (guest0, guest1):
            guest.await_device(device)

    return do


def test_process(host, health):
    """Reads the status of each thread; expects only the user and group vrdma, filters, and no capability, also none
    that it could get."""
    user, group = (host.run(f"id -{kind} vrdma").stdout.strip() for kind in "ug")
    assert "0" not in (user, group)
    processes = (health.mediator_pid, health.engine_pid)
    statuses = host.script(f"cat {' '.join(f'/proc/{process}/task/*/status' for process in processes)}").stdout
    threads = statuses.split("Name:\t")[1:]
    assert len(threads) > 2
    for text in threads:
        status = {key: value.split() for key, _, value in (line.partition(":") for line in text.splitlines()[1:])}
        assert set(status["Uid"]) == {user}
        assert set(status["Gid"]) == {group}
        assert set(status["Groups"]) <= {group}
        for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(status[kind][0], 16) == 0, kind
        assert (status["NoNewPrivs"], status["Seccomp"]) == (["1"], ["2"])


def test_times_of_faults(host, restart, health):
    """Configures the kernel so that all users may ask for their own faults; expects vrdmad to do so."""
    before = host.run("sysctl -n kernel.perf_event_paranoid").stdout.strip()
    host.run("sysctl kernel.perf_event_paranoid=2")
    try:
        restart()
    finally:
        host.run(f"sysctl kernel.perf_event_paranoid={before}")
    said = host.script(f"journalctl --sync; journalctl -o cat _PID={health.mediator_pid}").stdout
    assert "serves" in said and "are not held back" not in said


def test_reload(host, health):
    """Has systemd reload the unit; expects vrdmad to read its configuration again."""
    host.script(f"""
        systemctl reload vrdmad
        until journalctl --sync && journalctl -o cat _PID={health.mediator_pid} | grep -q 'read again'; do
            sleep 0.1
        done
    """, TIMEOUT_S)


def test_poller_is_real_time(host, health):
    """Without CAP_SYS_NICE; expects a poller under SCHED_FIFO, after a second in which it was not always awake."""
    poller = host.script(f"grep -lx vrdma-poll-0 /proc/{health.engine_pid}/task/*/comm").stdout.split("/")[4]
    host.script(f"until chrt -p {poller} | grep -q SCHED_FIFO; do sleep 0.05; done", TIMEOUT_S)


def test_device(host):
    """Expects the module's device to belong to root and the group, without access for others."""
    assert host.run("stat -c '%U %G %a' /dev/vrdma_mdev").stdout.split() == ["root", "vrdma", "660"]


def test_files(host, health):
    """Reads vrdmad's mounts; expects its runtime directory to be the host's only directory that it can write to. A
    mount hides earlier ones in its place. From version 254 on, systemd gives a service the file of its own memory
    pressure."""
    mounts = [line.split() for line in host.read(f"/proc/{health.mediator_pid}/mounts").splitlines()]
    options = {mount[1]: mount[3].split(",") for mount in mounts}
    writable = {where for where in options if "rw" in options[where]}
    assert "/run/vrdma" in writable
    private = ("/dev", "/proc", "/tmp", "/var/tmp", "/sys/fs/cgroup/system.slice/vrdmad.service/memory.pressure")
    assert not {where for where in writable if where != "/run/vrdma" and not where.startswith(private)}


def test_exposure(host):
    """Has systemd assess the unit as it is loaded; expects at most 2.0 of 10."""
    host.run("systemd-analyze security --no-pager --threshold=20 vrdmad.service")


@pytest.fixture
def shared_socket(host, restart) -> Iterator[str]:
    """A socket that belongs to another group, of which vrdmad is a member."""
    before = host.read(CONFIGURATION)
    try:
        host.script(SERVE)
        restart()
        yield SOCKET
    finally:
        host.script(f"cat >{CONFIGURATION} <<'END'\n{before}END\nrm -f {DROP_IN}\nsystemctl daemon-reload")
        restart()


def test_socket_of_a_group(host, shared_socket):
    """Runs ibv_devinfo on the socket as a user with its group, and as one without; expects success for the first, and
    failure for the second."""
    assert host.run(f"stat -c '%U %G %a' {shared_socket}").stdout.split() == ["vrdma", "kvm", "660"]
    command = f"vrdma-run --device {shared_socket} --address 10.0.0.9 -- ibv_devinfo"
    assert "vrdma0" in host.run(f"{AS_NOBODY.format(group='kvm')} {command}").stdout
    assert "vrdma0" not in host.run(f"{AS_NOBODY.format(group='nogroup')} {command}", check=False).stdout
