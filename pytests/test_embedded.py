# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""vrdma-run without --device: a vrdmad for one program and its children, as any user, in environments where programs
are tested."""

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from framework.connections import pings
from framework.lab import TIMEOUT_S
from framework.native import BUILD, Native
from framework.process import Process, Record, Result
from framework.programs import LISTENING, bandwidths, latencies, next_port

# These tests use neither of the devices that the other tests share.
pytestmark = [pytest.mark.native, pytest.mark.together]

RUN = BUILD / "providers/vrdma/vrdma-run"
LIBIBVERBS = Path("/usr/lib/x86_64-linux-gnu/libibverbs.so.1")
PINGS = 5
PYVERBS = """
from pyverbs.device import Context, get_device_list
from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE
from pyverbs.mr import MR
from pyverbs.pd import PD
for device in get_device_list():
    context = Context(name=device.name.decode())
    region = MR(PD(context), 4096, IBV_ACCESS_LOCAL_WRITE)
    region.write("hello", 5)
    print(device.name.decode(), region.read(5, 0).decode(), context.query_gid(port_num=1, index=3))
"""
NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--no-new-privs")
# The command that follows is the first process of the container.
CONTAINER = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--mount-proc")
# Limits shared and locked memory. The container ends only after the files are gone.
LITTLE = ("sh", "-c", """
mount -t tmpfs -o size=64m none /dev/shm && ulimit -l 64 && "$@"
while ls -d $XDG_RUNTIME_DIR/vrdma-run-*; do sleep 0.05; done
""", "sh")
# Refuses the named system calls with EPERM, as Docker does.
REFUSE_CALLS = """
import ctypes, errno, os, sys
ALLOW, ERRNO = 0x7fff0000, 0x00050000
seccomp = ctypes.CDLL("libseccomp.so.2")
seccomp.seccomp_init.restype = ctypes.c_void_p
filters = ctypes.c_void_p(seccomp.seccomp_init(ALLOW))
for name in sys.argv[1].split(","):
    number = seccomp.seccomp_syscall_resolve_name(name.encode())
    assert seccomp.seccomp_rule_add(filters, ERRNO | errno.EPERM, number, 0) == 0
assert seccomp.seccomp_load(filters) == 0
os.execvp(sys.argv[2], sys.argv[2:])
"""


def without(*calls: str) -> tuple[str, ...]:
    return "/usr/bin/python3", "-c", REFUSE_CALLS, ",".join(calls)


# What Docker refuses to a container without privileges.
WITHOUT_CALLS = without("bpf", "io_uring_setup", "kcmp", "keyctl", "mount", "perf_event_open", "process_vm_readv",
                        "ptrace", "setns", "unshare", "userfaultfd")


def with_tmpfs(directory: str, options: str) -> tuple[str, ...]:
    """A mount namespace that has a new tmpfs there."""
    return ("unshare", "--mount", "sh", "-c",
            f'mount -t tmpfs -o mode=777,{options} none "{directory}" && exec "$@"', "sh")


class Runner:
    """Runs shell scripts by vrdma-run."""

    def __init__(self, record: Record, place: Path) -> None:
        self._record = record
        self.place = place  # for all files that it leaves

    def start(self, *words: str, prefix: tuple[str, ...] = (), program: Path = RUN) -> Process:
        """`prefix` is a command that runs vrdma-run."""
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(self.place), "RUN": str(RUN)}
        return self._record.add(Process(" ".join(words), [*prefix, str(program), *words], environment))

    def run(self, *words: str, prefix: tuple[str, ...] = (), **how) -> Result:
        """A command that hangs is killed with all processes that it has started, because they have its output open."""
        prefix = ("timeout", "--signal=KILL", f"{TIMEOUT_S - 10:.0f}", *prefix)
        return self.start(*words, prefix=prefix, **how).wait(TIMEOUT_S, check=False)

    def script(self, text: str, *options: str, **how) -> Result:
        return self.run(*options, "--", "sh", "-c", text, **how)

    def directories(self) -> list[Path]:
        return [*self.place.glob("vrdma-run-*")]

    def left(self) -> list[str]:
        """Directories, and processes whose environment has this runner's place."""
        return [str(left) for left in (*self.directories(), *self._processes())]

    def _processes(self) -> Iterator[int]:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"XDG_RUNTIME_DIR={self.place}".encode() in (path / "environ").read_bytes().split(b"\0"):
                    yield int(path.name)
            except OSError:  # the process has ended
                pass

    def expect_nothing_left(self) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left


@pytest.fixture
def runner(lab: Native, record: Record) -> Iterator[Runner]:
    """Expects after each test that nothing is left of the programs that it has run."""
    if lab.sanitizers.used:
        pytest.skip("a sanitizer leaves no room for windows of 64 clients, and its files are root's")
    with tempfile.TemporaryDirectory(prefix="vrdma-embedded-") as place:
        Path(place).chmod(0o777)
        runner = Runner(record, Path(place))
        yield runner
        runner.expect_nothing_left()


def pair(command: str, server: str = "-p", client: str = "-p") -> str:
    """A script that runs both sides, with these options for the port. It prints the client's output."""
    port = next_port()
    return (f"{command} {server} {port} >&2 & until {LISTENING.format(port=port)}; do sleep 0.02; done; "
            f"{command} {client} {port} 127.0.0.1; wait")


def rping(command: str = "rping", address: str = "127.0.0.1", client_options: str = "") -> str:
    """The same for rping, whose server prints a line when it listens. Before that the other process of its device would
    refuse the client."""
    common = f"-a {address} -p {next_port()} -C {PINGS} -V"
    return (f"log=$XDG_RUNTIME_DIR/log; stdbuf -oL {command} -s -d {common} >$log 2>&1 & "
            f"until grep -qs rdma_listen $log; do sleep 0.02; done; {command} -c -v {common} {client_options}; wait")


def test_latency(runner):
    """Runs perftest between two processes; expects a plausible result."""
    (line,) = latencies(runner.script(pair("ib_write_lat -F -n 200")))
    assert line.iterations == 200


def test_latency_by_rdma_cm(runner):
    """The same with a connection by rdma_cm. Nothing shows when perftest listens: the client is repeated until it is
    not refused. perftest connects twice. If the second connection is refused, because the server does not listen again
    yet, the client crashes and its server waits for ever, so both begin anew."""
    command = f"ib_write_lat -R -F -n 200 -p {next_port()}"
    client = f"client() {{ until {command} localhost; do [ $? -lt 128 ] || return 1; sleep 0.1; done; }}"
    (line,) = latencies(runner.script(f"{client}; until {command} >&2 & client; do kill -9 $!; wait; done; wait"))
    assert line.iterations == 200


def test_bandwidth(runner):
    """Runs perftest with SENDs; expects all to be carried out."""
    done = runner.script(pair("ib_send_bw -F -s 1024 -n 500"))
    (line,) = bandwidths(done)
    assert line.iterations == 500


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_rping(runner, address):
    """Connects to each address of loopback; expects every round to succeed."""
    assert pings(runner.script(rping(address=address))) == PINGS


@pytest.mark.parametrize("options", ["-p verbs -e msg", "-p 'verbs;ofi_rxm' -e rdm"])
def test_libfabric(runner, options):
    """Ping-pongs over libfabric's verbs provider, by connections and by its messages over them; expects the client to
    report all rounds."""
    done = runner.script(pair(f"fi_pingpong {options} -I 20 -S 1024", server="-B", client="-P"))
    assert re.search(r"^1k\s+20\s", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("transport", ["rc_v", "ud_v"])
def test_ucx(runner, transport):
    """Runs UCX over RC and over UD; expects all messages to be counted."""
    done = runner.script(f"export UCX_TLS={transport}; " + pair("ucx_perftest -t tag_lat -n 100 -w 10"))
    assert re.search(r"^Final:\s+100\s", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("transport", ["rc_v", "ud_v"])
def test_mpi(runner, transport):
    """Passes a message around four processes of Open MPI, which can only use UCX over RC or UD; expects a time as the
    result."""
    done = runner.run("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4", "--mca", "pml", "ucx", "--mca",
                      "btl", "self",
                      "-x", f"UCX_TLS={transport},self", "/usr/bin/python3", "-m", "mpi4py.bench", "ringtest", "-n",
                      "1000", "-l", "10")
    assert re.search(r"time for 10 loops = \S+ seconds \(4 processes", done.stdout)


def test_pyverbs(runner):
    """Opens two devices; expects each to have its address, and a region to be read as it was written."""
    done = runner.run("--devices", "2", "--", "/usr/bin/python3", "-c", PYVERBS)
    assert done.stdout.splitlines() == [f"vrdma{device} hello 0000:0000:0000:0000:0000:ffff:7f00:000{device + 1}"
                                        for device in (0, 1)]


def test_devices_reach_each_other(runner):
    """Connects from one device to another; expects every round to succeed."""
    assert pings(runner.script(rping(address="127.0.0.2", client_options="-I 127.0.0.1"), "--devices", "2")) == PINGS


def test_eight_devices(runner):
    """Expects to find eight devices, in their order."""
    done = runner.run("--devices", "8", "ibv_devices")
    assert re.findall(r"vrdma\d", done.stdout) == [f"vrdma{device}" for device in range(8)]


def test_inside_another(runner):
    """Runs vrdma-run in vrdma-run, on both sides; expects the same devices. Asks for more devices; expects an error
    message."""
    assert pings(runner.script(rping("$RUN --devices 1 rping"))) == PINGS
    done = runner.script("$RUN --devices 2 true")
    assert done.status == 2
    assert "has fewer devices than --devices" in done.stderr


@pytest.mark.parametrize("script, status", [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -signal.SIGKILL),
                                            ("kill $$", -signal.SIGTERM)])
def test_exit_status(runner, script, status):
    """Expects the exit status of the program, which runs in the same process as vrdma-run."""
    assert runner.start("--", "sh", "-c", script).wait(TIMEOUT_S, check=False).status == status


def test_no_program(runner):
    """Runs a program that does not exist; expects an error message, as from a shell."""
    done = runner.run("no-such-program")
    assert done.status == 127
    assert "no-such-program: No such file or directory" in done.stderr


def test_no_permission_to_execute(runner):
    """Runs a file that is no program; expects an error message, as from a shell."""
    done = runner.run("/dev/null")
    assert done.status == 126
    assert "/dev/null: Permission denied" in done.stderr


def test_no_children(runner):
    """Expects that the program has no children, because it may wait for all of them."""
    done = runner.run("/usr/bin/python3", "-c", "import os; os.wait()")
    assert "ChildProcessError" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_signals(runner, number):
    """Ends a program by a signal, while its child may have the device open; expects it to end by that signal, and
    nothing to be left."""
    # The child outlives the program, so it must not have the pipes whose end is awaited.
    # A shell that starts these tests in the background makes them ignore SIGINT.
    running = runner.start("--", "sh", "-c", "ib_write_lat -F -p 18599 >/dev/null 2>&1 & echo $!; wait",
                           prefix=("env", "--default-signal=INT"))
    server = int(running.next_line(TIMEOUT_S))
    running.signal(number)
    assert running.wait(TIMEOUT_S, check=False).status == -number
    with suppress(ProcessLookupError):  # it may have ended because its device failed
        os.kill(server, signal.SIGKILL)


@pytest.mark.parametrize("options", [("--devices", "0"), ("--devices", "9"), ("--devices", "x"), ("--devices", ""),
                                     ("--devices", "1", "--device", "/dev/null"), ("--address", "127.0.0.1"),
                                     ("--nonsense",)],
                         ids=" ".join)
def test_wrong_options(runner, options):
    """Expects a message about the usage."""
    done = runner.run(*options, "true")
    assert done.status == 2
    assert "usage: vrdma-run" in done.stderr


@pytest.fixture
def beside(runner: Runner) -> Iterator[Callable[[str], Path]]:
    """Makes a vrdma-run that has another vrdmad beside it."""
    with tempfile.TemporaryDirectory(prefix="vrdma-run-test-") as place:
        def make(vrdmad: str) -> Path:
            Path(place, "vrdmad").write_text(vrdmad)
            Path(place, "vrdmad").chmod(0o755)
            return Path(shutil.copy(RUN, place))

        yield make


def test_vrdmad_does_not_start(runner, beside):
    """Uses a vrdmad that prints an error and ends; expects the error, and no program to run."""
    done = runner.run("echo", "hello", program=beside("#!/bin/sh\necho it is too late >&2; exit 1\n"))
    assert done.status == 127
    assert "it is too late" in done.stderr
    assert "vrdmad has ended before it was ready" in done.stderr
    assert "hello" not in done.stdout


def test_no_vrdmad(runner, beside):
    """Uses a vrdmad that is no program; expects an error message."""
    done = runner.run("true", program=beside("nothing"))
    assert done.status == 127
    assert re.search(r"vrdmad: Exec format error", done.stderr)


@pytest.mark.parametrize("options, named", [("nr_inodes=1", ""), ("nr_inodes=3", "/vrdma-run-.*/notices"),
                                            ("size=4k", "/vrdma-.*"), ("nr_inodes=8", "/vrdma-.*")])
def test_full_directory(runner, options, named):
    """Leaves no room in XDG_RUNTIME_DIR for the directories, or for all of their files; expects a message that names
    what could not be made."""
    done = runner.run("ibv_devinfo", prefix=with_tmpfs("$XDG_RUNTIME_DIR", options))
    assert done.status != 0
    assert re.search(rf"^vrdma(-run)?: {runner.place}{named}: No space left on device$", done.stderr, re.MULTILINE)


def test_no_shared_memory(runner):
    """Leaves no room in /dev/shm; expects every round to succeed."""
    assert pings(runner.script(rping(), prefix=with_tmpfs("/dev/shm", "size=4k,nr_inodes=1"))) == PINGS


def test_no_memfd(runner):
    """Refuses memfd_create; expects the message to name it."""
    done = runner.run("ibv_devinfo", prefix=without("memfd_create"))
    assert done.status == 127
    assert done.stderr == "vrdma-run: memfd_create: Operation not permitted\n"


def test_unknown_libibverbs(runner):
    """Uses a libibverbs of a later version; expects the reason why there are no devices."""
    with tempfile.TemporaryDirectory(prefix="vrdma-libibverbs-") as place:
        name = "libibverbs.so.1.14.99.0"
        shutil.copy(LIBIBVERBS.resolve(), Path(place, name))
        Path(place, LIBIBVERBS.name).symlink_to(name)
        done = runner.run("env", f"LD_LIBRARY_PATH={place}", "ibv_devinfo")
    assert done.status != 0
    assert f"libvrdma: refusing to load into {place}/{name}: built for rdma-core " in done.stderr


def is_for_all(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in path.parents)


@pytest.mark.parametrize("prefix", [NOBODY, (*CONTAINER, *LITTLE), (*NOBODY, *WITHOUT_CALLS)],
                         ids=["nobody", "container", "without_calls"])
def test_unprivileged(runner, prefix):
    """Connects as a user without any privileges: in a container whose network is down and which has little memory of
    some kinds, or with refused system calls; expects every round to succeed."""
    if not is_for_all(RUN):
        pytest.skip("the build is root's")
    assert pings(runner.script(rping(), prefix=prefix)) == PINGS


def test_first_process_of_a_container(runner):
    """Connects in a container that ends with the program; expects every round to succeed. Files stay, because no
    process is left to remove them."""
    assert pings(runner.script(rping(), prefix=CONTAINER)) == PINGS
    for directory in runner.directories():
        shutil.rmtree(directory)
