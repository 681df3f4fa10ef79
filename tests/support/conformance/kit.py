"""A service under test, told from outside: what all tests of its requirements send and compare."""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from knowledge_bot import Client, HTTPRequest
from knowledge_bot._responses import LARGEST_ANSWER, retry_after_seconds
from knowledge_bot._uploads import Upload

_PENDING = ("pending", "processing")
STATES = (*_PENDING, "ready", "failed")
TEXT = "The tests of conformance wrote this."


def has(found: Mapping[str, Any], **wanted: Any) -> None:
    """Check that fields have these values, or are of these types."""
    for name, value in wanted.items():
        there = type(found[name]) if isinstance(value, type) else found[name]
        assert there == value, f"{name} is {found[name]!r}, not {value!r}"


class Replied(NamedTuple):
    """What came back, as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found.get("value", found) if isinstance(found, dict) else {}

    def done(self) -> Any:
        """Return its object, if the service did what was asked for."""
        told = f"answered {self.status} {self.value.get('code', '')}".strip()
        assert 200 <= self.status < 300, told
        return self.value

    def refused(self, status: int, code: str) -> None:
        """Check that the service refused, and with these words."""
        found = f"{self.status} {self.value.get('code', '')}"
        assert found == f"{status} {code}", f"answered {found}, not {status} {code}"

    def repeats(self, first: "Replied") -> None:
        """Check that it is the first answer once more."""
        assert self.done().get("id") == first.done()["id"], "acted a second time"
        same = (self.status, self.body) == (first.status, first.body)
        assert same, "the same request is answered with another status or body"


def key_header(key: str) -> tuple[str, str]:
    """Return the header that carries a key."""
    return "Idempotency-Key", key


@dataclass
class Kit:
    """A service under test, and what was made there."""

    client: Client
    collection: str
    bot: str | None
    wait: float
    second: Client | None = None
    limited: Client | None = None
    made: list[str] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)

    def announced(self, extension: str, parameter: str | None = None) -> Mapping[str, Any]:
        """Return the parameters of an extension; what it does not announce is not tested."""
        parameters = self.client.extensions().get(extension)
        if parameters is None or not (parameter is None or parameters.get(parameter)):
            pytest.skip(f"{extension} is not announced" + f" with {parameter}" * bool(parameter))
        return parameters

    def send(
        self,
        method: str,
        path: str,
        fields: Mapping[str, Any] | None = None,
        *headers: tuple[str, str],
        body: bytes | None = None,
        client: Client | None = None,
    ) -> Replied:
        """Send a request as it is, and return its answer, whatever it is.

        What is asked too often is asked again later: a limit of requests is no fault.
        """
        client = client or self.client
        connections = client._connections
        body = body if fields is None else json.dumps({"value": fields}).encode()
        usual = {**dict(connections.headers()), "Accept-Encoding": "identity"}
        if body is not None:
            usual |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        sent = [one for one in usual.items() if one[0] not in dict(headers)] + [*headers]
        timeout, url = client._configuration.timeout, client.base_url + path
        request = HTTPRequest(method, url, sent, body, timeout, LARGEST_ANSWER)
        deadline, pause = time.monotonic() + self.wait, 0.0
        while True:
            time.sleep(pause)
            response = connections.transport.send(request)
            asked_for = retry_after_seconds(response.headers.get("retry-after"))
            pause = 1.0 if asked_for is None else asked_for
            if response.status != 429 or time.monotonic() + pause > deadline:
                break
        answer = Replied(response.status, response.headers, response.body)
        if answer.status < 300 and f"{method} {path}".startswith(("POST /sources", "PUT /sync")):
            source = answer.value.get("source") or answer.value
            self.made = [*dict.fromkeys([*self.made, str(source.get("id"))])]
        return answer

    def origin(self) -> str:
        """Return the name of a new origin, which is deleted at the end."""
        self.origins.append(f"conformance {os.urandom(4).hex()}")
        return self.origins[-1]

    def text(self, content: str = TEXT, name: str = "") -> dict[str, Any]:
        """Return the fields of a text."""
        name = name or f"conformance {os.urandom(4).hex()}"
        return {"name": name, "collections": [self.collection], "content": content}

    def add(self, text: Any = None, *keys: str, client: Client | None = None) -> Replied:
        """Create a source from a text."""
        text = text or self.text()
        return self.send("POST", "/sources/write", text, *map(key_header, keys), client=client)

    def upload(
        self,
        method: str,
        path: str,
        text: Any,
        *headers: tuple[str, str],
        filename: str | None = None,
    ) -> Replied:
        """Send a text as a file; the boundary of its form is random."""
        fields = {name: of for name, of in text.items() if name != "content"}
        file = text["content"].encode()
        upload = Upload.prepare(
            fields, file, filename=filename, content_type=None, on_progress=None
        )
        form = upload.open("value")
        kind = "Content-Type", form.content_type
        return self.send(method, path, None, kind, *headers, body=form.whole)

    def ask(self, question: str, *headers: tuple[str, str]) -> Replied:
        """Ask the bot."""
        if self.bot is None:
            pytest.skip("there is no bot")
        return self.send("POST", "/messages", {"bot_id": self.bot, "content": question}, *headers)

    def listed(self, name: str, query: str = "") -> Any:
        """Return a page of the sources with this name."""
        return self.send("GET", f"/sources?name={quote(name)}{query}").done()

    def until_ready(self, path: str, look: Callable[[Any], None] = lambda _source: None) -> Any:
        """Wait until a source is ready or has failed, and return it; look at it meanwhile."""
        deadline = time.monotonic() + self.wait
        while True:
            found = self.send("GET", path).done()
            look(found)
            if found["status"] not in _PENDING:
                return found
            assert time.monotonic() < deadline, f"still {found['status']} after {self.wait:g} s"
            time.sleep(0.02)

    def managed(self, content: str = TEXT, needs: str | None = "manage") -> tuple[Any, str]:
        """Create a source, and return it when it is ready, and its path."""
        self.announced("sources", needs)
        path = f"/sources/{self.add(self.text(content)).done()['id']}"
        return self.until_ready(path), path

    def passages(self, query: str, **more: Any) -> Any:
        """Search, in the collection unless another place is named, and return what was found."""
        fields = {"query": query, "collections": [self.collection], **more}
        return self.send("POST", "/search", fields).done()["data"]

    def passage(self, word: str) -> Any:
        """Add a text with a word that is nowhere else, and return its passage when it is found."""
        text = self.text(f"The colour of the {word} is violet.", f"conformance {word}")
        source, deadline = self.add(text).done(), time.monotonic() + self.wait
        found: list[Any] = []
        while not found:
            assert time.monotonic() < deadline, f"it is not found after {self.wait:g} s"
            listed = self.passages(f"What colour has the {word}?")
            found = [one for one in listed if one["source_id"] == source["id"]]
            time.sleep(0.02)
        has(found[0], id=str, name=text["name"], revision=str)
        return found[0]

    def delete_all(self) -> None:
        """Delete what was made; `made` are then those that cannot be deleted."""
        for origin in self.origins:
            self.send("DELETE", f"/sync/origins?origin={quote(origin)}")
        self.origins.clear()
        if not self.client.extensions().get("sources", {}).get("manage"):
            return
        for source_id in self.made.copy():
            answer = self.send("DELETE", f"/sources/{source_id}")
            # A 404 without this code may say that nothing can be deleted here.
            if answer.status == 204 or answer.value.get("code") == "unknown_source":
                self.made.remove(source_id)
