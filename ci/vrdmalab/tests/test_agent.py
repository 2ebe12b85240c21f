# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The agent and its client, together on this machine."""

import io
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from vrdmalab import remote, share
from vrdmalab.remote import Address, Refused, Session, Unreachable

TOKEN = "secret"
AWAIT_S = 20.0


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """An agent that runs on this machine instead of a VM."""
    directory = tmp_path_factory.mktemp("agent")
    (directory / "token").write_text(TOKEN)
    binary = directory / "agent"
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-g",
                    f'-DTOKEN_FILE="{directory}/token"', "-o", binary, share.AGENT], check=True)
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    agent = subprocess.Popen([binary, "tcp", "127.0.0.1", str(port)])
    await_true(lambda: answers(Address(port, TOKEN)))
    yield Address(port, TOKEN)
    agent.kill()
    agent.wait()


def await_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + AWAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def answers(address: Address) -> bool:
    try:
        return remote.run(address, ["true"]).returncode == 0
    except Unreachable:
        return False


def test_output_and_status_come_through(address: Address) -> None:
    done = remote.run(address, ["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_a_signal_is_told_as_a_shell_does(address: Address) -> None:
    assert remote.run(address, ["sh", "-c", "kill -9 $$"]).returncode == 128 + 9


def test_arguments_are_passed_as_they_are(address: Address) -> None:
    words = ["", "two words", "$HOME", "ä\n"]
    assert remote.run(address, ["printf", "%s|", *words]).stdout == "".join(f"{word}|" for word in words).encode()


def test_a_program_that_is_not_there_is_refused_with_127(address: Address) -> None:
    with pytest.raises(Refused, match="nonesuch") as refused:
        remote.run(address, ["nonesuch"])
    assert refused.value.status == 127


def test_a_program_that_cannot_run_is_refused_with_126(address: Address) -> None:
    with pytest.raises(Refused) as refused:
        remote.run(address, ["/etc/passwd"])
    assert refused.value.status == 126


def test_a_wrong_token_is_refused(address: Address) -> None:
    with pytest.raises(Refused, match="another lab"):
        remote.run(Address(address.port, "guess"), ["true"])


def test_more_than_all_buffers_hold_goes_there_and_back(address: Address) -> None:
    content = bytes(range(256)) * 20000
    output = io.BytesIO()
    assert remote.stream(address, ["cat"], io.BytesIO(content), output, bytearray()) == 0
    assert output.getvalue() == content


def test_input_that_the_command_does_not_take_is_dropped(address: Address) -> None:
    output = io.BytesIO()
    assert remote.stream(address, ["echo", "done"], io.BytesIO(bytes(1 << 20)), output, bytearray()) == 0
    assert output.getvalue() == b"done\n"


def test_a_daemon_left_behind_is_not_waited_for(address: Address) -> None:
    started = time.monotonic()
    assert remote.run(address, ["sh", "-c", "sleep 60 & echo $!"]).returncode == 0
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("prefix", ["", "trap '' TERM; "])
def test_a_client_that_goes_takes_its_command_along(address: Address, prefix: str) -> None:
    sock = address.connect("exec", "sh", "-c", prefix + "echo $$; while :; do sleep 0.1; done")
    pid = []

    def note(_kind: bytes, data: bytes) -> None:
        pid.append(int(data))
        sock.shutdown(socket.SHUT_RDWR)

    with pytest.raises(Unreachable):
        Session(sock).receive(note)
    sock.close()
    await_true(lambda: not Path(f"/proc/{pid[0]}").exists())


def test_an_overdue_command_is_ended(address: Address) -> None:
    with pytest.raises(Unreachable, match="no end after 1 s"):
        remote.run(address, ["sleep", "60"], timeout=1)


def test_a_terminal_is_one_and_has_its_size(address: Address) -> None:
    output = io.BytesIO()
    with address.connect("tty", "33", "99", "vt100", "sh", "-c", "tty; stty size; echo $TERM") as sock:
        assert Session(sock).receive(lambda _kind, data: output.write(data)) == 0
    assert re.fullmatch(rb"/dev/pts/\d+\r\n33 99\r\nvt100\r\n", output.getvalue())


def test_a_unix_socket_is_reached(address: Address, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()

        def shout() -> None:
            with listener.accept()[0] as peer:
                while data := peer.recv(4096):
                    peer.sendall(data.upper())

        thread = threading.Thread(target=shout)
        thread.start()
        with address.connect_unix(str(tmp_path / "socket")) as sock:
            sock.sendall(b"hello")
            sock.shutdown(socket.SHUT_WR)
            assert b"".join(iter(lambda: sock.recv(4096), b"")) == b"HELLO"
        thread.join()


@pytest.mark.parametrize("request_", [
    b"",
    b"R",
    remote.frame(b"X"),
    remote.HEADER.pack(b"R", 1 << 31),
    remote.frame(b"R", b"no end of string"),
    remote.frame(b"R", remote.strings(TOKEN)),
    remote.frame(b"R", remote.strings(TOKEN, "exec")),
    remote.frame(b"R", remote.strings(TOKEN, "tty", "1", "2", "vt100")),
    remote.frame(b"R", remote.strings(TOKEN, "nonsense", "x")),
    remote.frame(b"R", b"\0" * 100000),
])  # fmt: skip
def test_a_malformed_request_harms_nobody(address: Address, request_: bytes) -> None:
    with socket.create_connection(("127.0.0.1", address.port)) as sock:
        sock.sendall(request_)
        sock.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: sock.recv(4096), b""))
    assert answer[:1] in (b"", b"F")
    assert answers(address)


@pytest.mark.parametrize("frame", [remote.frame(b"Z"), remote.frame(b"W", b"123"), remote.frame(b"R", b"x" * 9)])
def test_a_frame_that_must_not_be_ends_the_command(address: Address, frame: bytes) -> None:
    with address.connect("exec", "sleep", "60") as sock:
        sock.sendall(frame)
        with pytest.raises(Unreachable):
            Session(sock).receive(lambda _kind, _data: None)
