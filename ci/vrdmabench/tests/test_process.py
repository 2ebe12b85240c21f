# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Servers and clients."""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from vrdmabench import process
from vrdmabench.errors import BenchError

SERVER = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); s.accept()[0].recv(1)"
CLIENT = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))); print('done')"


def converse(server: str, client: str) -> str:
    port = process.free_port()
    serve, ask = ([sys.executable, "-c", program, str(port)] for program in (server, client))
    return process.converse(serve, ask, port, 30, dict(os.environ))


def test_a_client_starts_when_its_server_listens() -> None:
    assert converse(SERVER, CLIENT) == "done\n"


def test_a_server_that_ends_is_told() -> None:
    with pytest.raises(BenchError, match="(?s)does not listen.*no device"):
        converse("import sys; sys.exit('no device')", CLIENT)


def test_a_client_that_fails_is_told_with_its_server() -> None:
    with pytest.raises(BenchError, match="(?s)exit status 1.*broken.*its server"):
        converse(SERVER, "import sys; sys.exit('broken')")


def react(program: str, action: Callable[[], None] = lambda: None) -> str:
    return process.run_with(process.Reaction("busy", action), [sys.executable, "-uc", program], 30)


def test_reacts_to_a_line() -> None:
    """Runs a program that waits for a file; expects the reaction to its line to make the file."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "done")
        program = f"print('busy')\nfrom pathlib import Path\nwhile not Path('{file}').exists(): pass\nprint('ends')"
        assert react(program, file.touch) == "busy\nends\n"


def test_a_program_that_says_nothing_is_told() -> None:
    with pytest.raises(BenchError, match="(?s)exit status 0.*something else"):
        react("print('something else')")


def test_a_program_that_fails_later_is_told() -> None:
    with pytest.raises(BenchError, match="(?s)exit status 3.*busy"):
        react("import sys; print('busy'); sys.exit(3)")
