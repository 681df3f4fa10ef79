"""Requests and their judgement: one table for the service from memory and the embedded one."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from knowledge_bot.transcripts import Turn, render

KEY = {"X-API-KEY": "key"}
JSON = {**KEY, "Content-Type": "application/json"}


@dataclass(frozen=True)
class Judged:
    """A request, its status by the interface, and `strict`, that by the embedded service.

    `bot` and `collection` stand in it for ids that the service has.
    """

    method: str
    path: str
    status: int
    strict: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: dict(JSON))

    def sent_to(self, bot: str, collection: str) -> tuple[str, bytes]:
        """Return path and body with the ids of a service."""
        body = self.body.replace(b"{bot}", bot.encode())
        return self.path.replace("{bot}", bot), body.replace(b"{collection}", collection.encode())


def _sent(path: str, status: int, strict: int | None = None, **fields: Any) -> Judged:
    body = json.dumps({"value": fields}).encode()
    return Judged("POST", path, status, status if strict is None else strict, body)


def _ask(status: int, strict: int | None = None, **fields: Any) -> Judged:
    return _sent("/messages", status, strict, **{"bot_id": "{bot}", "content": "When?", **fields})


def _of(path: str, **defaults: Any) -> Callable[..., Judged]:
    def source(status: int, strict: int | None = None, **fields: Any) -> Judged:
        known = {"name": "n", "collections": ["{collection}"], **defaults}
        return _sent(path, status, strict, **{**known, **fields})

    return source


_write, _page = _of("/sources/write", content="c"), _of("/sources/webpage", url="https://a.example")


def _form(*parts: tuple[str, bytes], status: int, ends: bool = True) -> Judged:
    content = b"".join(b"--b\r\n%b\r\n\r\n%b\r\n" % (head.encode(), body) for head, body in parts)
    headers = {**KEY, "Content-Type": "multipart/form-data; boundary=b"}
    body = content + (b"--b--\r\n" if ends else b"")
    return Judged("POST", "/sources/upload", status, status, body, headers)


_FIELD = 'Content-Disposition: form-data; name="%s"'
_VALUE = _FIELD % "value", json.dumps({"name": "n", "collections": ["{collection}"]}).encode()
_FILE = 'Content-Disposition: form-data; name="file"; filename="a.eml"', b"From: a\r\n\r\nAt nine."
_BARE = json.dumps({"bot_id": "{bot}", "content": "When?"}).encode()


def _transcript(characters: int) -> str:
    """A message of so many characters, most of them in the turn before its question."""
    filled = [Turn("user", "a"), Turn("assistant", ""), Turn("user", "When?")]
    room = characters - len(render(filled))
    return render([Turn("user", "a" * (room + 1)), *filled[1:]])


def _typed(content_type: str, status: int) -> Judged:
    body = b'{"value":' + _BARE + b"}"
    headers = {**KEY, **({"Content-Type": content_type} if content_type else {})}
    return Judged("POST", "/messages", status, status, body, headers)


CALLS = {
    "ping": Judged("GET", "/ping", 200, 200, headers={}),
    "lists": Judged("GET", "/collections", 200, 200),
    "conversations": Judged("GET", "/bots/{bot}/conversations", 200, 200),
    "conversations of nobody": Judged("GET", "/bots/bot_nobody/conversations", 404, 404),
    "nothing there": Judged("GET", "/nothing", 404, 404),
    "POST of a list": Judged("POST", "/collections", 405, 405, b"{}"),
    "POST of a ping": Judged("POST", "/ping", 405, 405, b"{}"),
    "GET of messages": Judged("GET", "/messages", 405, 405),
    "PUT of a source": Judged("PUT", "/sources/write", 405, 405, b"{}"),
    "no key": Judged("POST", "/messages", 401, 401, _BARE, {"Content-Type": "application/json"}),
    "a question": _ask(200),
    "a question without its wrapper": Judged("POST", "/messages", 400, 400, _BARE),
    "a question as text": _typed("text/plain", 400),
    "a question of no type": _typed("", 400),
    "a question with a charset": _typed("Application/JSON; charset=utf-8", 200),
    "no JSON": Judged("POST", "/messages", 400, 400, b"{"),
    "a list": Judged("POST", "/messages", 400, 400, b'{"value": []}'),
    "no body": Judged("POST", "/messages", 400, 400),
    "no content": _ask(400, content=None),
    "a blank question": _ask(400, content=" "),
    "no bot": _ask(400, bot_id="bot_nobody"),
    "a bot that is no text": _ask(400, bot_id=["{bot}"]),
    "a conversation that is no text": _ask(400, conversation_id=["conv_1"]),
    "no such conversation": _ask(400, conversation_id="conv_1"),
    "a question of 20,000 characters": _ask(200, content="a" * 20_000),
    "a question of 20,001 characters": _ask(200, 400, content="a" * 20_001),
    "a message of 200,000 characters": _ask(200, content=_transcript(200_000)),
    "a message of 200,001 characters": _ask(200, 400, content=_transcript(200_001)),
    "a question with a NUL": _ask(200, 400, content="a\0b"),
    "a text": _write(200),
    "a blank name": _write(400, name=" "),
    "a name that is no text": _write(400, name=7),
    "a name of two lines": _write(200, 400, name="a\nb"),
    "a name with a NUL": _write(200, 400, name="a\0b"),
    "a name that turns": _write(200, 400, name="a\u202eb"),
    "a name of 1,000 characters": _write(200, name="a" * 1000),
    "a name of 1,001 characters": _write(200, 400, name="a" * 1001),
    "a text with a NUL": _write(200, 400, content="a\0b"),
    "no collection": _write(400, collections=[]),
    "a collection that is no list": _write(400, collections="{collection}"),
    "a collection that is no text": _write(400, collections=[{"id": "{collection}"}]),
    "an unknown collection": _write(400, collections=["{collection}", "col_nothing"]),
    "1,000 collections": _write(200, collections=["{collection}"] * 1000),
    "1,001 collections": _write(200, 400, collections=["{collection}"] * 1001),
    "a page": _page(200, headers=[{"name": "A", "value": "b"}]),
    "a page without headers": _page(200, headers=None),
    "a page with headers of another form": _page(400, headers={"A": "b"}),
    "a page with a header without a value": _page(400, headers=[{"name": "A"}]),
    "a page at ftp": _page(200, 400, url="ftp://a.example/x"),
    "a page at a file": _page(200, 400, url="file:///etc/passwd"),
    "a page behind a login": _page(200, 400, url="https://me:word@a.example/x"),
    "a page without a host": _page(200, 400, url="https:///x"),
    "a page with 100 headers": _page(200, headers=[{"name": "A", "value": "b"}] * 100),
    "a page with 101 headers": _page(200, 400, headers=[{"name": "A", "value": "b"}] * 101),
    "a page of 8,192 characters": _page(200, url="https://a.example/" + "x" * 8174),
    "a page of 8,193 characters": _page(200, 400, url="https://a.example/" + "x" * 8175),
    "a file": _form(_VALUE, _FILE, status=200),
    "a file before its fields": _form(_FILE, _VALUE, status=200),
    "a file with plain fields": _form(
        (_FIELD % "name", b"n"), (_FIELD % "collections", b"{collection}"), _FILE, status=200
    ),
    "a file without fields": _form(_FILE, status=400),
    "fields without a file": _form(_VALUE, status=400),
    "a form that does not end": _form(_VALUE, _FILE, status=400, ends=False),
    "a form without a boundary": Judged(
        *("POST", "/sources/upload", 400, 400, b"--b--"),
        {**KEY, "Content-Type": "multipart/form-data"},
    ),
    "a file as JSON": Judged("POST", "/sources/upload", 400, 400, b'{"value": {}}'),
}
