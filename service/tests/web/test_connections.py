"""What somebody who only reaches the port may take of the service."""

import contextlib
import json
import re
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from knowledge_bot_service import LocalService
from serve_command import SERVE
from service_calls import client_of
from waiting import until

MIB = 1024 * 1024

HEAD_SECONDS, BODY_SECONDS = 0.5, 1.0

Address = tuple[str, int]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service that is short of patience."""
    limits = {"head_seconds": HEAD_SECONDS, "body_seconds": BODY_SECONDS}
    with LocalService(
        tmp_path_factory.mktemp("connections"), settings={"limits": limits}
    ) as running:
        yield running


@pytest.fixture
def address(service):
    return address_of(service.base_url)


def address_of(base_url):
    found = httpx.URL(base_url)
    assert found.port is not None
    return found.host, found.port


def resident(pid):
    """The memory that a process has, in bytes."""
    (line,) = re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(line) * 1024


def everything(connection):
    """What comes until the service closes."""
    received = bytearray()
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(65536):
            received += data
    return bytes(received)


def answer(connection):
    """The status and the body of what comes until the service closes; (0, {}) is nothing."""
    received = everything(connection)
    if not received:
        return 0, {}
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def flood(address, start, block, size):
    """Send a beginning, then blocks until the size is reached or the service has enough."""
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(start)
        with contextlib.suppress(ConnectionError):
            for _ in range(size // len(block)):
                connection.sendall(block)
        return answer(connection)


REQUEST = b"GET /public/v1/bots HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"POST /public/v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

FLOODS = {
    "header lines": (REQUEST, b"".join(b"X-%05d: %s\r\n" % (n, b"a" * 60) for n in range(1000))),
    "one header's value": (REQUEST + b"X: ", b"a" * 65536),
    "one header's name": (REQUEST, b"a" * 65536),
    "the address": (b"GET /", b"a" * 65536),
    "empty lines": (b"", b"\r\n" * 32768),
    "trailers": (CHUNKED + b"0\r\n", b"X: aaaaaaaaaaaaaaaaaaaaa\r\n" * 3000),
    "the extension of a chunk": (CHUNKED + b"1;", b"a" * 65536),
}


@pytest.mark.parametrize("what", FLOODS)
def test_a_flood_without_a_key_takes_no_memory(service, address, what):
    start, block = FLOODS[what]
    before = resident(service.pid)
    status, problem = flood(address, start, block, 40 * MIB)
    assert resident(service.pid) - before < 5 * MIB
    # A closed connection, where the answer was lost under what was still on its way.
    assert status in {431, 401, 0}
    assert status != 431 or problem["code"] == "headers_too_large"
    assert httpx.get(f"{service.base_url}/ping", timeout=5).text == '"pong"'


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X": "a" * 60_000}, 200),
        ({"X": "a" * 66_000}, 431),
        ({f"X-{number}": "a" for number in range(150)}, 200),
        ({f"X-{number}": "a" for number in range(250)}, 431),
    ],
)
def test_headers_are_bounded_in_size_and_number(service, headers, status):
    with client_of(service) as http:
        response = http.get("/bots", headers=headers)
    assert response.status_code == status
    if status == 431:
        assert set(response.json()) == {"code", "message"}


@pytest.mark.parametrize("sent", [b"SSH-2.0-OpenSSH", b"CONNECT x:443 HTTP/1.1", b"GET / HTTP/9"])
def test_what_is_not_http_gets_a_problem(address, sent):
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(sent + b"\r\n\r\n")
        status, problem = answer(connection)
    assert status == 400
    assert set(problem) == {"code", "message"}


PING = b"GET /public/v1/ping HTTP/1.1\r\nHost: x\r\n\r\n"
NOWHERE = b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /public/v1/ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def statuses(connection):
    """The statuses of all that comes until the service closes, in their order."""
    return [int(one) for one in re.findall(rb"HTTP/1.1 (\d{3}) ", everything(connection))]


def posted(service, length):
    """The head of a request that sends a text."""
    return (
        f"POST /public/v1/sources/write HTTP/1.1\r\nHost: x\r\nX-API-KEY: {service.api_key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


@pytest.mark.parametrize("what", ["few", "many", "behind a body", "no request after them"])
def test_requests_that_are_sent_at_once_are_answered_in_their_order(service, address, what):
    value = {"name": "Hours", "collections": ["col_default"], "content": "Open. " * 30_000}
    body = json.dumps({"value": value}).encode()
    sent, expected = {
        "few": ((PING + NOWHERE) * 10 + LAST, [200, 404] * 10 + [200]),
        "many": ((PING + NOWHERE) * 150 + LAST, [200, 404] * 150 + [200]),
        "behind a body": (
            PING + posted(service, len(body)) + body + (PING + NOWHERE) * 20 + LAST,
            [200, 200, *[200, 404] * 20, 200],
        ),
        "no request after them": (PING + NOWHERE + b"SSH-2.0-OpenSSH\r\n\r\n", [200, 404, 400]),
    }[what]
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(sent)
        assert statuses(connection) == expected


def test_requests_at_once_behind_a_chunked_body_are_bounded(address):
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(CHUNKED + b"1\r\na\r\n0\r\n\r\n" + PING * 100 + LAST)
        found = statuses(connection)
    # As the reads of the server happen to cut what came, all or some of them are answered.
    assert found[0] == 401
    assert found[-1] in {200, 400}
    assert set(found[1:-1]) == {200}


def test_requests_without_end_take_no_memory(service, address):
    grown = []
    for _ in range(2):  # what a process takes once, in whichever test comes first, is not meant
        before = resident(service.pid)
        with socket.create_connection(address, timeout=0.5) as connection:
            # Nobody reads the answers, so that the service must not read for ever either.
            with contextlib.suppress(OSError):
                for _ in range(40):
                    connection.sendall(PING * (MIB // len(PING)))
            grown.append(resident(service.pid) - before)
    assert min(grown) < 5 * MIB
    assert httpx.get(f"{service.base_url}/ping", timeout=5).text == '"pong"'


@pytest.mark.parametrize(
    ("what", "drops"), [("head", 0), ("head", 10), ("body", 4)], ids=["silent", "head", "body"]
)
def test_a_request_that_does_not_end_or_drips_is_given_up(service, address, what, drops):
    start = time.monotonic()
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(REQUEST if what == "head" else posted(service, 1_000_000))
        for _ in range(drops):
            connection.sendall(b"a")
            time.sleep(0.1)
        status, problem = answer(connection)
    assert (status, problem["code"]) == (408, "request_too_slow")
    assert HEAD_SECONDS <= time.monotonic() - start < HEAD_SECONDS + 15


@pytest.mark.parametrize("before", [b"", b"\r\n", REQUEST + b"\r\n"])
def test_a_connection_that_is_not_used_is_closed(address, before):
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(before)
        everything(connection)


def test_an_upload_over_a_slow_line_arrives(service):
    boundary = b"b" * 20
    value = json.dumps({"name": "Slow", "collections": ["col_default"]}).encode()
    parts = [
        b'--%s\r\nContent-Disposition: form-data; name="value"\r\n\r\n%s\r\n' % (boundary, value),
        b'--%s\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n' % boundary,
        *[b"The line is slow, and the text arrives.\n" * 10] * 12,
        b"\r\n--%s--\r\n" % boundary,
    ]

    def slowly():
        for part in parts:
            time.sleep(0.1)
            yield part

    with client_of(service) as http:
        response = http.post(
            "/sources/upload",
            content=slowly(),
            headers={"Content-Type": f"multipart/form-data; boundary={boundary.decode()}"},
        )
    assert response.status_code == 200, response.text


def test_idle_connections_make_room_for_new_clients(tmp_path):
    """As many files as the shell allows, and more connections than that."""
    log = tmp_path / "printed.txt"
    files = 200
    with (
        log.open("wb") as printed,
        subprocess.Popen(
            ["sh", "-c", f'ulimit -n {files}; exec "$0" "$@"', *SERVE, "--port", "0"],
            cwd=tmp_path,
            stdout=printed,
            stderr=printed,
        ) as process,
        contextlib.ExitStack() as held,
    ):
        try:
            assert until(lambda: "Stop with" in log.read_text())
            base_url = log.read_text().partition("Base URL: ")[2].split()[0]
            for number in range(files + 100):
                connection = socket.create_connection(address_of(base_url), timeout=5)
                held.enter_context(connection)
                with contextlib.suppress(ConnectionError):
                    connection.sendall(b"GET / HTTP/1.1\r\nX: " if number % 2 else b"")
            for _ in range(20):
                assert httpx.get(f"{base_url}/ping", timeout=5).text == '"pong"'
        finally:
            process.terminate()
            assert process.wait(20) == 0
    assert log.read_text().count("clients are connected, as many as are allowed") == 1
