"""Clients as objects: derived, copied, pickled, closed, or sending through a client of the user."""

import asyncio
import copy
import pickle
import ssl

import certifi
import httpx
import pytest

from calls import KEY, SOURCE, create, upload
from http_libraries import LIBRARIES
from knowledge_bot import (
    AsyncClient,
    Client,
    ConfigurationError,
    RateLimitError,
    RequestTimeoutError,
    UnexpectedResponseError,
)
from refusals import refused
from scripted_server import answer, silence


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_injected_client_sends_with_its_own_headers_and_stays_open(scripted, library):
    server = scripted(answer(body=SOURCE))
    with library.Client(headers={"X-Gateway": "north"}) as http_client:
        with Client(KEY, server.url, http_client=http_client) as client:
            create(client)
            upload(client)
        assert not http_client.is_closed
    assert [r.headers["x-gateway"] for r in server.requests] == ["north", "north"]
    assert [r.headers["x-api-key"] for r in server.requests] == [KEY, KEY]


@pytest.mark.parametrize("library", LIBRARIES)
async def test_an_injected_asynchronous_client_sends_and_stays_open(scripted, library):
    server = scripted(answer(body=SOURCE))
    async with library.AsyncClient() as http_client:
        async with AsyncClient(KEY, server.url, http_client=http_client) as client:
            await create(client)
            await upload(client)
        assert not http_client.is_closed
    assert len(server.requests) == 2


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


async def test_a_closed_client_says_so(scripted):
    server = scripted(answer(body=SOURCE))
    client, asynchronous = Client(KEY, server.url), AsyncClient(KEY, server.url)
    client.close()
    await asynchronous.aclose()
    with pytest.raises(ConfigurationError, match="closed"):
        create(client)
    with pytest.raises(ConfigurationError, match="closed"):
        await create(asynchronous)
    assert server.requests == []


def test_a_client_survives_pickling_and_works_in_another_process(scripted):
    server = scripted(answer(body=SOURCE))
    with Client(KEY, server.url) as client:
        create(client)
        with pickle.loads(pickle.dumps(client)) as copy:
            assert create(copy).id == "src_1"
    aclient = pickle.loads(pickle.dumps(AsyncClient(KEY, server.url)))
    assert asyncio.run(create(aclient)).id == "src_1"


def test_a_blocking_client_gives_an_asynchronous_one_of_the_same_configuration(scripted):
    server = scripted(answer(body=SOURCE))
    with Client(KEY, server.url) as client:
        assert asyncio.run(create(client.to_async())).id == "src_1"
    assert server.requests[0].headers["x-api-key"] == KEY
    injected = Client(KEY, server.url, http_client=httpx.Client())
    with pytest.raises(ConfigurationError, match="http_client"):
        injected.to_async()


def test_a_deep_copy_is_the_client_itself():
    client = Client(KEY, "https://service.example")
    assert copy.deepcopy({"client": client})["client"] is client


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


BUSY = {"Retry-After": "0"}


def test_a_client_with_other_limits_keeps_them_apart(call, scripted):
    server = scripted(answer(429, headers=BUSY))
    for retries, sent in ((0, 1), (3, 5)):
        with pytest.raises(RateLimitError):
            call(lambda client, n=retries: create(client.with_options(max_retries=n)), server.url)
        assert len(server.requests) == sent
    with pytest.raises(RequestTimeoutError):
        call(lambda client: create(client.with_options(timeout=0.2)), scripted(silence).url)


def test_a_client_with_other_limits_shares_the_connections(scripted):
    server = scripted(answer(body=SOURCE))
    with Client(KEY, server.url) as client:
        create(client)
        with client.with_options(timeout=9) as hasty:
            create(hasty)
        with pytest.raises(ConfigurationError, match="closed"):
            create(hasty)
        create(client)
        assert server.connections == 1
        left = client.with_options(max_retries=0)
    with pytest.raises(ConfigurationError, match="closed"):
        create(left)


async def test_an_asynchronous_client_with_other_limits_shares_the_connections(scripted):
    server = scripted(answer(body=SOURCE))
    async with AsyncClient(KEY, server.url) as client:
        await create(client)
        async with client.with_options(timeout=9) as hasty:
            await create(hasty)
        with pytest.raises(ConfigurationError, match="closed"):
            await create(hasty)
        await create(client)
        assert server.connections == 1
        left = client.with_options(max_retries=0)
    with pytest.raises(ConfigurationError, match="closed"):
        await create(left)


def test_other_limits_survive_pickling_and_conversion(scripted):
    server = scripted(answer(429, headers=BUSY))
    with Client(KEY, server.url) as client:
        patient = client.with_options(max_retries=3)
        with pickle.loads(pickle.dumps(patient)) as copied, pytest.raises(RateLimitError):
            create(copied)
        with pytest.raises(RateLimitError):
            asyncio.run(create(patient.to_async()))
    assert len(server.requests) == 8


def test_other_limits_do_not_close_a_client_of_the_user(scripted):
    server = scripted(answer(body=SOURCE))
    with httpx.Client() as http_client, Client(KEY, server.url, http_client=http_client) as client:
        with client.with_options(timeout=9) as hasty:
            create(hasty)
            with pytest.raises(TypeError):
                pickle.dumps(hasty)
        create(client)
