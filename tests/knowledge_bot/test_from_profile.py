"""A client of the service that `kbot login` saved."""

import pytest

from knowledge_bot import AsyncClient, Client, ConfigurationError
from refusals import refused

FILE = """
[default]
base_url = "https://home.test"
api_key = "key-of-home"

[open]
base_url = "https://open.test"
"""


@pytest.fixture
def saved(tmp_path, monkeypatch):
    file = tmp_path / "config.toml"
    file.touch(mode=0o600)
    file.write_text(FILE)
    monkeypatch.setenv("KBOT_CONFIG", str(file))
    monkeypatch.delenv("KBOT_PROFILE", raising=False)
    return file


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])  # as some editors write it
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_takes_the_address_and_the_key_of_a_profile(saved, kind, encoding, monkeypatch):
    saved.write_text(FILE.lstrip(), encoding)
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", "https://another.test")
    client = kind.from_profile(timeout=5)
    assert client.base_url == "https://home.test/public/v1"
    assert client._configuration.api_key.get_secret_value() == "key-of-home"
    assert client._configuration.timeout == 5


def test_what_is_missing_is_said_before_anything_is_sent(saved, tmp_path, monkeypatch):
    with pytest.raises(ConfigurationError, match="open"):
        Client.from_profile("open")  # without a key
    with pytest.raises(ConfigurationError, match="There are default, open"):
        Client.from_profile("defalt")
    monkeypatch.setenv("KBOT_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(ConfigurationError, match="kbot login"):
        Client.from_profile()


def test_a_client_without_an_address_names_the_way(monkeypatch):
    monkeypatch.delenv("KNOWLEDGE_BOT_BASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="from_profile"):
        Client()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("127.0.0.1:8700", "http://127.0.0.1:8700"),
        ("localhost:8700/public/v1", "http://localhost:8700/public/v1"),
        ("bots.example.com", "https://bots.example.com"),
    ],
)
def test_an_address_without_a_scheme_names_the_one_that_was_meant(typed, meant):
    with refused("base_url") as caught:
        Client("key", typed)
    assert meant in str(caught.value)
