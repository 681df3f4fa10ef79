"""What a client can be configured with, and what it says where it cannot."""

import pickle
import warnings

import pytest
from pydantic import SecretStr

from calls import KEY, create
from knowledge_bot import AsyncClient, Client, ConfigurationError, InsecureTransportWarning
from knowledge_bot._configuration import Secret
from knowledge_bot.ingest import Text, ingest
from knowledge_bot.models import Header
from knowledge_bot.testing import MemoryService
from refusals import refused


def base_url(given):
    return repr(Client("key", given)).partition("'")[2].rpartition("'")[0]


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("https://service.example", "https://service.example/public/v1"),
        ("https://service.example/", "https://service.example/public/v1"),
        ("https://service.example/public/v1", "https://service.example/public/v1"),
        ("https://service.example/public/v1/", "https://service.example/public/v1"),
        ("https://service.example/team/a/public/v2", "https://service.example/team/a/public/v2"),
        ("http://127.0.0.1:8700", "http://127.0.0.1:8700/public/v1"),
        ("http://[::1]:8700", "http://[::1]:8700/public/v1"),
        ("http://localhost:8700", "http://localhost:8700/public/v1"),
    ],
)
def test_the_version_is_added_where_the_address_has_no_path(given, used):
    assert base_url(given) == used


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://service.example", "HTTPS://Service.EXAMPLE:443/", True),
        ("http://127.0.0.1:80/a", "http://127.0.0.1/a/", True),
        ("http://127.0.0.1/p%C3%BCbl", "http://127.0.0.1/pübl", True),
        ("https://xn--bcher-kva.example", "https://Bücher.example", True),
        ("http://[::1]:8700", "http://[::1]:08700/public/v1", True),
        ("https://service.example", "https://service.example:80", False),
        ("https://service.example/Team", "https://service.example/team", False),
        ("https://service.example", "https://service.example.org", False),
    ],
)
def test_one_service_has_one_address_however_it_is_spelled(one, other, same):
    # It is part of a source's identity in the ledger.
    assert (base_url(one) == base_url(other)) is same


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "KNOWLEDGE_BOT_BASE_URL"),
        ("", "KNOWLEDGE_BOT_BASE_URL"),
        (" ", "KNOWLEDGE_BOT_BASE_URL"),
        ("service.example", "not an http:// or https:// address"),
        ("ftp://service.example", "not an http:// or https:// address"),
        ("https://", "not an http:// or https:// address"),
        ("https://service.example:x", "not a URL"),
        ("https://service.example:0", "not an http:// or https:// address"),
        ("https://service.example/?a=1", "query"),
        ("https://service.example/#f", "fragment"),
        ("https://service.example/a\r\nX: y", "control character"),
        ("https://service example", "space"),
        ("https://[::1", "not a URL"),
        ("https://b\u00fccher..example", "not the name of a host"),
        (r"https://service\example", "not the name of a host"),
        ("https://service,example", "not the name of a host"),
    ],
)
def test_an_address_that_cannot_be_used_is_named(given, words):
    with pytest.raises(ConfigurationError, match=words):
        Client("key", given)


@pytest.mark.parametrize("key", ["secret\n", "sec ret", "secrét", "secret\r\nX-Evil: 1"])
def test_a_key_that_a_header_cannot_carry_is_refused_and_not_repeated(key):
    with pytest.raises(ConfigurationError, match="api_key") as caught:
        Client(key, "https://service.example")
    assert "sec" not in str(caught.value).replace("line end", "")


# It looks like nothing that is an address, as the keys of services do.
CANARY = "sk-Canary.4f9a2b77c1d04e3f"


@pytest.mark.parametrize(
    ("key", "url", "words"),
    [
        ("https://service.example/public/v1", CANARY, "changed places"),
        ("key", CANARY, "it may be a key"),
        ("key", CANARY.lower().replace(".", ""), "it may be a key"),
        ("key", f"ftp://service.example/{CANARY}", "it may be a key"),
        ("key", f"https://service.example/?key={CANARY}", "query"),
        ("key", f"https://service.example/#{CANARY}", "fragment"),
        ("key", f"https://me:{CANARY}@service.example", "user name or password"),
        ("key", f"https://me:{CANARY}@ho\u2100st", "not a URL"),
        ("key", f"https://service.example:{CANARY}", "not a URL"),
        ("key", f"me:{CANARY}@service.example", "it may be a key"),
    ],
)
def test_a_key_in_the_place_of_an_address_is_refused_and_not_repeated(key, url, words):
    with pytest.raises(ConfigurationError, match=words) as caught:
        Client(key, url)
    assert CANARY.lower()[:9] not in str(caught.value).lower()


def test_an_address_without_its_scheme_is_repeated_with_it():
    with pytest.raises(ConfigurationError, match=r"mean http://127\.0\.0\.1:8700/public/v1\?"):
        Client("key", "127.0.0.1:8700/public/v1")
    with pytest.raises(ConfigurationError, match=r"mean https://service\.example\?"):
        Client("key", "service.example")


def test_a_secret_is_taken_as_well_as_a_string():
    assert Client(SecretStr("key"), "https://service.example")


def test_a_secret_shows_nothing_and_equals_its_copy():
    secret = Secret("hidden-word")
    copied = pickle.loads(pickle.dumps(secret))
    assert "hidden-word" not in f"{secret!r} {secret} {[secret]}"
    assert copied.get_secret_value() == "hidden-word"
    assert {secret: 1}[copied] == 1
    assert secret != Secret("another")
    assert secret != "hidden-word"


@pytest.mark.parametrize(
    "options",
    [
        *(
            {"timeout": one}
            for one in (0, -1, True, float("nan"), float("inf"), "60", 1e10, 10**400)
        ),
        *({"max_retries": one} for one in ("2", -1, 1.5, True)),
        *({"verify": one} for one in (None, "", 1, "/nowhere/ca.pem")),
        *({"headers": {name: "a"}} for name in ("X-API-Key", "content-length", "a b", "")),
        *({"headers": one} for one in ("X-Team: a", {"X-Team": "a\r\nb"}, {"X-Team": "é"}, 1)),
        {"ping": "no"},
        *({"api_key": one} for one in (b"key", [])),
        *({"base_url": one} for one in (b"https://a.example", "https://a..b")),
        *({"base_url": f"https://{'a' * 64}.example"}, {"upload_encoding": "base64"}),
    ],
    ids=lambda options: str(options)[:40],
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_option_that_cannot_be_used_is_named(kind, options):
    with refused(*options):
        kind(**{"api_key": "key", "base_url": "https://service.example", **options})


@pytest.mark.parametrize(("timeout", "shown"), [(-1, "not -1."), ("-1", "not '-1'.")])
def test_a_wrong_number_is_shown_as_it_was_given(timeout, shown):
    with pytest.raises(ConfigurationError) as caught:
        Client("key", "https://service.example", timeout=timeout)
    assert str(caught.value).endswith(shown)


@pytest.mark.parametrize("options", [{"timeout": 0}, {"max_retries": -1}])
def test_a_client_with_other_limits_checks_them(options):
    with Client("key", "https://service.example") as client, pytest.raises(ConfigurationError):
        client.with_options(**options)


def test_an_unencrypted_address_of_another_machine_warns_at_the_callers_line():
    with pytest.warns(InsecureTransportWarning, match=r"service\.example") as caught:
        Client("key", "http://service.example")
    assert caught[0].filename == __file__


def test_an_unencrypted_address_of_this_machine_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Client("key", "http://127.0.0.1:1")
        Client("key", "http://app.localhost:1")


def test_an_empty_secret_is_no_key():
    with (
        Client(SecretStr(""), "https://service.example") as client,
        refused("api_key"),
    ):
        create(client)


HEADERS = {"X-Gateway-Key": "of-the-gateway", "User-Agent": "nightly/1"}


@pytest.mark.parametrize(
    "headers", [HEADERS, [Header(name=n, value=v) for n, v in HEADERS.items()]]
)
def test_headers_of_the_callers_go_with_each_request_and_stand_in_no_repr(headers):
    service = MemoryService(collections=["col_1"], extensions={"idempotency"})
    client = Client(KEY, "https://a.test", transport=service.transport, headers=headers)
    create(client.with_options(timeout=5))
    for request in (*service.pings, *service.requests):
        sent = {name.lower(): value for name, value in request.headers.items()}
        assert (sent["x-api-key"], sent["x-gateway-key"]) == (KEY, "of-the-gateway")
        assert sent["user-agent"] == "nightly/1"
    assert "of-the-gateway" not in f"{client!r} {client._configuration!r} {vars(client)!r}"
    kept = Client(KEY, "https://a.test", headers=headers)
    assert pickle.loads(pickle.dumps(kept))._configuration == kept._configuration


def test_where_no_ping_comes_through_none_is_sent_and_the_rest_is(tmp_path):
    service = MemoryService(collections=["col_1"], extensions={"sync", "sources", "idempotency"})
    with Client(KEY, "https://a.test", transport=service.transport, ping=False) as client:
        create(client)
        assert client.extensions() == {}
        report = ingest(
            client,
            [Text(name="a", content="A")],
            collections="col_1",
            ledger=tmp_path / "ledger.db",
        )
    assert (report.created, len(service.requests), service.pings) == (1, 2, [])
