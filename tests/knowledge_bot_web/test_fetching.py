"""What is fetched: pages within bounds; everything else becomes a reason that shows no secret."""

import gzip
import itertools
import socket
import threading
import time
import traceback
import tracemalloc
import zlib
from contextlib import closing

import pytest

from fetches import LOOPBACK, reason
from knowledge_bot_web.errors import FetchError, NoAnswerError
from knowledge_bot_web.fetching import Fetcher, FetchPolicy, Validators, fetch
from knowledge_bot_web.targets import Target
from page_server import answer, redirect, serving


def shown(error):
    """What a log shows of an error: the whole chain, with the lines of code."""
    return "".join(traceback.format_exception(error))


def test_a_page_comes_with_its_address_type_and_content(server):
    server.answers["/a"] = answer("<p>Grüße".encode(), kind="text/html; charset=utf-8")
    page = fetch(server.url("/a?key=1#part"), policy=LOOPBACK)
    assert (page.url, page.kind, page.body) == (
        server.url("/a?key=1"),
        "text/html",
        "<p>Grüße".encode(),
    )
    assert page.first("content-type") == "text/html; charset=utf-8"
    assert server.requests[0].startswith("GET /a?key=1 HTTP/1.1\r\n")


def test_letters_beyond_ascii_are_escaped_and_escapes_are_left(server):
    fetch(server.url("/größe%20x?q=ü&r=%2F"), policy=LOOPBACK)
    assert "GET /gr%C3%B6%C3%9Fe%20x?q=%C3%BC&r=%2F HTTP/1.1" in server.requests[0]


@pytest.mark.parametrize("status", ["301 M", "302 F", "303 S", "307 T", "308 P"])
def test_a_redirect_is_followed(status, server):
    server.answers["/old/page"] = redirect("../new?x=1", status)
    assert fetch(server.url("/old/page"), policy=LOOPBACK).url == server.url("/new?x=1")


def test_a_redirect_loop_ends(server):
    server.answers["/"] = redirect("/")
    assert "more than 5 times" in reason(server.url(), LOOPBACK)
    assert len(server.requests) == 6


def test_headers_go_to_their_origin_and_to_no_other(server):
    with serving() as other:
        server.answers["/a"] = redirect("/b")
        server.answers["/b"] = redirect(other.url("/c"))
        other.answers["/c"] = redirect(server.url("/d"))
        secret = ("Authorization", "Bearer s3cret")
        fetch(server.url("/a"), [secret], LOOPBACK)
        assert [("s3cret" in request) for request in server.requests] == [True, True, True]
        assert "s3cret" not in other.requests[0]


def test_a_header_can_replace_what_is_sent_by_default(server):
    fetch(server.url(), [("User-Agent", "mine")], LOOPBACK)
    assert "user-agent: mine\r\n" in server.requests[0].lower()
    assert server.requests[0].lower().count("user-agent") == 1


RESERVED = ("Host", "Content-Length", "Transfer-Encoding", "Accept-Encoding")
UNUSABLE = [(name, "s3cret") for name in (*RESERVED, "X Y", "X:", "", "X-Ü")]
UNUSABLE += [("X", f"s3cret{end}") for end in ("\r\nInjected: 1", "\0", "€", "\ud800")]


@pytest.mark.parametrize(("name", "value"), UNUSABLE)
def test_an_unusable_header_is_named_and_its_value_shown_nowhere(name, value, server):
    with pytest.raises(FetchError) as caught:
        fetch(server.url(), [(name, value)], LOOPBACK)
    assert "s3cret" not in shown(caught.value)
    assert server.requests == []


def test_a_failed_fetch_shows_no_header_value_and_no_query(server):
    secret = "s3c" + "ret"
    server.answers["/"] = answer(status="500 Oops")
    with pytest.raises(FetchError) as caught:
        fetch(server.url(f"/?token={secret}"), [("X", secret)], LOOPBACK)
    assert secret not in shown(caught.value)


def test_proxies_of_the_environment_are_not_used(server, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert fetch(server.url(), policy=LOOPBACK).body == b"<p>hello"


STATUSES = {
    "there is no page": ["404 Not Found", "410 Gone"],
    "permission": ["401 Unauthorized", "403 Forbidden"],
    "too many requests": ["429 Too Many Requests"],
    "failed": ["500 Internal Server Error", "503 Service Unavailable"],
    "with status": ["204 No Content", "304 Not Modified", "302 Found", "418 Teapot"],
}


@pytest.mark.parametrize(
    ("status", "part"), [(one, part) for part, all_of_it in STATUSES.items() for one in all_of_it]
)
def test_a_status_that_is_no_page_becomes_a_reason(status, part, server):
    server.answers["/"] = answer(b"", status=status)
    sentence = reason(server.url("/?key=s3cret"), LOOPBACK)
    assert part in sentence
    assert "s3cret" not in sentence


READABLE = [
    *("text/plain", "TEXT/HTML;charset=x", "text/markdown", "application/xhtml+xml"),
    *("application/atom+xml", "application/json", "application/pdf"),
]


@pytest.mark.parametrize("kind", [*READABLE, ""])
def test_pages_and_documents_are_accepted(kind, server):
    server.answers["/"] = answer(kind=kind)
    assert fetch(server.url(), policy=LOOPBACK).kind == kind.partition(";")[0].lower()


@pytest.mark.parametrize(
    "kind", ["application/octet-stream", "image/png", "image/svg+xml", "video/mp4", "junk"]
)
def test_other_content_is_refused_by_its_type(kind, server):
    server.answers["/"] = answer(kind=kind)
    assert kind in reason(server.url(), LOOPBACK)


PAGE = b"page" * 100
CODINGS = {
    "gzip": ("gzip", gzip.compress(PAGE)),
    "two gzip members": ("x-gzip", gzip.compress(PAGE[:200]) + gzip.compress(PAGE[200:])),
    "zlib": ("deflate", zlib.compress(PAGE)),
    "bare deflate": ("deflate", zlib.compress(PAGE, wbits=-15)),
    "identity": ("identity", PAGE),
}


@pytest.mark.parametrize(("coding", "packed"), CODINGS.values(), ids=CODINGS)
def test_a_compressed_page_is_unpacked(coding, packed, server):
    server.answers["/"] = answer(packed, f"Content-Encoding: {coding}")
    assert fetch(server.url(), policy=LOOPBACK).body == PAGE


@pytest.mark.parametrize(
    ("coding", "packed", "part"),
    [
        ("br", b"page", "compressed in a way"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"page")), "compressed in a way"),
        ("gzip", b"\x1f\x8bjunk, not gzip", "damaged"),
        ("gzip", gzip.compress(b"page" * 1000)[:-9], "ended early"),
    ],
    ids=["brotli", "twice", "junk", "cut"],
)
def test_a_page_that_cannot_be_unpacked_is_told(coding, packed, part, server):
    server.answers["/"] = answer(packed, f"Content-Encoding: {coding}")
    assert part in reason(server.url(), LOOPBACK)


def test_a_page_of_just_the_limit_is_read_and_one_byte_more_is_not(server):
    policy = FetchPolicy(allow=LOOPBACK.allow, max_bytes=1000)
    for packed, header in ((bytes, "X-A: 1"), (gzip.compress, "Content-Encoding: gzip")):
        server.answers["/fits"] = answer(packed(b"a" * 1000), header)
        server.answers["/over"] = answer(packed(b"a" * 1001), header)
        assert len(fetch(server.url("/fits"), policy=policy).body) == 1000
        assert "larger than 1,000 bytes" in reason(server.url("/over"), policy)


def test_a_gzip_bomb_is_refused_before_it_unpacks(server):
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(60)) + packer.flush()
    server.answers["/"] = answer(bomb, "Content-Encoding: gzip")
    tracemalloc.start()
    try:
        assert "larger than" in reason(server.url(), LOOPBACK)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 << 20


def test_an_endless_page_is_cut_at_the_limit(server):
    def endless(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        for _ in itertools.count():
            connection.sendall(b"a" * 65536)

    server.answers["/"] = endless
    assert "larger than" in reason(server.url(), LOOPBACK)


@pytest.mark.timeout(60)  # the page drips for ever
@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", b""])
def test_a_page_that_drips_ends_at_the_deadline(head, server):
    def drip(connection):
        connection.sendall(head or b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            connection.sendall(b"a")
            time.sleep(0.02)

    server.answers["/"] = drip
    policy = FetchPolicy(allow=LOOPBACK.allow, timeout=0.5)
    assert "longer than 0.5 s" in reason(server.url(), policy)


def test_the_deadline_is_one_for_all_redirects(server):
    def slow(connection):
        time.sleep(0.2)
        redirect("/")(connection)

    server.answers["/"] = slow
    policy = FetchPolicy(allow=LOOPBACK.allow, timeout=0.5, max_redirects=50)
    assert "longer than 0.5 s" in reason(server.url(), policy)
    assert len(server.requests) <= 3


@pytest.mark.parametrize(
    ("raw", "part"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: text/html\r\n\r\nshort",
            "early",
        ),
        (b"", "early"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n", "not HTTP"),
    ],
)
def test_what_is_no_http_becomes_a_reason(raw, part, server):
    server.answers["/"] = lambda connection: connection.sendall(raw)
    assert part in reason(server.url(), LOOPBACK)


def test_a_closed_port_becomes_a_reason():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert "could not be reached" in reason(f"http://127.0.0.1:{port}/", LOOPBACK)


# A fetcher that asks again and again ------------------------------------------------------------


@pytest.fixture
def fetcher():
    with closing(Fetcher(LOOPBACK)) as fetcher:
        yield fetcher


def kept(*bodies):
    """Answers so many requests over one connection."""

    def handle(connection):
        for body in bodies:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            connection.recv(65536)

    return handle


def test_a_connection_is_used_again_after_what_was_read_and_what_was_not_wanted(fetcher, server):
    server.answers["/"] = kept(b"one", b"two", b"three")
    target = Target.parse(server.url())
    assert fetcher.get(target).body == b"one"
    assert fetcher.get(target, wanted=lambda answer: False).body == b""
    assert fetcher.get(target).body == b"three"
    assert len(server.requests) == 1  # as the server saw it: one connection
    assert fetcher.received == len(b"onetwothree")


def test_the_beginning_of_a_large_body_is_kept_and_the_rest_is_cut_off(fetcher, server):
    server.answers["/"] = answer(gzip.compress(b"a" * 3000), "Content-Encoding: gzip")
    target = Target.parse(server.url())
    got = fetcher.get(target, largest=1000)
    assert (got.body, got.cut) == (b"a" * 1000, True)
    assert not fetcher.get(target, largest=3000).cut


def test_compressed_data_that_never_makes_anything_ends(fetcher, server):
    nothing = gzip.compress(b"") * 20_000
    server.answers["/"] = answer(nothing, "Content-Encoding: gzip")
    got = fetcher.get(Target.parse(server.url()), largest=1000)
    assert (got.body, got.cut) == (b"", True)
    assert fetcher.received < len(nothing)


def test_padding_behind_what_was_compressed_is_left_out(fetcher, server):
    server.answers["/"] = answer(gzip.compress(b"page") + bytes(100), "Content-Encoding: gzip")
    assert fetcher.get(Target.parse(server.url())).body == b"page"


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 200_000])
def test_nothing_of_a_body_stays_inside_the_decompression(size, fetcher, server):
    packer = zlib.compressobj(wbits=-15)
    bare = packer.compress(b"a" * size) + packer.flush()
    server.answers["/"] = answer(bare, "Content-Encoding: deflate")
    assert fetcher.get(Target.parse(server.url())).body == b"a" * size


def test_a_server_that_says_nothing_may_say_something_later(server):
    silent = threading.Event()

    def later(connection):
        silent.wait(5)
        answer()(connection)

    server.answers["/"] = later
    policy = FetchPolicy(allow=LOOPBACK.allow, silence=0.2)
    with closing(Fetcher(policy)) as fetcher, pytest.raises(NoAnswerError) as caught:
        fetcher.get(Target.parse(server.url()))
    assert caught.value.may_pass
    silent.set()


def test_who_may_open_a_network_is_told_how(server):
    assert reason(server.url(), FetchPolicy(advice="; ask Ann")).endswith("public address; ask Ann")


def test_a_redirect_may_have_spaces_and_letters(server):
    server.answers["/"] = redirect("/grün und blau")
    assert fetch(server.url(), policy=LOOPBACK).url == server.url("/gr%C3%BCn%20und%20blau")


@pytest.mark.parametrize(
    ("url", "is_same"),
    [
        ("http://h.example/x", True),
        ("https://h.example/", True),  # the safer way to the same host
        ("http://h.example:8080/", False),
        ("https://h.example:8443/", False),
        ("http://www.h.example/", False),
    ],
)
def test_headers_are_for_a_host_and_a_port(url, is_same):
    assert Target.parse(url).takes_headers_of(Target.parse("http://H.example:80/")) is is_same
    assert not Target.parse("http://h.example/").takes_headers_of(Target.parse("https://h.example"))


def test_the_validators_of_a_page_ask_for_it_again(server):
    server.answers["/"] = answer(b"<p>hello", 'ETag: "1"', "Last-Modified: " + "x" * 2000)
    known = Validators.of(fetch(server.url(), policy=LOOPBACK))
    assert known == Validators('"1"')
    server.answers["/"] = answer(b"", status="304 Not Modified")
    assert fetch(server.url(), policy=LOOPBACK, known=known).status == 304
    assert 'if-none-match: "1"\r\n' in server.requests[-1].lower()
