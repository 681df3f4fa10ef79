"""Clients as objects: derived, copied, pickled, closed, or sending through a client of the user."""

import asyncio
import copy
import pickle
import ssl

import certifi
import httpx
import pytest

from calls import KEY, SOURCE, create, settled, upload
from http_libraries import LIBRARIES
from knowledge_bot import (
    AsyncClient,
    Client,
    ConfigurationError,
    RateLimitError,
    RequestTimeoutError,
    UnexpectedResponseError,
)
from knowledge_bot.testing import no_waiting
from refusals import refused
from scripted_server import answer

URL = "https://service.test"


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_client_of_the_user_sends_with_its_own_headers_and_stays_open(scripted, library):
    server = scripted(answer(body=SOURCE))
    headers = {"X-Gateway": "north"}
    with library.Client(headers=headers) as http_client:
        with Client(KEY, server.url, http_client=http_client) as client:
            create(client)
            upload(client.with_options(timeout=9))
        assert not http_client.is_closed
    async with library.AsyncClient(headers=headers) as http_client:
        async with AsyncClient(KEY, server.url, http_client=http_client) as client:
            await create(client)
            await upload(client.with_options(timeout=9))
        assert not http_client.is_closed
    assert [r.headers["x-gateway"] for r in server.requests] == ["north"] * 4
    assert [r.headers["x-api-key"] for r in server.requests] == [KEY] * 4


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_although_the_client_of_a_user_would(scripted, library, status):
    elsewhere = scripted(answer(body=SOURCE))
    server = scripted(answer(status, headers={"Location": f"{elsewhere.url}/?token=t"}))
    with library.Client(follow_redirects=True) as http_client:
        client = Client(KEY, server.url, http_client=http_client)
        with pytest.raises(UnexpectedResponseError, match="never followed") as caught:
            create(client)
    assert f"redirects to {elsewhere.url}/." in str(caught.value)
    assert elsewhere.connections == 0


def test_a_client_of_another_kind_is_not_accepted():
    with refused("http_client"):
        Client(KEY, "https://service.example", http_client=object())
    with refused("http_client"):
        AsyncClient(KEY, "https://service.example", http_client=httpx.Client())


def test_a_closed_client_says_so(call, service):
    async def use(client):
        left = client.with_options(max_retries=0)
        await settled(closing(client))
        for closed in (client, left):
            with pytest.raises(ConfigurationError, match="closed"):
                await settled(create(closed))

    call(use, service)
    assert service.requests == []


def test_a_client_survives_pickling_and_conversion_with_its_limits(service):
    with service.standing_in():
        client = Client(KEY, URL, max_retries=1).with_options(max_retries=3)
        copies = [client, pickle.loads(pickle.dumps(client))]
        asynchronous = client.to_async()
        copies += [asynchronous, pickle.loads(pickle.dumps(asynchronous))]
        service.fail_next(429, times=4 * 4)
        for one in copies:
            with no_waiting(), pytest.raises(RateLimitError):
                asyncio.run(settled_later(create, one))
    assert [request.headers["x-api-key"] for request in service.requests] == [KEY] * 16


async def settled_later(use, client):
    return await settled(use(client))


def closing(client):
    return client.aclose() if isinstance(client, AsyncClient) else client.close()


@pytest.mark.parametrize("own", ["transport", "http_client"])
def test_a_client_with_an_own_way_to_send_is_neither_pickled_nor_converted(service, own):
    client = Client(
        KEY, URL, **{own: service.transport if own == "transport" else httpx.Client()}
    ).with_options(timeout=9)
    with pytest.raises(TypeError):
        pickle.dumps(client)
    with refused("http_client"):
        client.to_async()


@pytest.mark.parametrize("options", [{}, {"http_client": httpx.Client()}])
def test_a_copy_is_the_client_itself_and_of_a_chat_one_that_goes_on(options):
    client = Client(KEY, "https://service.example", **options)
    assert copy.deepcopy({"client": client})["client"] is client
    assert copy.copy(client) is client
    chat = copy.deepcopy(client.chat("bot_1", "conv_1"))
    assert repr(chat) == repr(client.chat("bot_1", "conv_1"))


def test_a_chat_is_pickled_with_its_client():
    chat = Client(KEY, URL).chat("bot_1", "conv_1")
    assert repr(pickle.loads(pickle.dumps(chat))) == repr(chat)
    with pytest.raises(TypeError, match="file of certificate authorities"):
        pickle.dumps(Client(KEY, URL, verify=ssl.create_default_context()))


def test_all_clients_of_a_process_share_the_loaded_certificate_authorities(monkeypatch):
    # Loading them takes tens of milliseconds, everything else of a client a fraction of one.
    loaded = []
    load = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda **of: loaded.append(of) or load(**of))
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    for _ in range(5):
        Client(KEY, "https://other.example").close()
        pickle.loads(pickle.dumps(AsyncClient(KEY, "https://other.example")))
    assert len(loaded) <= 1


def test_a_client_shows_its_address_and_not_its_key():
    client = Client(KEY, "https://service.example/")
    assert client.base_url == "https://service.example/public/v1"
    assert repr(client) == "Client(base_url='https://service.example/public/v1')"


def test_a_client_with_other_limits_keeps_them_apart(call, service):
    service.fail_next(429, retry_after=0, times=None)
    for retries, sent in ((0, 1), (3, 5)):
        with no_waiting(), pytest.raises(RateLimitError):
            call(lambda client, n=retries: create(client.with_options(max_retries=n)), service)
        assert len(service.requests) == sent
    service.recover()
    with service.holding_answers(), pytest.raises(RequestTimeoutError):
        call(lambda client: create(client.with_options(timeout=0.05, max_retries=0)), service)


def test_a_client_with_other_limits_shares_the_connections(call, scripted):
    server = scripted(answer(body=SOURCE))

    async def use(client):
        await settled(create(client))
        hasty = client.with_options(timeout=9)
        await settled(create(hasty))
        await settled(closing(hasty))
        with pytest.raises(ConfigurationError, match="closed"):
            await settled(create(hasty))
        await settled(create(client))

    call(use, server.url)
    assert server.connections == 1
