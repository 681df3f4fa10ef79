"""What both kinds of connections take from the environment, and what sends in their place."""

import base64
import contextlib
import gc
import gzip
import json
import pickle
import socket
import ssl
import threading
import time
import warnings

import aiohttp
import httpx
import pytest
import trustme

from calls import KEY, MESSAGE, SOURCE, ask, create, read, upload, upload_much
from http_libraries import LIBRARIES
from knowledge_bot import (
    APIError,
    AsyncClient,
    BadRequestError,
    Client,
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    Delivery,
    HTTPResponse,
    PaymentRequiredError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    UnexpectedResponseError,
)
from knowledge_bot._transports import proxy_for
from knowledge_bot.testing import no_waiting
from refusals import refused
from scripted_server import answer, close, drip, raw, then

ELSEWHERE = "http://service.localhost:9"


@pytest.fixture
def certified(scripted, tmp_path):
    """`certified(*replies, host=…)`: a server with TLS, and the file of its authority."""

    def start(*replies, host="127.0.0.1", **options):
        authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(host).configure_cert(context)
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        return scripted(*replies, tls=context, **options), str(tmp_path / "ca.pem")

    return start


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_the_proxy_of_the_environment_is_used(call, scripted, monkeypatch, name):
    proxy = scripted(answer(body=SOURCE))
    monkeypatch.setenv(name, proxy.url if name == "all_proxy" else proxy.url.partition("//")[2])
    assert call(create, ELSEWHERE).id == "src_1"
    assert proxy.requests[0].path == f"{ELSEWHERE}/public/v1/sources/write"


# What NO_PROXY lists, and what is asked directly then, and what is not. Every form is taken that
# curl, requests, httpx or Go takes, and read by its meaning: no address is the end of another one
# (requests), a port is the service's (curl knows none), networks and brackets are for IPv6 too.
EXEMPTIONS = {
    "*": ("http://service.example http://127.0.0.1:9 http://[::1]", ""),
    "service.example": (
        "http://service.example https://service.example:8080 http://a.service.example",
        "http://aservice.example http://example http://service.example.org",
    ),
    "example": ("http://service.example", "http://service.ample http://10.0.0.1"),
    ".example": ("http://service.example http://example", "http://serviceexample"),
    "*.example": ("http://service.example http://a.b.example", "http://serviceexample"),
    "SERVICE.*": ("http://service.example", "http://a.service.example"),
    "service.example.": ("http://service.example http://service.example.", "http://example"),
    "ample": ("", "http://service.example"),
    "": ("", "http://service.example"),
    ", ,": ("", "http://service.example http://127.0.0.1"),
    "[": ("", "http://service.example http://[::1]"),
    "other.test,service.example": ("http://service.example http://other.test", "http://test"),
    "other.test service.example": ("http://service.example http://other.test", "http://test"),
    "service.example:80": ("http://service.example", "https://service.example"),
    "service.example:443": ("https://service.example", "http://service.example"),
    "service.example:8080": ("https://service.example:8080", "https://service.example"),
    "https://service.example": ("https://service.example", "http://service.example"),
    "127.0.0.1": ("http://127.0.0.1:9 http://127.0.0.1", "http://127.0.0.11 http://localhost"),
    "127.0.0.1:9": ("http://127.0.0.1:9", "http://127.0.0.1:8"),
    "0.0.1": ("", "http://10.0.0.1"),
    "127.0.0.0/8": ("http://127.1.2.3:9", "http://128.1.2.3 http://127.example"),
    "10.1.2.3/8": ("http://10.0.0.1 http://[::ffff:10.0.0.1]", "http://11.0.0.1"),
    "10.*": ("http://10.0.0.1", "http://110.0.0.1"),
    "::1": ("http://[::1]:9", "http://[::2]:9 http://127.0.0.1"),
    "[::1]": ("http://[::1]:9", "http://[::2]:9"),
    "[::1]:9": ("http://[::1]:9", "http://[::1]:8"),
    "::1/128": ("http://[::1]:9", "http://[::2]:9"),
    "fd00::/8": ("http://[fd12::3]", "http://[fe80::3]"),
    "0:0::1": ("http://[::1]", "http://[::2]"),
    "localhost": ("http://localhost:9 http://service.localhost", "http://127.0.0.1:9"),
    "localhost,127.0.0.0/8,::1/128": ("http://localhost http://127.0.0.1 http://[::1]:9", ""),
}


@pytest.mark.parametrize("listed", EXEMPTIONS)
def test_what_needs_no_proxy_is_asked_directly(monkeypatch, listed):
    monkeypatch.setenv("all_proxy", "http://proxy.test:8080")
    monkeypatch.setenv("no_proxy", listed)
    directly, by_the_proxy = map(str.split, EXEMPTIONS[listed])
    found = {url: proxy_for(url) is None for url in (*directly, *by_the_proxy)}
    assert found == dict.fromkeys(directly, True) | dict.fromkeys(by_the_proxy, False)


@pytest.mark.parametrize("named", ["", "  "])
def test_a_proxy_that_is_blank_is_none(monkeypatch, named):
    monkeypatch.setenv("http_proxy", named)
    assert proxy_for("http://service.example") is None


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("proxy", "warns"),
    [("http://proxy.test:8080", True), ("https://proxy.test", False), ("http://[::1]:9", False)],
)
def test_a_key_that_leaves_the_machine_by_a_proxy_is_warned_of(monkeypatch, kind, proxy, warns):
    monkeypatch.setenv("http_proxy", proxy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind(KEY, "http://localhost:9")
    assert [one.filename for one in caught] == [__file__] * warns


def test_a_proxy_that_cannot_be_reached_is_named_and_has_delivered_nothing(call, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://me:hidden-word@127.0.0.1:9")
    with pytest.raises(ConnectionFailedError) as caught:
        call(create, ELSEWHERE, max_retries=0)
    assert caught.value.delivery is Delivery.NOT_DELIVERED
    assert f"{ELSEWHERE}/public/v1 " in str(caught.value)
    assert " http://127.0.0.1:9:" in str(caught.value)
    assert "hidden-word" not in str(caught.value)
    assert ConnectionFailedError.advice not in str(caught.value)


def test_a_proxy_is_logged_in_to_with_what_its_address_says(call, scripted, monkeypatch):
    proxy = scripted(answer(body=SOURCE))
    monkeypatch.setenv("http_proxy", f"http://me:p%40ss@127.0.0.1:{proxy.port}")
    assert call(create, ELSEWHERE).id == "src_1"
    sent = proxy.requests[0].headers["proxy-authorization"]
    assert base64.b64decode(sent.removeprefix("Basic ")) == b"me:p@ss"


def test_a_tunnel_through_a_proxy_keeps_the_key_to_the_service(
    call, certified, scripted, monkeypatch
):
    server, authority = certified(answer(body=SOURCE), host="service.localhost")
    proxy = scripted(tunnel(server.port))
    monkeypatch.setenv("https_proxy", proxy.url)
    place = "https://service.localhost:9"
    assert call(create, place, verify=authority).id == "src_1"
    assert call(upload_much, place, verify=authority).id == "src_1"
    assert {request.path for request in proxy.requests} == {"service.localhost:9"}
    assert all("x-api-key" not in request.headers for request in proxy.requests)
    assert [request.headers["x-api-key"] for request in server.requests] == [KEY, KEY]


def tunnel(port):
    """Connects a request for a tunnel to a port of this machine, until one end is closed."""

    def reply(connection):
        with socket.create_connection(("127.0.0.1", port)) as service:
            connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            threading.Thread(target=copy, args=(service, connection), daemon=True).start()
            copy(connection, service)

    return reply


def copy(source, target):
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    "proxy",
    [
        "ftp://me:hidden-word@127.0.0.1:9",
        "socks4://127.0.0.1:9",
        "socks5://me:hidden-word@127.0.0.1:9",
        "socks5h://127.0.0.1:9",
        "http://[bad",
    ],
)
def test_a_proxy_of_another_kind_is_reported_before_anything_is_sent(monkeypatch, kind, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(ConfigurationError, match="proxy") as caught:
        kind("key", ELSEWHERE)
    assert proxy.partition(":")[0] in str(caught.value)
    assert "hidden-word" not in str(caught.value)


def test_a_trusted_certificate_is_accepted(call, certified):
    server, authority = certified(answer(body=SOURCE))
    assert call(create, server.url, verify=authority).id == "src_1"


def test_a_login_is_not_taken_for_the_kind_of_a_proxy(monkeypatch):
    monkeypatch.setenv("http_proxy", "me:hidden-word@proxy:99999")
    with pytest.raises(ConfigurationError, match="of the kind 'http'") as caught:
        Client("key", ELSEWHERE)
    assert "hidden-word" not in str(caught.value)


def test_a_certificate_that_is_not_trusted_is_reported_with_what_to_do(call, certified):
    server, _ = certified(answer(body=SOURCE))
    with pytest.raises(ConnectionFailedError, match="SSL_CERT_FILE") as caught:
        call(create, server.url, max_retries=0)
    assert ConnectionFailedError.advice not in str(caught.value)
    assert call(create, server.url, verify=False).id == "src_1"


def test_plain_http_at_a_port_with_tls_says_so(call, certified):
    url = certified(answer(body=SOURCE))[0].url.replace("https:", "http:")
    with pytest.raises(ConnectionLostError, match="https://"):
        call(lambda client: client.ping(), url, max_retries=0)


def test_certificate_authorities_of_the_environment_are_trusted(call, certified, monkeypatch):
    server, authority = certified(answer(body=SOURCE))
    monkeypatch.setenv("SSL_CERT_FILE", authority)
    assert call(create, server.url).id == "src_1"


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_certificates_of_the_environment_that_cannot_be_loaded_are_reported_at_once(
    monkeypatch, tmp_path, kind
):
    (tmp_path / "empty.pem").touch()
    for path in ("/nowhere/ca.pem", tmp_path / "empty.pem"):
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        with pytest.raises(ConfigurationError, match="SSL_CERT_FILE"):
            kind(KEY, "https://service.localhost:9")


def test_a_service_without_encryption_needs_no_certificates(call, scripted, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    assert call(create, scripted(answer(body=SOURCE)).url).id == "src_1"


def test_a_port_that_does_not_speak_tls_is_reported(call, scripted):
    def speak_first(connection):
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        return True

    server = scripted(close, on_accept=speak_first)
    with pytest.raises(ConnectionFailedError, match="speaks TLS"):
        call(create, server.url.replace("http:", "https:"), max_retries=0)


def test_an_error_without_encryption_speaks_of_none(call):
    with pytest.raises(ConnectionFailedError) as caught:
        call(create, "http://127.0.0.1:9", max_retries=0)
    assert "ssl" not in str(caught.value).lower()
    assert ConnectionFailedError.advice in str(caught.value)


# An upload that is refused before it was sent -----------------------------------------------------


@pytest.mark.parametrize("encrypted", [False, True])
def test_an_upload_ends_when_its_refusal_arrives(call, certified, scripted, encrypted):
    # The rest is read slowly and thrown away, as servers do that answer before the end.
    refusal = answer(413, {"code": "too_large", "message": "at most 1 MB"})
    reply, sent, options = then(refusal, lingering), [], {}
    if encrypted:
        server, options["verify"] = certified(reply, read_limit=100_000)
    else:
        server = scripted(reply, read_limit=100_000)

    def use(client):
        return client.upload_source(
            name="n",
            collections="col_1",
            file=bytes(64 << 20),
            on_progress=lambda n, _: sent.append(n),
        )

    with pytest.raises(APIError, match="at most 1 MB") as caught:
        call(use, server.url, **options)
    assert (caught.value.status_code, caught.value.delivery) == (413, Delivery.REFUSED)
    assert len(server.requests) == 1
    assert (sent or [0])[-1] < 32 << 20


def _interim(*more):
    """Answers that are none yet, in pieces of their own, before the rest of the body is read."""
    heads = [raw(head) for head in (b"HTTP/1.1 100 Continue\r\n\r\n", *more)]
    return then(*(step for head in heads for step in (head, lambda _: time.sleep(0.02))))


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize(
    "more",
    [
        [],
        [b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"] * 3,
        [b"HTTP/1.1 10", b"2 Processing\r", b"\n\r\n"],
    ],
)
def test_an_interim_answer_ends_no_upload(call, certified, scripted, encrypted, more):
    # As IIS and some Java servers send it, unasked for.
    options = {}
    if encrypted:
        server, options["verify"] = certified(answer(body=SOURCE), before=_interim(*more))
    else:
        server = scripted(answer(body=SOURCE), before=_interim(*more))
    for use in (upload_much, create):
        assert call(use, server.url, **options).id == "src_1"
    assert [len(request.body) > 32 << 20 for request in server.requests] == [True, False]


def test_a_refusal_behind_an_interim_answer_ends_an_upload(call, scripted):
    refusal = answer(413, {"code": "too_large", "message": "at most 1 MB"})
    server = scripted(then(_interim(), refusal, lingering), read_limit=100_000)
    with pytest.raises(APIError) as caught:
        call(upload_much, server.url)
    assert (caught.value.status_code, caught.value.delivery) == (413, Delivery.REFUSED)
    assert len(server.requests) == 1


def test_interim_answers_without_end_are_given_up(call, scripted):
    server = scripted(drip(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 200, 0.01))
    with pytest.raises(RequestTimeoutError) as caught:
        call(create, server.url, timeout=0.2, max_retries=0)
    assert caught.value.delivery is Delivery.UNKNOWN


def lingering(connection):
    connection.settimeout(5)
    with contextlib.suppress(OSError):
        while connection.recv(4096):
            time.sleep(0.01)


# The HTTP client of a user, over a mock -----------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("use", [create, upload, ask, read])
async def test_a_mock_transport_of_the_http_library_answers_both_clients(library, use):
    received = []

    def reply(request):
        if request.url.path.endswith("/ping"):
            return library.Response(200, text="pong")
        received.append((request.method, request.url.path, request.read()))
        body = {"data": []} if request.method == "GET" else SOURCE
        return library.Response(200, json=MESSAGE if "messages" in request.url.path else body)

    async def areply(request):
        await request.aread()
        return reply(request)

    mock = library.MockTransport(reply)
    with library.Client(transport=mock) as http_client:
        blocking = use(Client(KEY, "https://service.test", http_client=http_client))
    async with library.AsyncClient(transport=library.MockTransport(areply)) as http_client:
        awaited = await use(AsyncClient(KEY, "https://service.test", http_client=http_client))
    assert blocking == awaited
    assert len(received) == 2
    assert received[0][:2] == received[1][:2]


@pytest.mark.parametrize("library", LIBRARIES)
async def test_an_answer_that_an_event_hook_has_read_is_an_answer(scripted, library):
    body = gzip.compress(json.dumps(SOURCE).encode())
    server = scripted(answer(body=body, headers={"Content-Encoding": "gzip"}))

    async def aread(response):
        await response.aread()

    with library.Client(event_hooks={"response": [lambda r: r.read()]}) as http_client:
        assert create(Client(KEY, server.url, http_client=http_client)).id == "src_1"
    async with library.AsyncClient(event_hooks={"response": [aread]}) as http_client:
        assert (await create(AsyncClient(KEY, server.url, http_client=http_client))).id == "src_1"


def raising(response):
    response.raise_for_status()


async def araising(response):
    response.raise_for_status()


def reading(response):
    response.read()
    response.raise_for_status()


async def areading(response):
    await response.aread()
    response.raise_for_status()


# A hook for each kind of client, whether it has read the body, and whether it raises what it is.
HOOKS = {"raises": (raising, araising, False), "reads and raises": (reading, areading, True)}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("status", "ends"),
    [
        (400, (BadRequestError, "refused", 1)),
        (402, (PaymentRequiredError, "refused", 1)),
        (429, (RateLimitError, "refused", 3)),
        (503, (ServerError, "refused", 3)),
        (500, (ServerError, "unknown", 1)),
        (302, (UnexpectedResponseError, "unknown", 1)),
    ],
)
async def test_what_a_hook_raises_with_an_answer_is_that_answer(
    scripted, library, hook, status, ends
):
    kind, delivery, posts = ends
    headers = {"Retry-After": "0"} if status == 503 else {}
    server = scripted(answer(status, {"code": "c"}, headers))
    blocking, awaiting, reads = HOOKS[hook]
    http_client = library.Client(event_hooks={"response": [blocking]})
    with no_waiting(), http_client, pytest.raises(kind) as caught:
        ask(Client(KEY, server.url, http_client=http_client))
    async with library.AsyncClient(event_hooks={"response": [awaiting]}) as http_client:
        with no_waiting(), pytest.raises(kind) as awaited:
            await ask(AsyncClient(KEY, server.url, http_client=http_client))
    for error in (caught.value, awaited.value):
        assert error.delivery is Delivery(delivery)
        assert getattr(error, "code", None) == ("c" if reads and status != 302 else None)
    assert len(server.requests) == 2 * posts


def test_what_a_hook_raises_of_an_answer_that_it_has_read_does_not_cost_the_answer(scripted):
    def dissatisfied(response):
        response.read()
        raise httpx.HTTPStatusError("too long", request=response.request, response=response)

    server = scripted(answer(body=MESSAGE))
    with httpx.Client(event_hooks={"response": [dissatisfied]}) as http_client:
        assert ask(Client(KEY, server.url, http_client=http_client)).answer == "At nine."


class _Retrying(httpx.BaseTransport):
    """A transport that tries again by itself, and gives up with what it was told at last."""

    def __init__(self):
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request):
        for _ in range(2):
            response = self._inner.handle_request(request)
        response.request = request
        response.read()
        response.raise_for_status()
        return response


def test_what_a_retrying_transport_raises_in_the_end_is_its_last_answer(scripted):
    server = scripted(answer(500), answer(402, {"code": "c"}))
    with (
        httpx.Client(transport=_Retrying()) as http_client,
        pytest.raises(PaymentRequiredError) as caught,
    ):
        ask(Client(KEY, server.url, http_client=http_client))
    assert (caught.value.code, len(server.requests)) == ("c", 2)


async def test_a_closed_client_of_the_user_is_named_before_anything_is_sent(scripted):
    server = scripted(answer(body=SOURCE))
    closed = httpx.Client()
    closed.close()
    with refused("http_client"):
        create(Client(KEY, server.url, http_client=closed))
    closed = httpx.AsyncClient()
    await closed.aclose()
    with refused("http_client"):
        await create(AsyncClient(KEY, server.url, http_client=closed))
    assert server.connections == 0


# A transport of the user --------------------------------------------------------------------------


class Recorded:
    """A transport as a user writes one."""

    def __init__(self, reply):
        self.reply, self.sent, self.closed = reply, [], 0

    def send(self, request):
        self.sent.append(request)
        return self.reply()

    def close(self):
        self.closed += 1


def test_a_closed_client_leaves_no_socket_to_the_garbage_collector(scripted):
    server = scripted(answer(body=SOURCE))
    gc.collect()  # what other tests left
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with Client(KEY, server.url) as client:
            create(client)
        del client
        gc.collect()
    ours = f"raddr=('127.0.0.1', {server.url.split(':')[2].partition('/')[0]})"
    assert [str(one.message) for one in told if ours in str(one.message)] == []


def test_a_transport_of_the_user_gets_the_request_and_is_closed_with_the_client():
    transport = Recorded(lambda: HTTPResponse(200, {}, json.dumps(SOURCE).encode()))
    with Client(KEY, "https://service.test", transport=transport, timeout=7) as client:
        with client.with_options(timeout=3) as hasty:
            assert create(hasty).id == "src_1"
        assert create(client).id == "src_1"
        assert transport.closed == 0
    assert transport.closed == 1
    asked, first, second = transport.sent
    assert (asked.method, asked.timeout) == ("GET", 3)
    assert (first.method, first.url) == ("POST", "https://service.test/public/v1/sources/write")
    assert (first.timeout, second.timeout) == (3, 7)
    assert dict(first.headers)["X-API-KEY"] == KEY
    assert KEY not in repr(first)
    with pytest.raises(TypeError):
        pickle.dumps(client)
    with pytest.raises(ConfigurationError):
        Client(KEY, "https://service.test", transport=transport, http_client=httpx.Client())


def unwritten(reason):
    error = aiohttp.ClientOSError(None, "Can not write request body")
    error.__cause__ = aiohttp.ClientConnectionResetError(reason)
    return error


@pytest.mark.parametrize(
    ("raised", "kind", "delivery"),
    [
        (ConnectionFailedError("down"), ConnectionFailedError, Delivery.NOT_DELIVERED),
        (ConnectionRefusedError("down"), ConnectionFailedError, Delivery.NOT_DELIVERED),
        (TimeoutError(), RequestTimeoutError, Delivery.UNKNOWN),
        (OSError("broken"), ConnectionLostError, Delivery.UNKNOWN),
        (RuntimeError("odd"), ConnectionLostError, Delivery.UNKNOWN),
        (ConfigurationError("transport: no route"), ConfigurationError, Delivery.NOT_DELIVERED),
        # aiohttp found its connection closed before it wrote, or while it did.
        (
            unwritten("Cannot write to closing transport"),
            ConnectionLostError,
            Delivery.NOT_DELIVERED,
        ),
        (unwritten("Connection lost"), ConnectionLostError, Delivery.UNKNOWN),
    ],
)
def test_what_a_transport_of_the_user_raises_has_a_delivery(raised, kind, delivery):
    def fail():
        raise raised

    client = Client(KEY, "https://service.test", transport=Recorded(fail), max_retries=0)
    with pytest.raises(kind) as caught:
        create(client)
    assert caught.value.delivery is delivery


@pytest.mark.parametrize("garbage", [None, "x", b"{}"])
def test_a_transport_that_returns_no_answer_is_named(garbage):
    client = Client(KEY, "https://service.test", transport=Recorded(lambda: garbage))
    with pytest.raises(
        ConnectionLostError, match=r"the transport returned .* no HTTPResponse"
    ) as caught:
        create(client)
    assert caught.value.delivery is Delivery.UNKNOWN


def test_the_error_of_a_transport_is_the_cause_and_shown_once():
    def fail():
        raise ConnectionFailedError("no route")

    client = Client(KEY, "https://service.test", transport=Recorded(fail), max_retries=0)
    with pytest.raises(ConnectionFailedError) as caught:
        create(client)
    assert str(caught.value).count(ConnectionFailedError.advice) == 1
    assert isinstance(caught.value.__cause__, ConnectionFailedError)


def test_what_a_mock_asserts_reaches_the_test():
    def fail():
        raise AssertionError("not mocked!")

    with pytest.raises(AssertionError, match="not mocked!"):
        create(Client(KEY, "https://service.test", transport=Recorded(fail)))


def test_a_cookie_of_the_service_is_not_kept(call, scripted):
    server = scripted(answer(body=SOURCE, headers={"Set-Cookie": "a=b; Path=/"}))

    def twice(client):
        first = create(client)
        if hasattr(first, "id"):
            return create(client)

        async def both():
            await first
            return await create(client)

        return both()

    call(twice, server.url)
    assert ["cookie" in request.headers for request in server.requests] == [False, False]
