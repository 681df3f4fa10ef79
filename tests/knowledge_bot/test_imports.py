"""What importing the package costs."""

import pytest

from calls import SOURCE
from loaded_modules import loaded_by
from scripted_server import answer


def test_importing_the_package_loads_nothing_heavy():
    loaded = loaded_by("import knowledge_bot")
    assert len(loaded) <= 80
    assert not loaded & {"httpx", "pydantic", "aiohttp", "click", "sqlalchemy", "asyncio", "ssl"}


def test_the_checks_are_loaded_by_whoever_uses_them():
    loaded = loaded_by("import knowledge_bot; from knowledge_bot import Client; Client")
    assert not [name for name in loaded if name.startswith("knowledge_bot.checks")]
    loaded = loaded_by("import knowledge_bot.checks")
    assert not loaded & {"pydantic", "httpx", "aiohttp", "regex", "xml.etree.ElementTree"}


def test_an_error_class_is_had_without_the_http_library():
    assert not loaded_by("from knowledge_bot import APIError") & {"httpx", "pydantic", "aiohttp"}


SLOW = {
    *("pydantic", "pydantic_core", "certifi", "opentelemetry", "urllib.request", "email"),
    *("httpx", "httpcore", "h11", "anyio", "aiohttp"),
}


@pytest.mark.parametrize(
    "use",
    [
        "Client('k', 'https://h.example')",
        "AsyncClient('k', 'https://h.example')",
        "Client('k', 'http://127.0.0.1:9').with_options(timeout=9).to_async()",
        "Client('k', 'https://h.example').close()",
        "Client.upload_source(name='n', collections=['col_1'], file=b'x')",
    ],
)
def test_a_client_that_sends_nothing_loads_nothing_that_is_slow(monkeypatch, use):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    loaded = loaded_by(f"from knowledge_bot import AsyncClient, Client; {use}")
    assert not loaded & SLOW
    assert len(loaded - loaded_by("import asyncio, ssl")) <= 40


def test_a_call_that_nobody_traces_does_not_load_opentelemetry(scripted):
    url = scripted(answer(body=SOURCE)).url
    call = f"Client('k', {url!r}).create_text_source(name='n', collections='col_1', content='x')"
    assert "opentelemetry" not in loaded_by(f"from knowledge_bot import Client; {call}")


@pytest.mark.parametrize(("items", "slow"), [(2, False), (500, True)])
def test_a_run_with_few_items_does_not_load_aiohttp(scripted, tmp_path, items, slow):
    url = scripted(reply_to=lambda _: answer(body=SOURCE)).url
    texts = f"[Text(name=str(number), content='x') for number in range({items})]"
    ledger = str(tmp_path / "ledger.db")
    run = f"ingest(Client('k', {url!r}), {texts}, collections='col_1', ledger={ledger!r})"
    loaded = loaded_by(
        f"from knowledge_bot import Client; from knowledge_bot.ingest import *; {run}"
    )
    assert ("aiohttp" in loaded) == slow
