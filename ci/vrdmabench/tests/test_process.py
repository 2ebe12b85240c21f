# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Servers and clients."""

import os
import sys

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
