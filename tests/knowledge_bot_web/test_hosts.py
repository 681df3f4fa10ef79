"""Which hosts a page is fetched from: allowed ones, however an address is written or changes."""

import socket
import ssl
import sys
import threading
from ipaddress import ip_address, ip_network

import pytest
import trustme

from fetches import LOOPBACK, reason
from knowledge_bot_web.fetching import FetchPolicy, fetch
from knowledge_bot_web.networks import is_public
from page_server import redirect, serving

# Addresses that are none of the internet, in the ways in which they can be written.
INSIDE = [
    *("127.0.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001"),
    *("127.1", "127.0.1", "①②⑦.⓪.⓪.①", "localhost", "localhost.", "0.0.0.0", "0"),
    *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]"),
    *("[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]"),
    *("[fe80::1]", "[fc00::1]", "[fec0::1]", "[ff02::1]"),
    *("10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "168.63.129.16"),
    *("100.100.100.200", "192.0.0.192", "192.88.99.1", "198.18.0.1"),
    *("224.0.0.1", "240.0.0.1", "255.255.255.255"),
]


@pytest.mark.parametrize("host", INSIDE)
def test_an_address_inside_is_refused_however_it_is_written(host, server):
    sentence = reason(server.url(host=host))
    assert "not a public address" in sentence or "has no address" in sentence
    assert server.requests == []


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("file:///etc/passwd", "http:// or https://"),
        ("ftp://example.com/", "http:// or https://"),
        ("gopher://example.com/", "http:// or https://"),
        ("javascript:alert(1)", "http:// or https://"),
        ("//example.com/", "http:// or https://"),
        ("example.com", "http:// or https://"),
        ("http://user:secret@example.com/", "user name"),
        ("http://example.com@127.0.0.1/", "user name"),
        ("http://example.com\\@127.0.0.1/", "characters"),
        ("http://exa mple.com/", "characters"),
        ("http://example.com/\r\nX-Injected: 1", "characters"),
        ("http://example.com/\ud800", "characters"),
        ("http://", "host name"),
        ("http://[::1/", "malformed"),
        ("http://example.com:99999/", "malformed"),
        ("http://example.com:0/", "port 0"),
        ("http://exam%70le.com/", "host name"),
        ("http://" + "a" * 64 + ".com/", "host name"),
        ("", "empty"),
    ],
)
def test_an_address_that_is_none_of_a_page_is_refused(url, part):
    sentence = reason(url)
    assert part in sentence
    assert "secret" not in sentence


def test_an_opened_network_is_open_exactly(server):
    assert fetch(server.url(), policy=LOOPBACK).body == b"<p>hello"
    for host in ("127.0.0.2", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"):
        assert "not a public address" in reason(server.url(host=host), LOOPBACK)


ELSEWHERE = [
    *("http://169.254.169.254/latest/meta-data/", "//10.0.0.1/", "http://[::1]/"),
    *("http://2852039166/", "file:///etc/passwd", "http://user@127.0.0.1/", "http://["),
]


@pytest.mark.parametrize("location", ELSEWHERE)
def test_a_redirect_is_checked_like_the_first_address(location, server):
    server.answers["/"] = redirect(location)
    sentence = reason(server.url(), LOOPBACK)
    assert "not a public address" in sentence or "redirects to an address" in sentence
    assert len(server.requests) == 1


def test_a_name_is_looked_up_once_and_the_checked_address_is_dialled(server):
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    page = fetch(
        server.url(host="rebinding.test"), policy=LOOPBACK, resolver=lambda *_: next(answers)
    )
    assert page.body == b"<p>hello"
    assert f"host: rebinding.test:{server.port}\r\n" in server.requests[0].lower()
    assert list(answers) == [["169.254.169.254"]]


def test_a_name_that_changes_its_answer_between_redirects_is_refused(server):
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    server.answers["/"] = redirect("/again")
    url = server.url(host="rebinding.test")
    assert "127.0.0.2" in reason(url, LOOPBACK, resolver=lambda *_: next(answers))
    assert len(server.requests) == 1


def test_one_address_inside_among_others_refuses_the_name(server):
    for mixed in (["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["127.0.0.1", "::1"]):
        sentence = reason(server.url(host="mixed.test"), LOOPBACK, resolver=lambda *_, m=mixed: m)
        assert "not a public address" in sentence
    assert server.requests == []


def test_the_next_address_is_tried_when_one_does_not_answer(server):
    policy = FetchPolicy(allow=(ip_network("127.0.0.0/8"),))
    both = ["127.0.0.9", "127.0.0.1"]
    assert fetch(server.url(host="two.test"), policy=policy, resolver=lambda *_: both).body


@pytest.mark.skipif(sys.platform != "linux", reason="a full backlog drops connections there")
def test_an_address_that_says_nothing_leaves_time_for_the_next(server):
    policy = FetchPolicy(allow=(ip_network("127.0.0.0/8"),), timeout=2.0)
    both = ["127.0.0.9", "127.0.0.1"]
    with socket.socket() as silent, socket.socket() as first, socket.socket() as second:
        silent.bind(("127.0.0.9", server.port))
        silent.listen(0)
        for connection in (first, second):
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.9", server.port))
        assert fetch(server.url(host="two.test"), policy=policy, resolver=lambda *_: both).body
        assert "longer than 0.2 s" in reason(
            server.url(host="one.test"),
            FetchPolicy(allow=policy.allow, timeout=0.2),
            resolver=lambda *_: both[:1],
        )


def test_a_name_without_an_address_is_told(server):
    def unknown(*_):
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    assert "nowhere.test has no address" in reason("http://nowhere.test/", resolver=unknown)
    assert "has no address" in reason("http://nowhere.test/", resolver=lambda *_: [])
    assert "has no address" in reason("http://nowhere.test/", resolver=lambda *_: ["junk"])


@pytest.mark.timeout(60)
def test_a_lookup_that_hangs_ends_at_the_deadline():
    release = threading.Event()

    def hanging(*_):
        release.wait(600)
        return []

    assert "longer than 0.3 s" in reason(
        "http://slow.test/", FetchPolicy(timeout=0.3), resolver=hanging
    )
    release.set()


def test_https_keeps_the_name_for_sni_and_the_certificate():
    authority = trustme.CA()
    serving_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("secure.test").configure_cert(serving_context)
    names: list[str | None] = []
    serving_context.sni_callback = lambda _socket, name, _context: names.append(name)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    def loopback(*_):
        return ["127.0.0.1"]

    with serving(serving_context) as server:
        url = f"https://secure.test:{server.port}/"
        page = fetch(url, policy=LOOPBACK, resolver=loopback, ssl_context=trusting)
        assert page.body == b"<p>hello"
        assert names == ["secure.test"]
        other = f"https://other.test:{server.port}/"
        assert "CERTIFICATE" in reason(other, LOOPBACK, resolver=loopback, ssl_context=trusting)
        assert "CERTIFICATE" in reason(url, LOOPBACK, resolver=loopback)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "inside", ["100.64.0.1", "fe80::1%eth0", "::ffff:10.0.0.1", "64:ff9b::a00:1"]
)
@pytest.mark.parametrize(
    "outside", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
)
def test_what_is_public(inside, outside):
    assert [is_public(ip_address(one)) for one in (inside, outside)] == [False, True]
