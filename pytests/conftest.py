# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Fixtures and options: a lab for the whole run, and the watch over it for each test.

--where native     instead of the lab: two devices behind sockets of a vrdmad on this machine, for the tests of verbs;
                   tests that need virtual machines are marked `lab`, and tests that need such devices `native`
--where hosts      the same with a vrdmad for each device, and a network between them; tests that need this are marked
                   `hosts`, and tests that need one vrdmad for both devices `together`
--where fabric     the network is a connection of libfabric; tests of RoCE's own packets are marked `roce`, and tests
                   of the connections `fabric`
--where lab-hosts  a lab with a guest on each of two hosts, for tests that are marked `lab_hosts` and for those tests of
                   verbs that are named; running all of them there as well takes too long
--where lab-three-hosts
                   the same with a third host, for tests that are marked `three_hosts` as well
--where sockets    guests on this machine, whose devices are behind sockets of a vrdmad beside them; tests that need
                   them are marked `sockets`, and tests that use a host of the lab do not run there
--where pvrdma     the same, and these devices are VMware's, with Linux's driver vmw_pvrdma in the guests
--where lab-pvrdma a lab whose guests' mediated devices are VMware's
--lab-options      more options of `ci/lab up`, as in --lab-options="--guest-kernel build/kernels/kasan"
--between          the pairs of the lab's guests between which each test runs, by number, instead of guest0 and guest1
--few-cases        of a test that runs natively as well, only the first case of its parameters
--share            one of several parallel runs (framework/share.py)
--torture-seconds  duration of test_torture.py
--torture-moves    how often test_torture_lab.py moves, saves or restarts what vrdma-torture runs on
--update-pyverbs   writes the outcomes of pyverbs' own tests to pyverbs.txt
VRDMA_LAB_DIR      a lab that is up already; the tests use it and leave it up
VRDMA_TEST_DEVICE  the device in the guests, vrdma0 by default. With rxe0 the tests of verbs run
                   over SoftRoCE. A test that fails there as well has a wrong expectation.
"""

import os
import shlex
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from framework import emulator, programs
from framework.endpoint import Endpoint, connect
from framework.fabric import FabricHosts
from framework.health import Health, HostsHealth
from framework.host_process import HostProcess
from framework.hosts import Hosts
from framework.lab import PROJECT, Guest, Lab, Machine
from framework.mdev import Mdev, MdevType
from framework.native import Native, NativeHealth
from framework.process import Failure, Record, Result
from framework.rxe import add_rxe
from framework.share import Share
from framework.sockets import PVRDMA_DEVICE, PvrdmaSockets, Sockets, SocketsHealth, pvrdma_options
from framework.verbs import Remote, Session

pytest_plugins = ["framework.control", "framework.containers", "framework.moving", "framework.nfs", "framework.nvme"]
DEVICE = os.environ.get("VRDMA_TEST_DEVICE", "vrdma0")
HOSTS = {"lab-hosts": "2", "lab-three-hosts": "3"}
ONE_CPU = ("--host-cpus", "1")
# The marks of tests that do not run there.
NOT_THERE = {
    "lab": ["native", "hosts", "lab_hosts", "fabric", "sockets", "three_hosts"],
    "native": ["lab", "hosts", "lab_hosts", "fabric", "sockets", "three_hosts"],
    "hosts": ["lab", "together", "lab_hosts", "fabric", "sockets", "three_hosts"],
    "fabric": ["lab", "together", "lab_hosts", "roce", "sockets", "three_hosts"],
    "lab-hosts": ["lab", "native", "hosts", "together", "fabric", "sockets", "three_hosts"],
    "lab-three-hosts": ["lab", "native", "hosts", "together", "fabric", "sockets"],
    "sockets": ["native", "hosts", "lab_hosts", "fabric", "three_hosts"],
    "pvrdma": ["native", "hosts", "lab_hosts", "fabric", "sockets", "three_hosts"],
    "lab-pvrdma": ["native", "hosts", "lab_hosts", "fabric", "sockets", "three_hosts"],
}
SOCKETS = {"sockets": Sockets, "pvrdma": PvrdmaSockets}
NATIVE = {"native": Native, "hosts": Hosts, "fabric": FabricHosts}
MEASURED = pytest.StashKey[list[str]]()
# The host's own address, which guests find on their network, and an address that it gets for its processes.
HOST_ADDRESSES = ("10.77.0.1", "10.77.0.101")
SECOND_ADDRESSES = ("10.77.0.101/32", "fd77::65/128")
MAKE_MDEV = """
if [ ! -e {mdev.path} ]; then
    echo {mdev.uuid} >{type.path}/create
    echo 52:54:00:77:02:0{number} >{mdev.path}/mac
fi
"""


def _pairs(text: str) -> list[tuple[int, int]]:
    """The numbers of guests, as in 0-1,1-2."""
    return [(int(left), int(right)) for left, right in (pair.split("-") for pair in text.split(","))]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--where", choices=tuple(NOT_THERE), default="lab", help="where the devices are")
    parser.addoption("--lab-options", type=shlex.split, default=[], metavar="OPTIONS",
                     help="more options of `ci/lab up`")
    parser.addoption("--between", type=_pairs, default=[(0, 1)], metavar="I-J,…",
                     help="the pairs of guests between which each test runs (default: 0-1)")
    parser.addoption("--few-cases", action="store_true",
                     help="only the first case of tests that run natively as well")
    parser.addoption("--share", type=Share, metavar="DIRECTORY/K",
                     help="the K-th of several runs beside each other, in a lab whose host has one processor; each "
                          "takes the next "
                     "file of tests when it is done with one; the directory, empty at first, says which are taken")
    parser.addoption("--torture-seconds", type=int, default=10, help="how long vrdma-torture goes on")
    parser.addoption("--torture-moves", type=int, default=10, help="how often VMs under vrdma-torture move or rest")
    parser.addoption("--update-pyverbs", action="store_true", help="write pyverbs.txt instead of comparing with it")


def pytest_configure(config: pytest.Config) -> None:
    measurements: list[str] = []
    config.stash[MEASURED] = measurements
    config.addinivalue_line("markers", "lab: needs virtual machines")
    config.addinivalue_line("markers", "native: needs devices behind sockets")
    config.addinivalue_line("markers", "together: needs both devices on one host")
    config.addinivalue_line("markers", "hosts: needs them on two")
    config.addinivalue_line("markers", "every_case: each of its cases is a test of its own")
    config.addinivalue_line("markers", "roce: needs packets on the network between two hosts")
    config.addinivalue_line("markers", "fabric: needs libfabric between them")
    config.addinivalue_line("markers", "lab_hosts: needs virtual machines on two hosts")
    config.addinivalue_line("markers", "three_hosts: needs a third host")
    config.addinivalue_line("markers", "sockets: needs virtual machines with devices behind sockets")


def _beyond_few(items: list[pytest.Function]) -> list[pytest.Function]:
    """The cases of tests that run natively as well, except the first one of each test."""
    cases: dict[str, list[pytest.Function]] = {}
    for item in items:
        if not any(item.get_closest_marker(marker) for marker in (*NOT_THERE["native"], "every_case")):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [item for of_one in cases.values() for item in of_one[1:]]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    where = config.getoption("where")
    deselected = [item for item in items if any(item.get_closest_marker(marker) for marker in NOT_THERE[where])
                  or where in SOCKETS and "host" in item.fixturenames]
    if config.getoption("few_cases"):
        deselected += _beyond_few([item for item in items if item not in deselected])
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for item in items if item not in deselected]


@pytest.fixture(scope="session")
def measured(pytestconfig: pytest.Config) -> list[str]:
    """Lines with measurements, for the summary."""
    return pytestconfig.stash[MEASURED]


@pytest.fixture(scope="session")
def record() -> Record:
    return Record()


@pytest.fixture(scope="session")
def native(pytestconfig: pytest.Config) -> bool:
    return pytestconfig.getoption("where") in NATIVE


@pytest.fixture(scope="session")
def two_hosts(pytestconfig: pytest.Config) -> bool:
    """Whether the lab has two hosts, each with one of the guests."""
    return pytestconfig.getoption("where") in HOSTS


@pytest.fixture(scope="session")
def lab(record: Record, native: bool, two_hosts: bool, pytestconfig: pytest.Config) -> Iterator[Lab | Native]:
    options = pytestconfig.getoption("lab_options")
    where = pytestconfig.getoption("where")
    if native or where in SOCKETS:
        here = SOCKETS[where](record, options) if where in SOCKETS else NATIVE[where](record)
        try:
            here.up()
            yield here
        finally:
            here.down()
        return
    if directory := os.environ.get("VRDMA_LAB_DIR"):
        yield Lab(Path(directory).absolute(), record, ours=False)
        return
    share = pytestconfig.getoption("share")
    shape: tuple[str, ...] = ONE_CPU if share else ()
    if two_hosts:
        shape = ("--hosts", HOSTS[where], "--guests", "1", "--movable")
    elif where == "lab-pvrdma":
        shape = (*pvrdma_options(),)
    own = PROJECT / f"build/lab/pytests-{share.number if share else 1}"
    ours = Lab(own, record, ours=True, shape=(*shape, *options))
    ours.down()  # left by a run that was interrupted
    try:
        ours.up()
        yield ours
    finally:
        ours.down()


@pytest.fixture(scope="session")
def host(lab: Lab) -> Machine:
    return Machine(lab, "host0")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """If there are several pairs of guests, all tests run between one pair before the next."""
    pairs = metafunc.config.getoption("between")
    if len(pairs) > 1 and "numbers" in metafunc.fixturenames:
        metafunc.parametrize("numbers", pairs, indirect=True, scope="session",
                             ids=[f"guest{left}-guest{right}" for left, right in pairs])


@pytest.fixture(scope="session")
def numbers(request: pytest.FixtureRequest) -> tuple[int, int]:
    """The numbers of the two guests among those of the lab."""
    (first, *_) = request.config.getoption("between")
    return getattr(request, "param", first)


@pytest.fixture(scope="session")
def guest0(lab: Lab | Native, numbers: tuple[int, int]) -> Guest:
    return lab.guest(numbers[0])


@pytest.fixture(scope="session")
def guest1(lab: Lab | Native, numbers: tuple[int, int]) -> Guest:
    return lab.guest(numbers[1])


@pytest.fixture(scope="session")
def device(guest0: Guest, guest1: Guest, pytestconfig: pytest.Config) -> str:
    """The name of the device under test, the same in both guests."""
    if "pvrdma" in pytestconfig.getoption("where") or "--pvrdma" in pytestconfig.getoption("lab_options"):
        return PVRDMA_DEVICE
    if DEVICE == "rxe0":
        for guest in (guest0, guest1):
            add_rxe(guest)
    return DEVICE


@pytest.fixture(scope="session")
def health(lab: Lab | Native, two_hosts: bool, guest0: Guest,
           guest1: Guest) -> Iterator[Health | HostsHealth | NativeHealth]:
    with_mediator = DEVICE == "vrdma0"
    watch: Health | HostsHealth | NativeHealth
    if isinstance(lab, Sockets):
        watch = SocketsHealth(lab, [guest0, guest1])
    elif isinstance(lab, Native):
        watch = NativeHealth(lab)
    elif two_hosts:
        watch = HostsHealth({f"host{number}": Health(Machine(lab, f"host{number}"), [guest], with_mediator)
                             for number, guest in enumerate((guest0, guest1))})
    else:
        watch = Health(Machine(lab, "host0"), [guest0, guest1], with_mediator)
    yield watch
    watch.close()


@pytest.fixture(autouse=True)
def watch(request: pytest.FixtureRequest, lab: Lab, record: Record, health: Health) -> Iterator[None]:
    """Fails a test during which a kernel reports an error, vrdmad ends or a command is left running."""
    record.begin()
    emulator.begin(lab, health)
    yield
    left = record.kill_leftovers()
    health.collect()
    emulator.check(request.node, lab, health)
    if complaints := health.complaints():
        raise Failure("\n".join(complaints))
    assert not [process.title for process in left]


def pytest_runtest_protocol(item: pytest.Function, nextitem: pytest.Item | None) -> bool:
    share = item.config.getoption("share")
    if not share:
        emulator.run(item, nextitem)
    elif share.has(item.path.name):
        emulator.run(item, share.next_of(item))
    return True


class Ended(Protocol):
    """The end of a hook, as pluggy gives it to a wrapper."""

    excinfo: object  # about the exception, or None


class Reported(Protocol):
    """The end of the hook that makes reports."""

    def get_result(self) -> pytest.TestReport: ...


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Function, nextitem: pytest.Item | None) -> Generator[None, Ended, None]:
    outcome = yield
    if outcome.excinfo:
        emulator.check_again(item, nextitem)


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    sections = {"measured": config.stash[MEASURED], "repeated, as the emulator had lost a VM": emulator.repeated}
    for title, lines in sections.items():
        if lines:
            terminalreporter.section(title)
            terminalreporter.write_line("\n".join(lines))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, Reported, None]:
    """Adds to the report of a failure all commands of the test and the logs of the machines."""
    report = (yield).get_result()
    if report.failed:
        item.stash[emulator.FAILED] = True
    funcargs = getattr(item, "funcargs", {})
    if not report.failed or "watch" not in item.fixturenames or "health" not in funcargs:
        return
    health, record = funcargs["health"], funcargs["record"]
    if report.when == "call":
        health.collect()
    report.sections += [("verbs", record.notes()), ("commands", record.commands())]
    report.sections += [(source, "".join(lines)) for source, lines in health.new.items() if lines]


Pair = Callable[..., tuple[Result, Result]]


@pytest.fixture
def pair(device: str, guest0: Guest, guest1: Guest) -> Pair:
    """Runs a program's server in guest0 and its client in guest1, or in other guests if told so."""

    def run(command: str, server: Guest = guest0, client: Guest = guest1, gid_type: str = "RoCE v2",
            **options) -> tuple[Result, Result]:
        return programs.run(programs.Program(command, device, gid_type), server, client, **options)

    return run


@pytest.fixture
def works(device: str, guest0: Guest, guest1: Guest) -> Callable[[], None]:
    """Waits until both guests have their device, and asserts that they talk to each other."""

    def check() -> None:
        for guest in (guest0, guest1):
            guest.await_device(device)
        for result in programs.run(programs.Program("ibv_rc_pingpong -c -n 20", device), guest0, guest1):
            assert "20 iters in" in result.stdout

    return check


@pytest.fixture(scope="session")
def sessions() -> Iterator[dict[tuple[str, int], Session]]:
    """By guest and number, the processes that make verbs calls there. They start once, because that takes a second."""
    started: dict[tuple[str, int], Session] = {}
    yield started
    for session in started.values():
        session.kill()


@pytest.fixture
def session(sessions: dict[tuple[str, int], Session]) -> Callable[..., Session]:
    """Gives a process in a guest. It starts a new one if the last one has ended or has an answer outstanding."""

    def get(guest: Guest, process: int = 0) -> Session:
        key = guest.name, process
        if key not in sessions or not sessions[key].usable:
            if key in sessions:
                sessions[key].kill()
            sessions[key] = Session(guest)
        return sessions[key]

    return get


@pytest.fixture
def open_device(device: str, session: Callable[..., Session]) -> Iterator[Callable[..., Remote]]:
    """Opens the device in a guest's process. After the test it is closed, with all objects on it."""
    opened: list[Remote] = []

    def open_in(guest: Guest, process: int = 0) -> Remote:
        opened.append(session(guest, process).open(device))
        return opened[-1]

    yield open_in
    for remote in opened:
        if remote.session.usable:
            remote.close()


@pytest.fixture
def endpoint(device: str, open_device: Callable[..., Remote]) -> Callable[..., Endpoint]:
    """Makes a queue pair in a guest, with all that it needs, in state RESET."""

    def make(guest: Guest, kind: str = "RC", process: int = 0, **options) -> Endpoint:
        return Endpoint(open_device(guest, process), guest.gid(device), kind, **options)

    return make


@pytest.fixture
def connected(endpoint: Callable[..., Endpoint], guest0: Guest, guest1: Guest) -> Callable[..., tuple]:
    """Makes a queue pair in each guest, and takes both to RTS, connected to each other."""

    def make(kind: str = "RC", options: dict | None = None, **attributes) -> tuple[Endpoint, Endpoint]:
        left, right = (endpoint(guest, kind, **(options or {})) for guest in (guest0, guest1))
        connect(left, right, **attributes)
        return left, right

    return make


@pytest.fixture(scope="module")
def mdevs(host: Machine) -> Iterator[list[Mdev]]:
    """Two devices for processes of the host, which are removed in the end."""
    both = [Mdev(host, str(uuid.uuid4())) for _ in HOST_ADDRESSES]
    yield both
    for mdev in both:
        if mdev.exists:
            mdev.remove()
    for address in SECOND_ADDRESSES:
        host.run(f"ip address del {address} dev br0", check=False)


@pytest.fixture
def processes(host: Machine, mdevs: list[Mdev]) -> list[HostProcess]:
    """The two devices with processes of the host. Missing devices are made, as after a boot of the host."""
    for number, mdev in enumerate(mdevs):
        host.script(MAKE_MDEV.format(mdev=mdev, type=MdevType(host, "medium"), number=number))
    for address in SECOND_ADDRESSES:
        host.run(f"ip address replace {address} dev br0")
    return [HostProcess(host, mdev, address) for mdev, address in zip(mdevs, HOST_ADDRESSES, strict=True)]
