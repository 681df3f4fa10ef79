"""What somebody who only reaches the port may take of the service."""

import contextlib
import http.client
import re
import socket
import time
from pathlib import Path

import httpx
import pytest

from knowledge_bot_service import LocalService
from waiting import on_linux

MIB = 1024 * 1024
CONNECTIONS = 20
REQUEST = b"GET /public/v1/bots HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"POST /public/v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
FLOODS = {
    "header lines": (REQUEST, b"".join(b"X-%05d: %s\r\n" % (n, b"a" * 60) for n in range(1000))),
    "one header's value": (REQUEST + b"X: ", b"a" * 65536),
    "the address": (b"GET /", b"a" * 65536),
    "the extension of a chunk": (CHUNKED + b"1;", b"a" * 65536),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    limits = {"connections": CONNECTIONS}
    with LocalService(
        tmp_path_factory.mktemp("connections"), settings={"limits": limits}
    ) as running:
        yield running


@pytest.fixture
def address(service):
    url = httpx.URL(service.base_url)
    return url.host, url.port


def resident(pid):
    """The memory that a process has, in bytes."""
    (line,) = re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(line) * 1024


@on_linux
@pytest.mark.parametrize("what", FLOODS)
def test_a_flood_without_a_key_takes_no_memory(service, address, what):
    start, block = FLOODS[what]
    before = resident(service.pid)
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(start)
        with contextlib.suppress(ConnectionError):
            for _ in range(40 * MIB // len(block)):
                connection.sendall(block)
            assert connection.recv(65536)[9:12] in {b"400", b"401", b""}
    assert resident(service.pid) - before < 5 * MIB
    assert httpx.get(f"{service.base_url}/ping", timeout=5).text == '"pong"'


@pytest.mark.slow  # it waits for as long as most clients keep an idle connection
def test_a_connection_outlives_the_idle_ones_of_clients(service, address):
    with contextlib.closing(http.client.HTTPConnection(*address, timeout=30)) as connection:
        connection.connect()
        first = connection.sock
        for idle in (6, 0):
            connection.request("GET", "/public/v1/ping")
            assert connection.getresponse().read() == b'"pong"'
            time.sleep(idle)
        assert connection.sock is first


def test_headers_may_be_large(service):
    headers = {"X": "a" * 60_000}
    assert httpx.get(f"{service.base_url}/ping", headers=headers).status_code == 200


def test_more_clients_than_are_allowed_are_refused_until_there_is_room(service, address):
    with contextlib.ExitStack() as held:
        for _ in range(CONNECTIONS):
            held.enter_context(socket.create_connection(address, timeout=5))
        assert httpx.get(f"{service.base_url}/ping", timeout=5).status_code == 503
    assert httpx.get(f"{service.base_url}/ping", timeout=5).status_code == 200
