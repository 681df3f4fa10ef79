"""What both kinds of connections take from the environment, and what they keep to themselves."""

import ssl

import pytest
import trustme

from calls import SOURCE, create
from knowledge_bot import (
    AsyncClient,
    Client,
    ConfigurationError,
    ConnectionFailedError,
    Delivery,
)
from scripted_server import answer, close

ELSEWHERE = "http://service.localhost:9"


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_the_proxy_of_the_environment_is_used(call, scripted, monkeypatch, name):
    proxy = scripted(answer(body=SOURCE))
    monkeypatch.setenv(name, proxy.url if name == "all_proxy" else proxy.url.partition("//")[2])
    assert call(create, ELSEWHERE).id == "src_1"
    assert proxy.requests[0].path == f"{ELSEWHERE}/public/v1/sources/write"


@pytest.mark.parametrize("hosts", ["127.0.0.1", "example.org, 127.0.0.1", "*"])
def test_a_host_that_needs_no_proxy_is_asked_directly(call, scripted, monkeypatch, hosts):
    proxy, server = scripted(close), scripted(answer(body=SOURCE))
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.setenv("no_proxy", hosts)
    assert call(create, server.url).id == "src_1"
    assert proxy.connections == 0


def test_a_proxy_that_cannot_be_reached_has_delivered_nothing(call, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(ConnectionFailedError) as caught:
        call(create, ELSEWHERE, max_retries=0)
    assert caught.value.delivery is Delivery.NOT_DELIVERED


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    "proxy",
    [
        "ftp://me:hidden-word@127.0.0.1:9",
        "socks4://127.0.0.1:9",
        "socks5://me:hidden-word@127.0.0.1:9",
        "socks5h://127.0.0.1:9",
    ],
)
def test_a_proxy_of_another_kind_is_told_before_anything_is_sent(monkeypatch, kind, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(ConfigurationError, match="proxy") as caught:
        kind("key", ELSEWHERE)
    assert proxy.partition(":")[0] in str(caught.value)
    assert "hidden-word" not in str(caught.value)


def test_a_trusted_certificate_is_accepted(call, scripted, tmp_path):
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server = scripted(answer(body=SOURCE), tls=context)
    assert call(create, server.url, verify=str(tmp_path / "ca.pem")).id == "src_1"


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
