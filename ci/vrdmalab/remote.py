# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Talks to the agents in the VMs. agent/agent.c describes the protocol.

A host's agent is reached through a port of its own on the loopback interface. A guest's agent is reached through its
host's, which connects to it by vsock. There is no key exchange and no login: a command costs one connection.
"""

import fcntl
import functools
import io
import os
import signal
import socket
import struct
import termios
import threading
import tty
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from .errors import LabError

AGENT_PORT = 7
HEADER = struct.Struct(">cI")
CHUNK = 1 << 16
# The agent sends a sign of life every 2 s. An overloaded machine may delay it a lot; a dead VM sends none.
SILENCE_S = 60.0


class Unreachable(Exception):
    """The agent did not answer, or its connection broke."""


class Refused(LabError):
    """The agent cannot do what was asked."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Address:
    """The way to the agent of a VM; cid is None for a host."""

    port: int
    token: str
    cid: int | None = None

    def connect(self, *request: str, timeout: float = SILENCE_S, boot_s: int = 0) -> socket.socket:
        """Sends the request through all agents on the way. Returns when the last one has accepted it.

        With boot_s, a host tries for that many seconds to reach a guest that is booting.
        """
        requests = [request]
        if self.cid is not None:
            requests.insert(0, ("vsock", str(self.cid), str(AGENT_PORT), str(boot_s)))
        try:
            sock = socket.create_connection(("127.0.0.1", self.port), timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.sendall(b"".join(frame(b"R", strings(self.token, *part)) for part in requests))
            for part in requests:
                kind, answer = _receive(sock)
                if kind == b"F" and part is not request:
                    raise Unreachable(answer[1:].decode(errors="replace"))
                if kind == b"F":
                    raise Refused(answer[1:].decode(errors="replace"), answer[0])
            sock.settimeout(SILENCE_S)
            return sock
        except OSError as error:
            raise Unreachable(str(error)) from error

    def connect_unix(self, path: str, timeout: float = SILENCE_S) -> socket.socket:
        """A connection to a socket in the VM."""
        return self.connect("unix", path, timeout=timeout)


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, len(payload)) + payload


def strings(*texts: str) -> bytes:
    return b"".join(os.fsencode(text) + b"\0" for text in texts)


def _receive(sock: socket.socket) -> tuple[bytes, bytes]:
    """The next frame, and no byte more, because the rest may belong to another reader."""
    kind, length = HEADER.unpack(_take(sock, HEADER.size))
    return kind, _take(sock, length)


def _take(sock: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = sock.recv(min(length - len(data), CHUNK))
        if not part:
            raise Unreachable("the connection broke off")
        data += part
    return bytes(data)


@dataclass(frozen=True)
class Result:
    """The result of a command; the names are those of subprocess.CompletedProcess."""

    returncode: int
    stdout: bytes
    stderr: bytes


class Session:
    """One remote command. Several threads send frames, and one receives."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sending = threading.Lock()

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        with self._sending:
            self._sock.sendall(frame(kind, payload))

    def close(self) -> None:
        """Ends the command, unless it has ended. Another thread may be receiving."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def feed(self, read: Callable[[], bytes]) -> None:
        """Sends the results of `read` until one is empty. If the command ends earlier, that is no error here."""
        try:
            while data := read():
                self.send(b"I", data)
            self.send(b"I")
        except OSError:
            pass

    def receive(self, output: Callable[[bytes, bytes], object]) -> int:
        """Calls output(kind, data) for all data until the command has ended. Returns its status as a shell does."""
        while True:
            try:
                kind, payload = _receive(self._sock)
            except TimeoutError as error:
                raise Unreachable(f"silent for {SILENCE_S:.0f} s") from error
            except OSError as error:
                raise Unreachable(str(error)) from error
            if kind == b"X":
                return payload[0]
            if kind in b"OE":
                output(kind, payload)


def attach(address: Address, argv: list[str]) -> int:
    """Runs a command with this process's own stdin, stdout and stderr."""
    with address.connect("exec", *argv) as sock:
        session = Session(sock)
        # A daemon thread, because it may block in a read from a terminal when the command ends.
        threading.Thread(target=session.feed, args=(lambda: os.read(0, CHUNK),), daemon=True).start()
        return session.receive(into(1, 2))


def into(stdout: int, stderr: int) -> Callable[[bytes, bytes], None]:
    """What writes a command's output to these file descriptors."""

    def write(kind: bytes, data: bytes) -> None:
        fd = stdout if kind == b"O" else stderr
        while data:
            data = data[os.write(fd, data):]

    return write


def shell(address: Address, argv: list[str]) -> int:
    """Runs a command on a terminal of its own in the VM, with this process's terminal in raw mode."""
    cols, rows = os.get_terminal_size()
    with address.connect("tty", str(rows), str(cols), os.environ.get("TERM", "linux"), *argv) as sock:
        session = Session(sock)

        def resize(*_: object) -> None:
            packed = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
            session.send(b"W", struct.pack(">HH", *struct.unpack("HHHH", packed)[:2]))

        # Python runs the handler on the main thread, which only receives. So only other threads can hold the lock.
        signal.signal(signal.SIGWINCH, resize)
        before = termios.tcgetattr(0)
        tty.setraw(0, termios.TCSADRAIN)
        try:
            threading.Thread(target=session.feed, args=(lambda: os.read(0, CHUNK),), daemon=True).start()
            return session.receive(into(1, 2))
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)


def stream(address: Address, argv: list[str], stdin: IO[bytes] | None, stdout: IO[bytes], stderr: bytearray) -> int:
    """Runs a command on files of the caller."""
    with address.connect("exec", *argv) as sock:
        session = Session(sock)
        read = functools.partial(stdin.read, CHUNK) if stdin else bytes
        threading.Thread(target=session.feed, args=(read,), daemon=True).start()
        return session.receive(lambda kind, data: stdout.write(data) if kind == b"O" else stderr.extend(data))


def run(address: Address, argv: list[str], timeout: float = SILENCE_S, boot_s: int = 0) -> Result:
    """Runs a command to its end and returns its output; for the lab's own use."""
    stdout, stderr = io.BytesIO(), bytearray()
    expired = threading.Event()
    with address.connect("exec", *argv, timeout=timeout, boot_s=boot_s) as sock:
        session = Session(sock)

        def expire() -> None:
            expired.set()
            session.close()

        # A receive timeout would never expire, because of the agent's signs of life.
        watchdog = threading.Timer(timeout, expire)
        watchdog.start()
        try:
            session.send(b"I")
            status = session.receive(lambda kind, data: stdout.write(data) if kind == b"O" else stderr.extend(data))
        except (OSError, Unreachable) as error:
            raise Unreachable(f"no end after {timeout:.0f} s" if expired.is_set() else str(error)) from error
        finally:
            watchdog.cancel()
    return Result(status, stdout.getvalue(), bytes(stderr))
