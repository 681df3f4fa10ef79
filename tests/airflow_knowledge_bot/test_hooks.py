"""What a connection means, and what the test button says."""

import json

import airflow
import pytest

from airflow_knowledge_bot.hooks import KnowledgeBotHook
from calls import KEY
from knowledge_bot import ConfigurationError, UnsupportedError
from knowledge_bot._endpoints import Endpoints
from knowledge_bot.testing import MemoryService


@pytest.mark.parametrize(
    ("parts", "base_url"),
    [
        ({"host": "https://svc.example/public/v1"}, "https://svc.example/public/v1"),
        ({"host": "svc.example"}, "https://svc.example"),
        ({"host": "svc.example/public/v2", "port": 8443}, "https://svc.example:8443/public/v2"),
        ({"host": "svc.example", "schema": "http", "port": 80}, "http://svc.example:80"),
        ({"host": "svc.example", "schema": "HTTPS"}, "https://svc.example"),
        ({"host": "http://svc.example:1", "port": 2}, "http://svc.example:1"),
    ],
)
def test_a_base_url_is_put_together_from_host_schema_and_port(monkeypatch, parts, base_url):
    monkeypatch.setenv("AIRFLOW_CONN_SVC", json.dumps({"password": KEY, **parts}))
    assert KnowledgeBotHook("svc").settings.base_url == base_url


@pytest.mark.parametrize(
    ("uri", "base_url"),
    [
        (
            f"knowledge-bot://:{KEY}@svc.example:444/public%2Fv1",
            "https://svc.example:444/public/v1",
        ),
        (f"knowledge-bot://:{KEY}@https%3A%2F%2Fsvc.example%2Fv1", "https://svc.example/v1"),
    ],
)
def test_a_connection_given_as_a_uri_means_the_same(monkeypatch, uri, base_url):
    monkeypatch.setenv("AIRFLOW_CONN_SVC", f"{uri}?timeout=7.5&verify=false&max_retries=0")
    settings = KnowledgeBotHook("svc").settings
    assert settings.base_url == base_url
    assert settings.api_key.get_secret_value() == KEY
    assert (settings.extra.timeout, settings.extra.verify, settings.extra.max_retries) == (
        7.5,
        False,
        0,
    )


def test_what_the_form_left_empty_has_its_default(connect):
    connect("https://svc.example", timeout=None, verify="", default_bot_id="")
    extra = KnowledgeBotHook().settings.extra
    assert (extra.timeout, extra.max_retries, extra.verify) == (60.0, 2, True)
    assert extra.default_bot_id is None


def test_a_field_that_nothing_reads_is_named_once_and_not_quoted(connect, caplog):
    connect("https://svc.example", timout=7, extra__knowledge_bot__timeout="a-secret")
    KnowledgeBotHook().get_conn()
    (said,) = [record.getMessage() for record in caplog.records]
    assert "['extra__knowledge_bot__timeout', 'timout']" in said
    assert "a-secret" not in said


@pytest.mark.parametrize(
    ("extra", "field"),
    [
        ({"timeout": "soon"}, "timeout"),
        ({"timeout": 0}, "timeout"),
        ({"max_retries": 1.5}, "max_retries"),
        ({"verify": {"a": 1}}, "verify"),
        ({"default_bot_id": ["bot_1"]}, "default_bot_id"),
    ],
)
def test_an_extra_of_the_wrong_type_is_named_and_not_quoted(connect, extra, field):
    connect("https://svc.example", **extra)
    with pytest.raises(ConfigurationError, match=f"'knowledge_bot_default'.*'{field}'") as caught:
        KnowledgeBotHook().get_conn()
    assert "soon" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "password", "said"),
    [
        (None, KEY, "has no host"),
        ("https://svc.example", None, "has no password"),
        ("ftp://svc.example", KEY, "base_url"),
        ("https://svc.example:port", KEY, "not a URL"),
        (f"https://svc.example:{KEY}", KEY, "not a URL"),
        ("https://[svc.example", KEY, "not a URL"),
        ("https://svc.example", f"{KEY}\n", "api_key"),
    ],
)
def test_a_connection_that_cannot_work_is_named(connect, monkeypatch, host, password, said):
    # Another service's key must not be taken from the worker's environment instead.
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key-of-another-service")
    connect(host, password=password)
    with pytest.raises(ConfigurationError, match=f"'knowledge_bot_default'.*{said}") as caught:
        KnowledgeBotHook().get_conn()
    assert KEY not in str(caught.value)


@pytest.mark.skipif(
    airflow.__version__.startswith("3.1."),
    reason="Airflow 3.1 does not find a connection whose extra is a list",
)
def test_an_extra_that_is_not_an_object_is_refused(monkeypatch):
    monkeypatch.setenv(
        "AIRFLOW_CONN_SVC", '{"host": "svc.example", "password": "some-key", "extra": "[1, 2]"}'
    )
    with pytest.raises(ConfigurationError, match="not a JSON object"):
        KnowledgeBotHook("svc").get_conn()


def test_the_client_is_made_once_and_carries_the_connection_s_values(good):
    hook = KnowledgeBotHook()
    with hook.get_conn() as client:
        client.ping()
        assert hook.get_conn() is client
    assert [ping.headers["x-api-key"] for ping in good.pings] == [KEY]


def test_making_a_hook_looks_nothing_up():
    KnowledgeBotHook("there_is_no_such_connection")


def test_no_text_made_of_a_hook_holds_the_key(connect):
    connect("https://svc.example")
    hook = KnowledgeBotHook()
    texts = (repr(hook.settings), str(hook.settings), repr(hook.get_conn()), repr(vars(hook)))
    assert not any(KEY in text for text in texts)


def test_the_test_button_tells_a_connection_that_is_missing_or_wrong(connect):
    assert KnowledgeBotHook("there_is_no_such_connection").test_connection()[0] is False
    connect("https://svc.example", timeout="soon")
    good, said = KnowledgeBotHook().test_connection()
    assert not good
    assert "'timeout'" in said


# The endpoints ------------------------------------------------------------------------------------


def test_the_endpoints_return_plain_values_with_the_connection_s_defaults(connected, tmp_path):
    hook = KnowledgeBotHook()
    (tmp_path / "prices.md").write_text("A day ticket costs seven euros.")
    assert hook.ping() is True
    assert hook.list_bots() == [{"id": "bot_guide", "name": "bot_guide"}]
    assert {"id": "col_house", "name": "col_house"} in hook.list_collections()
    text = hook.create_text_source("Rules", "Dogs wait outside.", collections=["col_house"])
    file = hook.upload_source("Prices", str(tmp_path / "prices.md"))
    page = hook.create_webpage_source("Page", "http://127.0.0.1:1/", headers={"X-A": "b"})
    for source, name in ((text, "Rules"), (file, "Prices"), (page, "Page")):
        assert source["name"] == name
        assert source["collections"] == [{"id": "col_house", "name": "col_house"}]
        assert set(source) == {"id", "name", "status", "collections", "created_at"}
    message = hook.send_message("What does a day ticket cost?")
    assert set(message) == {"id", "answer", "conversation_id", "created_at"}
    again = hook.send_message("And where do dogs wait?", conversation_id=message["conversation_id"])
    assert again["conversation_id"] == message["conversation_id"]
    assert [each["id"] for each in hook.list_conversations()].count(again["conversation_id"]) == 1
    json.dumps([text, file, page, message])  # as a task hands them on


@pytest.fixture
def extended(connected):
    """The same service with all extensions."""
    names = ("idempotency", "passages", "sources")
    service = MemoryService(connected.bots, connected.collections, extensions=names)
    with service.standing_in():
        yield service


def test_the_endpoints_of_extensions_return_plain_values_too(extended):
    hook = KnowledgeBotHook()
    assert hook.extensions()["sources"]["manage"] is True
    made = hook.create_text_source("Ferry", "The ferry leaves at ten.")
    found = hook.get_source(made["id"])
    assert found["ready_revision"] == found["revision"] == made["revision"]
    assert hook.list_sources(name="Ferry", status=["ready"], collection=["col_house"]) == [found]
    (passage,) = hook.search("When does the ferry leave?", collections=["col_house"])
    assert (passage["source_id"], passage["text"]) == (made["id"], "The ferry leaves at ten.")
    assert hook.get_passage(passage["id"])["text"] == passage["text"]
    for _ in range(2):
        hook.delete_source(made["id"])
    assert hook.list_sources() == []


def test_the_hook_has_each_endpoint_of_the_client():
    endpoints = {name for name in vars(Endpoints) if not name.startswith("_")}
    assert endpoints - set(dir(KnowledgeBotHook)) == set()


def test_the_hook_says_so_where_there_are_no_such_endpoints(good):
    with pytest.raises(UnsupportedError, match="'sources'"):
        KnowledgeBotHook().get_source("src_1")
    assert KnowledgeBotHook().extensions() == {}
    assert good.requests == []


def test_what_neither_the_call_nor_the_connection_names_is_reported_before_anything_is_sent(good):
    hook = KnowledgeBotHook()
    for call, result in (
        (lambda: hook.send_message("?"), "bot_id: .* has no 'default_bot_id'"),
        (hook.list_conversations, "bot_id: .* has no 'default_bot_id'"),
        (lambda: hook.create_text_source("n", "c"), "collections: .* 'default_collection_id'"),
        (lambda: hook.create_text_source("n", "", ["col_1"]), "content"),
    ):
        with pytest.raises(ConfigurationError, match=result):
            call()
    assert good.requests == []


def test_a_client_may_be_asked_for_again_after_it_was_closed(connected):
    hook = KnowledgeBotHook()
    for _ in range(2):
        with hook.get_conn() as client:
            assert client.ping()
    assert hook.ping()
    assert hook.get_conn() is hook.get_conn()
