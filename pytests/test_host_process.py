# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Mediated devices that processes of the host have by VFIO. They connect to each other and to a guest."""

import uuid

import pytest

from framework.endpoint import connect
from framework.host_process import HostProcess
from framework.mdev import Mdev, MdevType
from framework.programs import bandwidths, latencies
from framework.verbs import VerbsError

pytestmark = pytest.mark.lab

MIB = 1 << 20
NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all prlimit --memlock={0}:{0}"


@pytest.fixture
def one(processes) -> HostProcess:
    return processes[0]


@pytest.fixture(params=["two processes", "process to guest", "guest to process"])
def sides(request, processes, guest0):
    """The two sides: the server, or responder, and the client."""
    return {"two processes": processes, "process to guest": (guest0, processes[0]),
            "guest to process": (processes[0], guest0)}[request.param]  # fmt: skip


@pytest.fixture
def talking(endpoint, sides):
    """Two connected queue pairs: the responder's and the requester's."""

    def make(**options):
        right, left = (endpoint(side, **options) for side in sides)
        connect(left, right)
        return left, right

    return make


def test_devinfo(one):
    """Runs ibv_devinfo; expects an active port, and the GUID of the MAC that the mdev was given."""
    text = one.run("ibv_devinfo -d vrdma0").stdout
    assert "PORT_ACTIVE" in text
    assert "5054:00ff:fe77:0200" in text


def test_latency(pair, sides):
    """Measures the latency of 8-byte writes; expects all iterations."""
    for result in pair("ib_write_lat -F -s 8 -n 200", *sides):
        (line,) = latencies(result)
        assert line.iterations == 200


def test_bandwidth(pair, sides):
    """Measures the bandwidth of 64 KiB writes; expects all iterations."""
    _, client = pair("ib_write_bw -F -s 65536 -n 500", *sides)
    (line,) = bandwidths(client)
    assert line.iterations == 500


@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"])
def test_pingpong(pair, processes, program):
    """Sends back and forth, and sleeps for events; expects all messages to arrive intact."""
    for result in pair(f"{program} -c -e -n 100", *processes):
        assert "100 iters in" in result.stdout
        assert "invalid data" not in result.stdout


@pytest.mark.parametrize("opcode", ["RDMA_WRITE", "RDMA_READ", "SEND"])
def test_data(talking, opcode):
    """Moves 3 MB that begin and end inside of pages; expects the same checksum on the other side."""
    left, right = talking(buffer=4 * MIB)
    source, sink = (right, left) if opcode == "RDMA_READ" else (left, right)
    checksum = source.mr.fill(1, 100, 3 * MIB)
    right.receive(offset=100)
    left.send(opcode, offset=100, length=3 * MIB, target=right.target(100))
    assert left.sent() == ["SUCCESS"]
    if opcode == "SEND":
        assert right.received() == ["SUCCESS"]
    assert sink.mr.checksum(100, 3 * MIB) == checksum


def test_atomic(talking):
    """Adds 1 a hundred times; expects each to return the sum so far."""
    left, right = talking()
    right.mr.write(0, bytes(8).hex())
    assert left.qp.fetch_add(100, left.send_cq, left.sge(8, 8), right.target()) == [*range(100)]


def test_memory_is_pinned_while_it_is_registered(one, processes, endpoint):
    """Writes 8 MiB; expects the host to pin as much for the process, and nothing after it has closed the device."""
    left, right = endpoint(one, buffer=8 * MIB), endpoint(processes[1], buffer=8 * MIB)
    connect(left, right)
    left.mr.fill(1)
    before = one.mdev.pinned
    left.send("RDMA_WRITE", length=8 * MIB, target=right.target())
    assert left.sent() == ["SUCCESS"]
    assert one.mdev.pinned >= before + 8 * MIB
    left.device.close()
    assert one.mdev.pinned == 0


@pytest.mark.parametrize("touched", [True, False], ids=["pinned", "not pinned yet"])
def test_fork(host, one, processes, endpoint, touched):
    """Forks with registered memory, which the device has already touched or not. Expects the parent and its device to
    continue to see the same pages, whichever process writes to them, and the child to change nothing."""
    parent, peer = endpoint(one), endpoint(processes[1])
    connect(peer, parent)
    parent.mr.fill(1)
    if touched:
        peer.send("RDMA_READ", length=65536, target=parent.target())
        assert peer.sent() == ["SUCCESS"]
    child = parent.device.fork()
    try:
        checksum = parent.mr.fill(2)
        peer.send("RDMA_READ", length=65536, target=parent.target())
        assert peer.sent() == ["SUCCESS"]
        assert peer.mr.checksum() == checksum
        checksum = peer.mr.fill(3)
        peer.send("RDMA_WRITE", length=65536, target=parent.target())
        assert peer.sent() == ["SUCCESS"]
        assert parent.mr.checksum() == checksum
    finally:
        host.run(f"kill -9 {child}")


def test_async_event(processes, endpoint):
    """Writes with a bad key; expects QP_ACCESS_ERR at the responder."""
    left, right = (endpoint(side) for side in processes)
    connect(left, right)
    address, rkey = right.target()
    left.send("RDMA_WRITE", target=[address, rkey ^ 1])
    assert left.sent() == ["REM_ACCESS_ERR"]
    assert "QP_ACCESS_ERR" in right.device.await_event("QP_ACCESS_ERR", 10)


def test_no_wake_up_is_lost(talking):
    """Receives 200 messages sent at random moments by arming, polling once more, then sleeping; expects all of them."""
    left, right = talking(events=True)
    for number in range(8):
        right.receive(wr_id=number)
    receiving = right.qp.begin("receive_by_events", 200, right.recv_cq, right.sge(0, 64))
    left.qp.send_at_random(200, left.send_cq, left.sge(0, 64), seed=4)
    received, _ = receiving()
    assert received == 200


def test_killed_process_frees_its_device(one, guest0, endpoint):
    """Kills a process with outstanding work; expects its peer to be told, nothing to stay pinned, and the device to be
    usable at once."""
    victim, peer = endpoint(one, buffer=8 * MIB), endpoint(guest0)
    connect(victim, peer)
    victim.mr.fill(1)
    victim.send(length=8 * MIB)  # the peer has posted no receive
    one.host.run(f"kill -9 {victim.device.session.pid}")
    victim.device.session.await_end()
    assert "PORT_ACTIVE" in one.run("ibv_devinfo -d vrdma0").stdout
    assert one.mdev.pinned == 0
    peer.send()
    assert peer.sent() == ["RETRY_EXC_ERR"]


def test_one_user_at_a_time(one, open_device):
    """Opens a device that another process has, and again after that process has closed it; expects EBUSY, then success.
    """
    opened = open_device(one)
    assert "): Device or resource busy" in one.tries()
    opened.close()
    one.run("ibv_devinfo -d vrdma0")


def test_no_permission(one):
    """Opens a device as a user without the permission; expects EACCES."""
    assert "): Permission denied" in one.tries(run_as=NOBODY.format(MIB))


@pytest.mark.parametrize("path, error", [
    ("/sys/bus/mdev/devices/no-such-device", "/sys/bus/mdev/devices/no-such-device: No such file or directory"),
    ("/sys/class/net", "vrdma0 (/sys/class/net): No such device"),
    ("/dev/null", "vrdma0 (/dev/null): Connection refused"),
])  # fmt: skip
def test_wrong_path(one, path, error):
    """Gives vrdma-run a path that is not a device; expects an error that says so."""
    assert error in one.tries(path=path)


def test_unprivileged_user(host, processes, pair):
    """Gives a user the file of a device's group; expects the device to work for that user. Registers more memory than
    the user may lock; expects a refusal."""
    server, client = processes
    limited = HostProcess(host, client.mdev, client.name)
    limited.run_as = NOBODY.format(4 * MIB)
    host.run(f"chown 65534 {limited.group}")
    for result in pair("ibv_rc_pingpong -c -n 100", server, limited):
        assert "100 iters in" in result.stdout
    result = limited.run("ibv_rc_pingpong -d vrdma0 -g 3 -s 8388608 10.77.0.1", check=False)
    assert result.status != 0
    assert "Couldn't register MR" in result.stderr


def test_removed_in_use(host, one, open_device):
    """Removes the mdev while a process has it; expects DEVICE_FATAL, errors, and the removal to end with the close."""
    mdev = Mdev(host, str(uuid.uuid4()))
    MdevType(host, "small").create(mdev.uuid)
    opened = open_device(HostProcess(host, mdev, "10.77.0.102"))
    removing = host.start(f"sh -c 'echo 1 >{mdev.path}/remove'")
    assert "DEVICE_FATAL" in opened.await_event("DEVICE_FATAL", 20)
    with pytest.raises(VerbsError):
        opened.pd()
    assert removing.running
    opened.close()
    removing.wait(20)
    assert not mdev.exists


def test_mediator_serves_when_it_has_started(host, one, health):
    """Restarts vrdmad several times, and uses a device as soon as systemctl returns; expects an active port each time.
    """
    for _ in range(3):
        health.restart_mediator()
        assert "PORT_ACTIVE" in one.run("ibv_devinfo -d vrdma0").stdout


@pytest.mark.parametrize("how", ["restart_mediator", "kill_mediator"])
def test_mediator_restarts(processes, endpoint, health, how):
    """Restarts or kills vrdmad under two connected processes; expects their connection and their verbs to go on."""
    left, right = (endpoint(side) for side in processes)
    connect(left, right)
    getattr(health, how)()
    left.send("RDMA_WRITE", target=right.target())
    assert left.sent() == ["SUCCESS"]
    for side in (left, right):
        side.pd.mr(4096, ["LOCAL_WRITE"])


def test_mediator_dies(processes, endpoint, health, pair):
    """Kills both processes of vrdmad under two connected processes; expects DEVICE_FATAL, errors, and devices that can
    be opened again."""
    sides = [endpoint(side) for side in processes]
    connect(*sides)
    health.kill_mediator_and_engine()
    for side in sides:
        assert "DEVICE_FATAL" in side.device.await_event("DEVICE_FATAL", 20)
        with pytest.raises(VerbsError):
            side.pd.mr(4096, ["LOCAL_WRITE"])
        side.device.close()
    health.watch_mediator()
    for result in pair("ibv_rc_pingpong -c -n 100", *processes):
        assert "100 iters in" in result.stdout
