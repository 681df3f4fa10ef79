"""Answers at the edges of HTTP: what becomes of them in both clients and in those of a user.

Each is the answer to a POST that creates a source. The interim ones, the odd and the early ones are
no reason to lose it; what is damaged is unknown, and no library repeats the request.
"""

import asyncio
import gzip
import http.client
import json
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from calls import KEY, SOURCE, create
from fault_runs import CLIENTS, opened_as, result_of
from knowledge_bot import Client, HTTPRequest, HTTPResponse, KnowledgeBotError
from knowledge_bot.testing import no_waiting
from scripted_server import Reply, ScriptedServer, close, drip, raw, reset, then

BODY = json.dumps(SOURCE).encode()
LENGTH = f"Content-Length: {len(BODY)}"


def head(*lines: str, status: str = "HTTP/1.1 200 OK") -> bytes:
    return "\r\n".join([status, *lines, "", ""]).encode("latin-1")


def whole(*lines: str, status: str = "HTTP/1.1 200 OK", body: bytes = BODY) -> Reply:
    return raw(head(*lines, f"Content-Length: {len(body)}", status=status) + body)


def chunked(*lines: str, trailers: bytes = b"", end: bytes = b"0\r\n") -> Reply:
    first, rest = BODY[:9], BODY[9:]
    body = b"9\r\n%b\r\n%x;ext=1\r\n%b\r\n" % (first, len(rest), rest)
    rest = end + trailers + b"\r\n" if end else b""
    return raw(head("Transfer-Encoding: chunked", *lines) + body + rest)


def pause(_connection: Any) -> None:
    time.sleep(0.02)


CONTINUE = head(status="HTTP/1.1 100 Continue")
HINTS = head("Link: </a>", status="HTTP/1.1 103 Early Hints")
SWITCH = head("Upgrade: x", "Connection: upgrade", status="HTTP/1.1 101 Switching Protocols")

# How an answer ends: the error's class, delivery, may_pass, and how many POSTs arrived.
READ = ("Source", "", "", 1)
LOST = ("ConnectionLostError", "unknown", True, 1)
ODD = ("UnexpectedResponseError", "unknown", False, 1)
CUT = ("UnexpectedResponseError", "unknown", True, 1)


def failed(kind: str, delivery: str, may_pass: bool, posts: int) -> tuple[str, str, bool, int]:
    return f"{kind}Error", delivery, may_pass, posts


ANSWERS: dict[str, tuple[Reply, tuple[Any, ...]]] = {
    "plain": (whole(), READ),
    "100": (then(raw(CONTINUE), whole()), READ),
    "100 in the same packet": (raw(CONTINUE + head(LENGTH) + BODY), READ),
    "102, then 103": (
        then(raw(head(status="HTTP/1.1 102 Wait")), pause, raw(HINTS), pause, whole()),
        READ,
    ),
    "thirty times 103": (then(raw(HINTS * 30), whole()), READ),
    "100 and nothing": (then(raw(CONTINUE), close), LOST),
    "101": (then(raw(SWITCH), close), LOST),
    **{f"{n}": (whole(status=f"HTTP/1.1 {n} X"), READ) for n in (201, 202, 203, 205, 206, 299)},
    "204": (raw(head(status="HTTP/1.1 204 X")), ODD),
    "304": (raw(head(status="HTTP/1.1 304 X")), ODD),
    "HTTP/1.0, closed": (then(raw(head(status="HTTP/1.0 200 OK") + BODY), close), READ),
    "HTTP/1.0 with a length": (then(whole(status="HTTP/1.0 200 OK"), close), READ),
    "HTTP/1.2": (then(whole(status="HTTP/1.2 200 OK"), close), READ),
    "HTTP/2": (then(raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), close), LOST),
    "no length, closed": (then(raw(head("Connection: close") + BODY), close), READ),
    "no length, reset": (then(raw(head() + BODY), pause, reset), LOST),
    "Connection: close": (then(whole("Connection: close"), close), READ),
    "closed without saying so": (then(whole(), close), READ),
    "closed a moment later": (then(whole(), pause, close), READ),
    "chunked": (chunked(), READ),
    "chunked, with trailers": (chunked(trailers=b"A: b\r\n"), READ),
    "chunked, cut": (then(raw(head("Transfer-Encoding: chunked") + b"5\r\n{"), close), LOST),
    "chunked, without its end": (then(chunked(end=b""), close), LOST),
    "chunked, with a size that is none": (
        then(raw(head("Transfer-Encoding: chunked") + b"zz\r\n"), close),
        LOST,
    ),
    "a length twice": (whole(LENGTH), READ),
    "two lengths": (whole("Content-Length: 7"), LOST),
    "a length, and chunked": (chunked(LENGTH), READ),
    "a length that is too small": (raw(head("Content-Length: 10") + BODY), CUT),
    "a length that is too large": (then(raw(head("Content-Length: 9999") + BODY), close), LOST),
    "a length below 0": (then(raw(head("Content-Length: -1") + BODY), close), LOST),
    "no body": (raw(head("Content-Length: 0")), ODD),
    "no reason": (whole(status="HTTP/1.1 200"), READ),
    "lines that end in LF": (raw(f"HTTP/1.1 200 OK\n{LENGTH}\n\n".encode() + BODY), READ),
    "a folded header": (whole("A: b", " c"), READ),
    "a header in Latin-1": (whole("A: \xfc"), READ),
    "a header without a name": (then(whole(": b"), close), LOST),
    "a header twice": (whole("Set-Cookie: a=b", "Set-Cookie: c=d"), READ),
    "a header of 60,000": (whole("A: " + "b" * 60_000), READ),
    "two hundred headers": (whole(*(f"A{n}: b" for n in range(200))), READ),
    "slow": (drip(head(LENGTH) + BODY, 0.0005), READ),
    "another one behind it": (raw(head(LENGTH) + BODY + b"HTTP/1.1 500 X\r\n\r\n"), READ),
    "gzip": (whole("Content-Encoding: gzip", body=gzip.compress(BODY)), READ),
    "GZip": (whole("Content-Encoding: GZip", body=gzip.compress(BODY)), READ),
    "deflate": (whole("Content-Encoding: deflate", body=zlib.compress(BODY)), READ),
    "gzip that is none": (whole("Content-Encoding: gzip"), ODD),
    "brotli": (whole("Content-Encoding: br"), ODD),
    "as HTML": (whole("Content-Type: text/html"), READ),
    "byte order mark": (whole(body=b"\xef\xbb\xbf" + BODY), READ),
    "created_at null": (whole(body=json.dumps(SOURCE | {"created_at": None}).encode()), READ),
    "half an emoji": (whole(body=BODY.replace(b"Handbook", rb"\ud83d")), READ),
    "400, cut": (
        then(raw(head("Content-Length: 99", status="HTTP/1.1 400 X") + b"{"), close),
        failed("BadRequest", "refused", False, 1),
    ),
    "400, reset": (
        then(whole(status="HTTP/1.1 400 X"), pause, reset),
        failed("BadRequest", "refused", False, 1),
    ),
    "425": (whole(status="HTTP/1.1 425 X"), failed("API", "refused", True, 3)),
    "429, now": (
        whole("Retry-After: 0.0", status="HTTP/1.1 429 X"),
        failed("RateLimit", "refused", True, 3),
    ),
    "429, in an hour": (
        whole("Retry-After: 3600", status="HTTP/1.1 429 X"),
        failed("RateLimit", "refused", True, 1),
    ),
    "503, since long": (
        whole("Retry-After: Tue, 14 Nov 2000 22:13:50 GMT", status="HTTP/1.1 503 X"),
        failed("Server", "refused", True, 3),
    ),
    "503, soon": (
        whole("Retry-After: soon", status="HTTP/1.1 503 X"),
        failed("Server", "unknown", True, 1),
    ),
    "599": (whole(status="HTTP/1.1 599 X"), failed("Server", "unknown", True, 1)),
    "half a status line": (then(raw(b"HTTP/1."), close), LOST),
    "nothing": (close, LOST),
}

# Where a library has its own way, which cannot be switched.
DIFFERENT = {
    # aiohttp refuses what RFC 9112, section 6.3, lets it refuse, and versions but 1.0 and 1.1.
    ("a length twice", "AsyncClient"): LOST,
    ("a length, and chunked", "AsyncClient"): LOST,
    ("a length that is too small", "AsyncClient"): LOST,
    ("HTTP/1.2", "AsyncClient"): LOST,
    ("two hundred headers", "AsyncClient"): LOST,  # of which it takes 128
    ("101", "AsyncClient"): ODD,  # though nobody proposed another protocol, it goes on
    # It takes a reset for the end of a body that has no length; its JSON says whether it is whole.
    ("no length, reset", "AsyncClient"): READ,
}

# Of these http.client makes what its version makes of them: it is lenient, and takes 102 and 103
# for the answer.
NOT_FOR_HTTP_CLIENT = {
    *("102, then 103", "thirty times 103", "101", "two lengths", "two hundred headers"),
    *("a length below 0", "a header without a name"),
}


class OverHTTPClient:
    """A transport of a user's own, over the standard library."""

    def send(self, request: HTTPRequest) -> HTTPResponse:
        url = urlsplit(request.url)
        connection = http.client.HTTPConnection(url.netloc, timeout=request.timeout)
        try:
            connection.request(request.method, url.path, request.body, dict(request.headers))
            found = connection.getresponse()
            headers = {name.lower(): text for name, text in found.getheaders()}
            try:
                return HTTPResponse(found.status, headers, found.read())
            except http.client.IncompleteRead as cut:
                if found.status < 400:
                    raise
                return HTTPResponse(found.status, headers, cut.partial)
        finally:
            connection.close()

    def close(self) -> None:
        """Nothing is open."""


async def created(client: str, url: str) -> None:
    if client == "own":
        ours = Client(KEY, url, transport=OverHTTPClient(), timeout=5)
        await asyncio.to_thread(create, ours)
        return
    async with opened_as(client, url) as ours:
        await result_of(create, ours.with_options(timeout=5))


def ending(reply: Reply, client: str) -> tuple[Any, ...]:
    server = ScriptedServer([reply])
    try:
        asyncio.run(created(client, server.url))
    except KnowledgeBotError as error:
        found: tuple[Any, ...] = type(error).__name__, error.delivery.value, error.may_pass
    else:
        found = READ[:3]
    finally:
        server.stop()
    return (*found, len(server.requests))


OURS, THEIRS = ("Client", "AsyncClient"), (*[one for one in CLIENTS if "." in one], "own")


@pytest.mark.parametrize(
    "clients", [OURS, pytest.param(THEIRS, marks=pytest.mark.slow)], ids=["ours", "theirs"]
)
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_ends_as_the_table_says_whoever_sends(name, clients):
    reply, expected = ANSWERS[name]
    clients = [one for one in clients if one != "own" or name not in NOT_FOR_HTTP_CLIENT]
    with no_waiting(), ThreadPoolExecutor(len(clients)) as threads:
        ended = threads.map(lambda client: ending(reply, client), clients)
        found = dict(zip(clients, ended, strict=True))
    assert found == {one: DIFFERENT.get((name, one), expected) for one in clients}
