"""What is checked before anything is sent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from knowledge_bot import Client, ConfigurationError, Delivery
from knowledge_bot.checks import load_questions
from knowledge_bot.ingest import File, Ledger
from knowledge_bot.origins import Folder
from refusals import refused

GOOD = {"name": "n", "collections": "col_1"}


@pytest.mark.parametrize(
    "identifier",
    [
        *["", "bot_", "col_1", "..", ".", "bot_1 ", "bot_ 1", "bot_\n", "bot_\x00", "../bot_1"],
        *["bot_..", "bot_.", "bot_a/b", "bot_a\\b", "bot_a?x=1", "bot_a#f", "bot_a%2Fb"],
        *["bot_a\u2028", None, 7],
    ],
)
def test_an_id_of_another_form_is_refused_before_sending(identifier):
    with pytest.raises(ConfigurationError, match="bot_id") as caught:
        Client.list_conversations(identifier)
    assert caught.value.delivery is Delivery.NOT_DELIVERED
    with pytest.raises(ConfigurationError, match="bot_id"):
        Client.send_message(bot_id=identifier, content="c")


def test_an_argument_that_is_missing_is_named_with_the_method_that_a_user_called():
    with Client("key", "https://service.example") as client:
        for use in (client.create_text_source, Client.create_text_source):
            with pytest.raises(TypeError) as caught:
                use(name="n", collections="col_1")
            assert str(caught.value).startswith("create_text_source() missing")


def test_an_id_of_any_letters_is_quoted_in_the_path():
    assert Client.list_conversations("bot_1").path == "/bots/bot_1/conversations"
    assert Client.list_conversations("bot_ü.1").path == "/bots/bot_%C3%BC.1/conversations"


@pytest.mark.parametrize(
    "arguments",
    [
        *({"name": one} for one in ("", "  ", 7)),
        *({"content": one} for one in ("", b"bytes")),
        *({"collections": one} for one in ([], None, ["col_1", 7], "bot_1", [["col_1"]])),
    ],
    ids=ascii,
)
def test_a_text_source_is_checked_before_sending(arguments):
    with refused(*arguments):
        Client.create_text_source(**{**GOOD, "content": "c", **arguments})


@pytest.mark.parametrize("argument", ["name", "content"])
def test_half_of_a_surrogate_pair_is_no_text(argument):
    with pytest.raises(ConfigurationError):
        Client.create_text_source(**{**GOOD, "content": "c", argument: "\ud800"})


@pytest.mark.parametrize(
    "arguments",
    [
        *({"url": one} for one in ("", "example.org/page", "https://[::1/page")),
        *(
            {"url": f"https://{one}"}
            for one in ("e.org/a b", "e.org/\r\nX: y", "exa\u2100mple.org/")
        ),
        *({"headers": {name: "v"}} for name in ("X y", "", 7)),
        *({"headers": {"X": value}} for value in ("v\r\nY: z", 7)),
        *({"headers": one} for one in ([{"name": "X", "value": "v"}], "X: v", 7)),
    ],
    ids=ascii,
)
def test_a_web_page_is_checked_before_sending(arguments):
    with refused(*arguments):
        Client.create_webpage_source(**{**GOOD, "url": "https://example.org/", **arguments})


def test_the_value_of_a_header_stands_in_no_error():
    with pytest.raises(ConfigurationError) as caught:
        Client.create_webpage_source(
            **GOOD, url="https://example.org/", headers={"Authorization": "Bearer secret\n"}
        )
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("headers", [None, {}, []])
def test_no_headers_are_left_out_of_the_request(headers):
    request = Client.create_webpage_source(**GOOD, url="https://example.org/", headers=headers)
    assert set(json.loads(request.body)["value"]) == {"name", "collections", "url"}


@pytest.mark.parametrize(
    "url", ["https://example.org/", "http://host:8080/?q=ü", "ftp://host/file"]
)
def test_every_scheme_is_left_to_the_service_to_judge(url):
    request = Client.create_webpage_source(**GOOD, url=url)
    assert json.loads(request.body)["value"]["url"] == url


@given(name=st.text(min_size=1).filter(str.strip), content=st.text(min_size=1).filter(str.strip))
def test_every_text_arrives_as_it_was_given(name, content):
    request = Client.create_text_source(name=name, collections="col_1", content=content)
    assert json.loads(request.body) == {
        "value": {"name": name, "collections": ["col_1"], "content": content}
    }


def test_both_clients_document_each_operation():
    operations = ["ping", "list_bots", "send_message", "upload_source", "create_webpage_source"]
    assert all(getattr(Client, name).__doc__ for name in operations)
    assert Client("k", "https://h.example").send_message.__doc__ == Client.send_message.__doc__


@pytest.mark.parametrize("given", [7, {}, [], b"bytes", 1.5], ids=ascii)
def test_what_is_no_path_no_address_and_no_key_is_named(given, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.note("made", lambda note: note.update(it=True))
    for argument, call in (
        ("path", lambda: Folder(given)),
        ("marker", lambda: Folder(tmp_path, marker=given)),
        ("path", lambda: load_questions(given)),
        ("key", lambda: ledger.resolve(given, created=True)),
        ("service", lambda: list(ledger.gone(service=given))),
        ("ledger", lambda: Ledger(given)),
    ):
        with refused(argument):
            call()
    for argument in ("filename", "content_type", "on_progress"):
        with refused(argument):
            Client.upload_source(name="n", collections="col_1", file=b"x", **{argument: given})
    with pytest.raises(ValidationError):
        File(path=[given])


@pytest.mark.parametrize("given", [7, {}, [], ""], ids=ascii)
def test_the_collection_that_sources_are_listed_of_is_named(given):
    with refused("collection"):
        next(Client.list_sources(collection=given))
