"""`kbot conformance`: whether a service does what it announces, told from outside.

Each requirement of docs/extensions.md that can be seen through its interface is a short method of
`Kit`: its name is the requirement's id, and its docstring the text. The others are what all of them
send and compare with.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import click

from knowledge_bot import KnowledgeBotError
from knowledge_bot._extensions import HEADER, new_key, spoken
from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.ids import collection_ids
from knowledge_bot.cli.output import as_json_option, write_document, write_table
from knowledge_bot.cli.settings import Connection
from knowledge_bot.cli.terminal import write_stderr

if TYPE_CHECKING:
    from knowledge_bot import Bot, Client, Collection

_PENDING = ("pending", "processing")
_STATES = (*_PENDING, "ready", "failed")
_TEXT = "The conformance kit wrote this."

# How many requests come at once with one key.
_AT_ONCE = 8

# Older than any lifetime: the example of RFC 9562, born in February 2022.
_OLD_KEY = "017f22e2-79b0-7cc3-98c4-dc0c0c07"


class _ViolationError(Exception):
    """The service does not meet a requirement; the text says what it did."""


class _NotTestedError(Exception):
    """A requirement cannot be tested here; the text says why."""


class Result(NamedTuple):
    """What came of a requirement; `ok` is None where it was not tested."""

    id: str
    tier: str
    text: str
    ok: bool | None
    detail: str


def _expect(fact: object, otherwise: str) -> None:
    if not fact:
        raise _ViolationError(otherwise)


def _has(found: Mapping[str, Any], **wanted: Any) -> None:
    """Check that fields have these values, or are of these types."""
    for name, value in wanted.items():
        there = type(found[name]) if isinstance(value, type) else found[name]
        _expect(there == value, f"{name} is {found[name]!r}, not {value!r}")


class _Answer(NamedTuple):
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
        _expect(200 <= self.status < 300, told)
        return self.value

    def refused(self, status: int, code: str) -> None:
        """Check that the service refused, and with these words."""
        found = f"{self.status} {self.value.get('code', '')}"
        _expect(found == f"{status} {code}", f"answered {found}, not {status} {code}")

    def repeats(self, first: "_Answer") -> None:
        """Check that it is the first answer once more."""
        _expect(self.done().get("id") == first.done()["id"], "acted a second time")
        same = (self.status, self.body) == (first.status, first.body)
        _expect(same, "the same request is answered with another status or body")


def _key(key: str) -> tuple[str, str]:
    return "Idempotency-Key", key


@dataclass
class Kit:
    """A service under test, and what was made there."""

    client: "Client"
    collection: str
    bot: str | None
    wait: float
    second: "Client | None" = None
    made: list[str] = field(default_factory=list)

    def announced(self, extension: str, parameter: str | None = None) -> Mapping[str, Any]:
        """Return the parameters of an extension; what it does not announce is not tested."""
        parameters = self.client.extensions().get(extension)
        if parameters is None or not (parameter is None or parameters.get(parameter)):
            raise _NotTestedError("not announced")
        return parameters

    def send(
        self,
        method: str,
        path: str,
        fields: Mapping[str, Any] | None = None,
        *headers: tuple[str, str],
        body: bytes | None = None,
        client: "Client | None" = None,
    ) -> _Answer:
        """Send a request as it is, and return its answer, whatever it is.

        What is asked too often is asked again later: a limit of requests is no fault.
        """
        # Loaded here, since they load asyncio and ssl.
        from knowledge_bot import HTTPRequest
        from knowledge_bot._responses import LARGEST_ANSWER, retry_after_seconds

        client = client or self.client
        connections = client._connections  # noqa: SLF001 - the core's own
        body = body if fields is None else json.dumps({"value": fields}).encode()
        usual = {**dict(connections.headers()), "Accept-Encoding": "identity"}
        if body is not None:
            usual |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        sent = [one for one in usual.items() if one[0] not in dict(headers)] + [*headers]
        timeout, url = client._configuration.timeout, client.base_url + path  # noqa: SLF001
        request = HTTPRequest(method, url, sent, body, timeout, LARGEST_ANSWER)
        deadline, pause = time.monotonic() + self.wait, 0.0
        while True:
            time.sleep(pause)
            try:
                response = connections.transport.send(request)
            except Exception as error:  # noqa: BLE001 - of any transport
                told = f"{method} {path}: no answer: {type(error).__name__}"
                raise _ViolationError(told) from None
            pause = retry_after_seconds(response.headers.get("retry-after")) or 1.0
            if response.status != 429 or time.monotonic() + pause > deadline:
                break
        answer = _Answer(response.status, response.headers, response.body)
        if method == "POST" and path.startswith("/sources") and answer.status < 300:
            self.made = [*dict.fromkeys([*self.made, str(answer.value.get("id"))])]
        return answer

    def text(self, content: str = _TEXT, name: str = "") -> dict[str, Any]:
        """Return the fields of a text."""
        name = name or f"kbot conformance {os.urandom(4).hex()}"
        return {"name": name, "collections": [self.collection], "content": content}

    def add(self, text: Any = None, *keys: str, client: "Client | None" = None) -> _Answer:
        """Create a source from a text."""
        text = text or self.text()
        return self.send("POST", "/sources/write", text, *map(_key, keys), client=client)

    def upload(self, method: str, path: str, text: Any, *headers: tuple[str, str]) -> _Answer:
        """Send a text as a file; the boundary of its form is random."""
        from knowledge_bot._uploads import Upload  # which loads asyncio

        fields = {name: text[name] for name in ("name", "collections")}
        file = text["content"].encode()
        upload = Upload.prepare(fields, file, filename=None, content_type=None, on_progress=None)
        form = upload.open("value")
        kind = "Content-Type", form.content_type
        return self.send(method, path, None, kind, *headers, body=form.whole)

    def put(self, path: str, content: str, *tags: str) -> _Answer:
        """Replace a source with a text."""
        headers = [("If-Match", tag) for tag in tags]
        return self.send("PUT", f"{path}/write", self.text(content, "replaced"), *headers)

    def ask(self, question: str, *headers: tuple[str, str]) -> _Answer:
        """Ask the bot."""
        if self.bot is None:
            raise _NotTestedError("there is no bot")
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
            _expect(time.monotonic() < deadline, f"still {found['status']} after {self.wait:g} s")
            time.sleep(0.02)

    def managed(self, content: str = _TEXT, needs: str | None = "manage") -> tuple[Any, str]:
        """Create a source, and return it when it is ready, and its path."""
        self.announced("sources", needs)
        path = f"/sources/{self.add(self.text(content)).done()['id']}"
        return self.until_ready(path), path

    def replaced(self, source: Any, content: str, look: Callable[[], None] = lambda: None) -> Any:
        """Replace a ready source, and return it when it is ready again."""

        def seen(found: Any) -> None:
            _has(found, id=source["id"])
            _expect(found["revision"] != source["revision"], "it has the old revision")
            if found["status"] in _PENDING:  # so it is answered from the old one
                _has(found, ready_revision=source["revision"])
            look()

        path = f"/sources/{source['id']}"
        answer = self.put(path, content)
        seen(answer.done())
        _has(answer.headers, etag=f'"{answer.value["revision"]}"')
        return self.until_ready(path, seen)

    def interface_create(self) -> None:
        """A source has id, name, collections, status and created_at."""
        text = self.text()
        source = self.add(text).done()
        _expect(str(source["id"]).startswith("src_"), "its id does not begin with src_")
        _has(source, name=text["name"], created_at=int, status=str)
        _expect([one["id"] for one in source["collections"]] == text["collections"], "in others")

    def announcement_header(self) -> None:
        """The header of a ping is a dictionary of RFC 9651."""
        header = self.send("GET", "/ping").headers.get(HEADER)
        if header is None:
            raise _NotTestedError("nothing is announced")
        spoken(header)

    def idempotency_lifetime(self) -> None:
        """The announcement names a lifetime in seconds."""
        lifetime = self.announced("idempotency").get("lifetime")
        _expect(type(lifetime) is int and lifetime > 0, f"lifetime is {lifetime!r}")

    def idempotency_replay(self) -> None:
        """The same request with the same key gets the first answer again, and both repeat the key."""  # noqa: E501 - as it is printed
        key, text = new_key(), self.text()
        first, again = self.add(text, key), self.add(text, key)
        again.repeats(first)
        _expect("idempotent-replayed" not in first.headers, "the first answer is called a replay")
        _has(again.headers, **{"idempotent-replayed": "true"})
        for one in (first, again):
            echo = one.headers.get("idempotency-key") or ""
            _expect(echo.strip('"') == key, f"Idempotency-Key of an answer is {echo!r}")

    def idempotency_quotes(self) -> None:
        """A key in quotes is the same as without."""
        key, text = new_key(), self.text()
        first = self.add(text, f'"{key}"')
        self.add(text, key).repeats(first)

    def idempotency_parts(self) -> None:
        """Requests are compared by their parts, not by their bytes."""
        key, text = _key(new_key()), self.text()
        turned = json.dumps({"value": dict(reversed(text.items()))}, indent=1).encode()
        first = self.send("POST", "/sources/write", text, key)
        self.send("POST", "/sources/write", None, key, body=turned).repeats(first)
        key = _key(new_key())
        first = self.upload("POST", "/sources/upload", text, key)
        self.upload("POST", "/sources/upload", text, key).repeats(first)

    def idempotency_another_request(self) -> None:
        """Another request with a used key gets 422, and is not done."""
        key = new_key()
        self.add(None, key).done()
        self.add(self.text("Another text."), key).refused(422, "idempotency_key_reused")

    def idempotency_expired(self) -> None:
        """A UUIDv7 that is older than the lifetime gets 412, and is not done."""
        self.add(None, _OLD_KEY + os.urandom(2).hex()).refused(412, "idempotency_key_expired")

    def idempotency_odd_keys(self) -> None:
        """A key that is empty, too long or sent twice gets 400."""
        long, twice = os.urandom(128).hex(), (new_key(), new_key())
        odd = {"empty": ("",), "of 256 characters": (long,), "with a comma": ("a,b",)}
        for name, keys in (odd | {"sent twice": twice}).items():
            status = self.add(None, *keys).status
            _expect(status == 400, f"one that is {name} is answered with {status}")
        self.add(None, long[1:]).done()

    def idempotency_refusal_not_kept(self) -> None:
        """A key is free again where the API key was refused."""
        key, text, other = new_key(), self.text(), ("X-API-KEY", "no-key-of-this-service")
        status = self.send("POST", "/sources/write", text, _key(key), other).status
        if status not in (401, 403):
            raise _NotTestedError(f"a wrong API key is answered with {status}")
        self.add(text, key).done()

    def idempotency_account(self) -> None:
        """A key belongs to the account, not to the API key."""
        if self.second is None:
            raise _NotTestedError("name a second API key of the account with --second-profile")
        key, text = new_key(), self.text()
        first = self.add(text, key)
        self.add(text, key, client=self.second).repeats(first)

    def idempotency_at_once(self) -> None:
        """Of requests at once with one key one is done; none waits for ever."""
        key, text = new_key(), self.text()
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            answers = [*threads.map(lambda _: self.add(text, key), range(_AT_ONCE))]
        done = {one.value["id"] for one in answers if one.status < 300}
        _expect(len(done) == 1, "not exactly one source was made")
        for one in answers:
            if one.status >= 300:
                one.refused(409, "idempotency_key_in_use")
                _expect(one.headers.get("retry-after"), "Retry-After is missing with the 409")

    def idempotency_messages(self) -> None:
        """A message with a used key is not asked again."""
        key, question = _key(new_key()), "What is this about?"
        first = self.ask(question, key)
        self.ask(question, key).repeats(first)

    def sources_fields(self) -> None:
        """Every answer with a source has its state, and an ETag of its revision."""
        source = self.add().done()
        answer = self.send("GET", f"/sources/{source['id']}")
        for found in (source, answer.done()):
            _has(found, revision=str, warnings=list)
            _expect(found["revision"], "revision is empty")
            _expect(found["status"] in _STATES, f"status is {found['status']!r}")
            missing = {"ready_revision", "reason", "ready_at"} - found.keys()
            _expect(not missing, f"missing: {', '.join(sorted(missing))}")
        _has(answer.headers, etag=f'"{answer.value["revision"]}"')

    def sources_ready(self) -> None:
        """A source becomes ready, and then questions are answered from it."""
        source, _ = self.managed(needs=None)
        _expect(source["status"] == "ready", f"it is {source['status']}: {source['reason']}")
        _has(source, ready_revision=source["revision"], ready_at=int)

    def sources_pages(self) -> None:
        """A list is whole over its pages, the newest first."""
        name = self.text()["name"]
        made = [self.add(self.text(f"Text {one}.", name)).done()["id"] for one in range(3)]
        query = "&limit=1" + "".join(f"&status={state}" for state in _STATES)
        found: list[str] = []
        place: str | None = ""
        while place is not None and len(found) <= len(made):
            page = self.listed(name, query + (f"&before={place}" if place else ""))
            _expect(len(page["data"]) <= 1, "a page is longer than its limit")
            found += [one["id"] for one in page["data"]]
            place = page.get("next")
        _expect(found == made[::-1], f"{len(made)} sources were made, the pages name {len(found)}")

    def sources_filters(self) -> None:
        """A list has what its filters name, and nothing else."""
        source, _ = self.managed(needs=None)
        for query, there in (
            (f"&collection={self.collection}&status={source['status']}", True),
            ("&status=pending&status=processing", False),
            ("&collection=col_of_nobody", False),
            ("x", False),
        ):
            found = [one["id"] for one in self.listed(source["name"], query)["data"]]
            _expect(found == [source["id"]] * there, f"{query}: {len(found)} found")

    def sources_unknown(self) -> None:
        """A source that is not there gets 404 unknown_source."""
        path = "/sources/src_of_nobody"
        self.send("GET", path).refused(404, "unknown_source")
        self.announced("sources", "manage")
        self.put(path, _TEXT).refused(404, "unknown_source")
        self.send("DELETE", path).refused(404, "unknown_source")

    def sources_replace(self) -> None:
        """A source is replaced in place: the old text is read until then."""
        source, path = self.managed()
        after = self.replaced(source, "Another text.")
        _expect(after["ready_revision"] == after["revision"], "the new text is not ready")
        self.upload("PUT", f"{path}/upload", self.text("A third text.")).done()

    def sources_answers(self) -> None:
        """A question is answered while its source is replaced."""
        word = f"quorvex{os.urandom(3).hex()}"
        fact = f"The colour of the {word} is violet."

        def is_told() -> bool:
            return "violet" in str(self.ask(f"What colour is the {word}?").done()["answer"])

        source, path = self.managed(fact)
        if not is_told():
            raise _NotTestedError("the bot does not answer from what is added here")
        neither = "answered from neither the old nor the new text"
        self.replaced(source, f"{fact} It is old.", lambda: _expect(is_told(), neither))
        self.send("DELETE", path).done()
        _expect(not is_told(), "answered from a source that is deleted")

    def sources_failed(self) -> None:
        """Where the new text fails, the old one stays, and a reason is given."""
        source, path = self.managed()
        answer = self.upload("PUT", f"{path}/upload", self.text("%PDF-1.7\nnothing of a PDF"))
        after = self.until_ready(path) if answer.status < 300 else {"status": "refused"}
        if after["status"] != "failed":
            raise _NotTestedError(f"a broken document is {after['status']} here")
        _expect(after["ready_revision"] == source["revision"], "the old text is gone")
        _expect(after["reason"], "there is no reason")

    def sources_if_match(self) -> None:
        """What is meant for another revision gets 412, and is not done."""
        source, path = self.managed()
        other = '"of-another-time"'
        self.put(path, "Another text.", other).refused(412, "revision_changed")
        self.send("DELETE", path, None, ("If-Match", other)).refused(412, "revision_changed")
        _has(self.send("GET", path).done(), revision=source["revision"])
        for tag in (f'"{source["revision"]}"', "*"):
            self.put(path, "Another text.", tag).done()

    def sources_lost_answer(self) -> None:
        """A replacement that is sent again gets its answer, not 412."""
        source, path = self.managed()
        tag = f'"{source["revision"]}"'
        first, again = (self.put(path, "Another text.", tag).done() for _ in range(2))
        _has(again, revision=first["revision"])

    def sources_rename(self) -> None:
        """A source is renamed in place, and nothing is read again."""
        self.announced("sources", "rename")
        source, path = self.managed()
        name = f"{source['name']} renamed"
        for after in (self.send("PATCH", path, {"name": name}), self.send("GET", path)):
            _has(after.done(), id=source["id"], name=name, ready_revision=source["ready_revision"])

    def sources_delete(self) -> None:
        """A source is deleted, and from then on unknown."""
        source, path = self.managed()
        _expect(self.send("DELETE", path).status == 204, "DELETE is not answered with 204")
        self.send("GET", path).refused(404, "unknown_source")
        self.send("DELETE", path).refused(404, "unknown_source")
        _expect(self.listed(source["name"])["data"] == [], "it is still listed")

    def passages(self, query: str, **more: Any) -> Any:
        """Search, in the collection unless another place is named, and return what was found."""
        fields = {"query": query, "collections": [self.collection], **more}
        return self.send("POST", "/search", fields).done()["data"]

    def passage(self, word: str) -> Any:
        """Add a text with a word that is nowhere else, and return its passage when it is found."""
        text = self.text(f"The colour of the {word} is violet.", f"kbot conformance {word}")
        source, deadline = self.add(text).done(), time.monotonic() + self.wait
        found: list[Any] = []
        while not found:
            _expect(time.monotonic() < deadline, f"it is not found after {self.wait:g} s")
            listed = self.passages(f"What colour has the {word}?")
            found = [one for one in listed if one["source_id"] == source["id"]]
            time.sleep(0.02)
        _has(found[0], id=str, name=text["name"], revision=str)
        return found[0]

    def passages_search(self) -> None:
        """The passages of a source that is ready are found, the best first, as many as wanted."""
        word = f"quorvex{os.urandom(3).hex()}"
        best = self.passage(word)
        _expect(word in best["text"], "the text of the passage is another")
        self.passage(f"{word} quorvex")
        found = self.passages(f"What colour is the {word} quorvex?")
        scores = [one["score"] for one in found]
        _expect(scores == sorted(scores, reverse=True), f"the scores are {scores}")
        _expect(len(found) > 1, "a passage with some of the words is not found")
        _expect(len(self.passages(word, limit=1)) == 1, "there are more than the limit")

    def passages_places(self) -> None:
        """A search looks in the bot's collections, or in those that it names."""
        word = f"quorvex{os.urandom(3).hex()}"
        self.passage(word)
        answer = self.send("POST", "/search", {"query": word, "collections": ["col_of_nobody"]})
        found = answer.value.get("data") if answer.status < 300 else []
        _expect(found == [], "found in a collection that is not there")
        if self.bot is not None:
            fields = {"query": word, "bot_id": self.bot}
            self.send("POST", "/search", fields).done()

    def passages_read(self) -> None:
        """A passage is read by its id; one that is not there gets 404 unknown_passage."""
        found = self.passage(f"quorvex{os.urandom(3).hex()}")
        read = self.send("GET", f"/passages/{quote(found['id'], safe='')}").done()
        _has(read, **{name: found[name] for name in ("id", "source_id", "revision", "text")})
        self.send("GET", "/passages/pas_of_nobody").refused(404, "unknown_passage")

    def passages_deleted(self) -> None:
        """The passages of a source that is deleted are gone."""
        self.announced("sources", "manage")
        word = f"quorvex{os.urandom(3).hex()}"
        found = self.passage(word)
        self.send("DELETE", f"/sources/{found['source_id']}").done()
        path = f"/passages/{quote(found['id'], safe='')}"
        self.send("GET", path).refused(404, "unknown_passage")
        ids = [one["id"] for one in self.passages(word)]
        _expect(found["id"] not in ids, "it is still found")

    def check_key(self) -> None:
        """Check that the key may create sources, without which nothing can be told.

        Raises:
            Failed: it may not.
        """
        try:
            status = self.add().status
        except _ViolationError:
            return  # which is for the requirements to tell
        if status in (401, 403):
            raise Failed(
                f"The service answers {status} to a new source: this API key may not add to "
                f"{self.collection}. Test it with one that may.",
                Exit.ACCOUNT,
            )

    def results(self) -> Iterator[Result]:
        """Test every requirement, and delete what was made."""
        try:
            for identifier, check in REQUIREMENTS.items():
                tier = "recommended" if identifier in _RECOMMENDED else "mandatory"
                yield Result(identifier, tier, check.__doc__ or "", *self._tested(identifier))
        finally:
            for source_id in self.made.copy():
                answer = self.send("DELETE", f"/sources/{source_id}")
                # A 404 without this code may say that nothing can be deleted here.
                if answer.status == 204 or answer.value.get("code") == "unknown_source":
                    self.made.remove(source_id)

    def _tested(self, identifier: str) -> tuple[bool | None, str]:
        try:
            extension = identifier.partition("/")[0]
            if extension not in ("interface", "announcement"):
                self.announced(extension)
            REQUIREMENTS[identifier](self)
        except _NotTestedError as reason:
            return None, str(reason)
        except (_ViolationError, KnowledgeBotError, ValueError) as violation:
            return False, str(violation)
        except (KeyError, TypeError, AttributeError) as error:
            return False, f"a field is missing or of another type: {error!r}"
        return True, ""


_REQUIRED = ("interface_", "announcement_", "idempotency_", "sources_", "passages_")
_RECOMMENDED = ("sources/lost-answer",)

REQUIREMENTS: dict[str, Callable[[Kit], None]] = {
    name.replace("_", "/", 1).replace("_", "-"): check
    for name, check in vars(Kit).items()
    if name.startswith(_REQUIRED)
}
"""All of them by id, in the order in which they are tested."""


@click.command()
@click.argument("url", required=False)
@click.option(
    "--collection",
    metavar="ID",
    shell_complete=collection_ids,
    help="Make sources in this collection.  [default: the first]",
)
@click.option("--bot", metavar="ID", help="Ask this bot.  [default: the first]")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a source may take to become ready.",
)
@click.option(
    "--second-profile",
    metavar="NAME",
    help="A profile with another API key of the same account, for what needs two.",
)
@as_json_option
@click.pass_obj
def conformance(
    connection: Connection,
    *,
    url: str | None,
    collection: str | None,
    bot: str | None,
    wait: float,
    second_profile: str | None,
    as_json: bool,
) -> None:
    """Test whether the service at URL does what it announces.

    It makes sources, replaces and deletes them, and asks the bot; then it deletes what it made, but
    for the conversations of its questions, which cannot be deleted. The exit code is 3 if the
    service does not meet a mandatory requirement. What it does not announce is not tested. By
    default it tests the service that other commands use.

    \b
    kbot conformance https://bots.example/public/v1 --collection col_test
    kbot conformance --json | jq '.results[] | select(.ok == false)'
    """  # noqa: D301 - \b is for click
    if url is not None:
        connection = Connection(url, connection.profile, connection.timeout)
    second = None
    if second_profile is not None:
        other = Connection(connection.service(), second_profile, connection.timeout)
        second = other.client(needs_key=True)
    with connection.client(needs_key=True) as client:
        collection = _there("--collection", collection, client.list_collections)
        if collection is None:
            raise Failed("The service has no collection; one has to be created there first.")
        bot = _there("--bot", bot, client.list_bots)
        kit = Kit(client, collection, bot, wait, second)
        kit.check_key()
        results = []
        for result in kit.results():
            results.append(result)
            write_stderr(f"{_WORDS[result.ok]:10} {result.id}")
        announced = {name: dict(found) for name, found in client.extensions().items()}
    failed = [one.id for one in results if one.ok is False and one.tier == "mandatory"]
    if as_json:
        listed = [one._asdict() for one in results]
        write_document({"ok": not failed, "announced": announced, "results": listed})
    else:
        rows = [(one.id, one.tier, _WORDS[one.ok], one.detail or one.text) for one in results]
        write_table(("requirement", "tier", "result", "detail"), rows)
    if kit.made:
        write_stderr(f"Left there: {', '.join(kit.made)}")
    if failed:
        raise Failed(f"Not met: {', '.join(failed)}.", Exit.SOME_FAILED)


def _there(
    option: str, given: str | None, lists: "Callable[[], Iterable[Collection | Bot]]"
) -> str | None:
    """Return what was given, or the first of what there is; None where there is nothing.

    Raises:
        UsageError: what was given is not there.
    """
    if given is None:
        return next((one.id for one in lists()), None)
    try:
        there = [one.id for one in lists()]
    except KnowledgeBotError:
        return given  # the requirements tell what is wrong
    if given not in there:
        raise click.UsageError(f"{option}: {given} is not there, but {', '.join(there) or 'none'}")
    return given


_WORDS = {True: "ok", False: "failed", None: "not tested"}
