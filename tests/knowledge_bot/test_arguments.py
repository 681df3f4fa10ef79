"""What is checked before anything is sent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_bot import Client, ConfigurationError, Delivery

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
    ("arguments", "words"),
    [
        ({"name": ""}, "name: is empty"),
        ({"name": "  "}, "name: is empty"),
        ({"name": 7}, "name: expected a string, not int"),
        ({"content": ""}, "content: is empty"),
        ({"content": b"bytes"}, "content: expected a string, not bytes"),
        ({"content": "\ud800"}, "surrogate"),
        ({"name": "\udfff"}, "surrogate"),
        ({"collections": []}, "at least one collection"),
        ({"collections": None}, "collections: expected ids, not NoneType"),
        ({"collections": ["col_1", 7]}, "collections: expected a string, not int"),
        ({"collections": "bot_1"}, "not an id of the form col_"),
        ({"collections": [["col_1"]]}, "collections: expected a string, not list"),
    ],
)
def test_a_text_source_is_checked_before_sending(arguments, words):
    with pytest.raises(ConfigurationError, match=words):
        Client.create_text_source(**{**GOOD, "content": "c", **arguments})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"url": ""}, "url: is empty"),
        ({"url": "example.org/page"}, "absolute address"),
        ({"url": "https://example.org/a b"}, "percent-encode"),
        ({"url": "https://example.org/\r\nX: y"}, "percent-encode"),
        ({"url": "https://[::1/page"}, "url: 'https://\\[::1/page' is not an address"),
        ({"url": "https://exa\u2100mple.org/"}, "is not an address"),
        ({"headers": {"X y": "v"}}, "not a header name"),
        ({"headers": {"": "v"}}, "not a header name"),
        ({"headers": {"X": "v\r\nY: z"}}, "line end"),
        ({"headers": {"X": 7}}, "headers: the value of 'X' is not a string but int"),
        ({"headers": {7: "v"}}, "headers: 7 is not a header name"),
        ({"headers": [{"name": "X", "value": "v"}]}, "headers: expected a mapping or Header"),
        ({"headers": "X: v"}, "headers: expected a mapping or Header"),
        ({"headers": 7}, "headers: expected a mapping or Header"),
    ],
)
def test_a_web_page_is_checked_before_sending(arguments, words):
    with pytest.raises(ConfigurationError, match=words):
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
