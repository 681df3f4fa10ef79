"""A service with all extensions, and mutants of it with one fault each.

It knows two API keys of one account and one of a guest, who sees another collection. Its sources
are pending for some requests, and its bot answers from the texts that are ready.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple
from unicodedata import normalize

from knowledge_bot._extensions import new_key
from knowledge_bot._transports import HTTPResponse
from knowledge_bot.testing import MemoryService, ReceivedRequest
from knowledge_bot.testing._extensions import KeptAnswers, RejectedError, Sources
from knowledge_bot.testing._sync import HeldOrigins

API_KEYS = ("key-of-the-owner", "another-key-of-the-owner", "key-of-a-guest")
GUEST = {API_KEYS[2]: ["col_other"]}
COLLECTIONS = ["col_default", "col_other"]

_OLD = "017f"  # how a UUIDv7 of February 2022 begins


class ExtendedService(MemoryService):
    """A service that does what docs/extensions.md says."""

    keys: type[KeptAnswers] = KeptAnswers
    managed: type[Sources] = Sources
    origins: type[HeldOrigins] = HeldOrigins
    pending_for = 1
    """After how many requests a source is no longer pending."""

    def __init__(self, **options: Any) -> None:
        bots = {"bot_default": self.say}
        extensions = {"idempotency", "sources", "sync", "passages"}
        usual = {"collections": COLLECTIONS, "limited": GUEST, "extensions": extensions}
        super().__init__(bots=bots, **(usual | options))
        self._keys, self._sources = self.keys(), self.managed(self.sources)
        self._origins = self.origins(self._sources)
        self._keys.service = self._sources.service = self
        self.hold_sources()
        self._looks = 0
        self._fail_broken_documents()

    def _fail_broken_documents(self) -> None:
        """Let a PDF fail, as it does where documents are read: none here is whole."""
        take = self._sources._revise

        def revise(source: Any, kind: str, content: Any) -> Any:
            if isinstance(content, bytes) and content.startswith(b"%PDF"):
                self.fail_source(source["name"])
            return take(source, kind, content)

        self._sources._revise = revise  # type: ignore[method-assign]

    def say(self, question: str) -> str:
        word = question.rstrip("?").rpartition(" ")[2]
        texts = [self.ready_content(one["id"]) for one in self.sources]
        return next((str(text) for text in texts if word in str(text)), "I do not know.")

    def _answer(self, received: ReceivedRequest) -> HTTPResponse:
        if any(one["status"] == "pending" for one in self.sources):
            self._looks += 1
            if self._looks > self.pending_for:
                self._looks = 0
                self._sources.finish()
        if received.method != "GET" and received.headers["x-api-key"] not in API_KEYS:
            return self.unauthorized(received)
        self.received = received
        return self.answered(received)

    def unauthorized(self, received: ReceivedRequest) -> HTTPResponse:
        return HTTPResponse(401, {}, b'{"code": "unauthorized", "message": "no such key"}')

    def answered(self, received: ReceivedRequest) -> HTTPResponse:
        return super()._answer(received)


class Mutant(NamedTuple):
    """A fault, and the requirement whose test finds it."""

    service: Callable[[], MemoryService]
    requirement: str


MUTANTS: dict[str, Mutant] = {}


def mutant(requirement: str, fault: str, part: type, method: str) -> Callable[[Any], None]:
    """Let a function stand in for a method of the service, its keys or its sources."""

    def add(function: Any) -> None:
        changed = type("Changed", (part,), {method: function})
        name = {KeptAnswers: "keys", Sources: "managed", HeldOrigins: "origins"}.get(part)
        whole = changed if name is None else type("Whole", (ExtendedService,), {name: changed})
        MUTANTS[fault] = Mutant(whole, requirement)

    return add


def again(answer: HTTPResponse, key: str) -> HTTPResponse:
    return replace(answer, headers={**answer.headers, "idempotency-key": key})


# What it does with keys ---------------------------------------------------------------------------


def scoped(self, key, request, act):
    own = self.service.received.headers["x-api-key"] if key and "," not in key else ""
    own = own[:1] if len(key) > 100 else own
    return again(answer_to(self, key if own == API_KEYS[0] else own + key, request, act), key)


def never_again(self, key, request, act):
    if key in self._kept:
        raise TimeoutError
    return answer_to(self, key, request, act)


answer_to = KeptAnswers.answer
for _requirement, _fault, _answer in (
    (
        "replay",
        "It acts on each request, whatever its key",
        lambda self, key, request, act: again(act()[0], key),
    ),
    (
        "expired",
        "It acts on a request whose key has expired",
        lambda self, key, request, act: (
            again(act()[0], key) if key.startswith(_OLD) else answer_to(self, key, request, act)
        ),
    ),
    (
        "another-request",
        "It answers another request with the first answer",
        lambda self, key, request, act: answer_to(self, key, None, act),
    ),
    (
        "parts",
        "It compares the bytes of requests",
        lambda self, key, request, act: answer_to(self, key, self.service.received.body, act),
    ),
    (
        "quotes",
        "It takes quotes for a part of the key",
        lambda self, key, request, act: answer_to(self, key.replace('"', "q"), request, act),
    ),
    (
        "odd-keys",
        "It cuts a key that is too long",
        lambda self, key, request, act: answer_to(self, key[:255], request, act),
    ),
    ("account", "Its keys belong to an API key", scoped),
    ("at-once", "It waits for ever for a request with the same key", never_again),
):
    mutant(f"idempotency/{_requirement}", _fault, KeptAnswers, "answer")(_answer)

answered = ExtendedService.answered


@mutant(
    "idempotency/refusal-not-kept",
    "It keeps the answer to a request whose API key it refused",
    ExtendedService,
    "_answer",
)
def _(self, received):
    kept = vars(self).setdefault("refused", {})
    key = received.headers.get("idempotency-key", "")
    if received.method != "GET" and received.headers["x-api-key"] not in API_KEYS:
        kept[key] = self.unauthorized(received)
    return kept.get(key) or ExtendedService._answer(self, received)


@mutant(
    "idempotency/messages", "It looks at the keys of sources alone", ExtendedService, "answered"
)
def _(self, received):
    if received.path != "/messages":
        return answered(self, received)
    return again(self._acted(received)[0], received.headers.get("idempotency-key", ""))


# What it announces and answers --------------------------------------------------------------------

for _requirement, _fault, _announcement in (
    ("interface/announcement", "It announces in words of its own", "Sources 1"),
    (
        "idempotency/lifetime",
        "It does not say how long a key lives",
        "idempotency=1, sources=1;manage",
    ),
):
    mutant(_requirement, _fault, ExtendedService, "announcement")(
        property(lambda self, said=_announcement: said, lambda self, value: None)
    )


@mutant("sources/unknown", "It fails to delete what is not there", ExtendedService, "answered")
def _(self, received):
    answer = answered(self, received)
    failed = received.method == "DELETE" and answer.status == 404
    return replace(answer, status=500) if failed else answer


def changing(change: Callable[..., Any]) -> Callable[..., HTTPResponse]:
    """Change the fields that are answered to some requests."""

    def change_answer(self, received):
        answer = answered(self, received)
        value = json.loads(answer.body or b"{}")
        value = value.get("value", value) if isinstance(value, dict) else {}
        changed = change(self, received, value) if value else None
        body = answer.body if changed is None else json.dumps({"value": changed}).encode()
        return replace(answer, body=body)

    return change_answer


def without_the_oldest(self, received, value):
    if (received.method, received.path) != ("GET", "/sources"):
        return None
    oldest = self.sources[0]["id"] if len(self.sources) < 2 else self.sources[-3]["id"]
    return {**value, "data": [one for one in value["data"] if one["id"] != oldest]}


for _requirement, _fault, _status, _field in (
    ("sources/ready", "It does not say since when a source is ready", "ready", "ready_at"),
    (
        "sync/failed",
        "It gives up the old text where the new one fails",
        "failed",
        "ready_revision",
    ),
):
    mutant(_requirement, _fault, ExtendedService, "answered")(
        changing(
            lambda self, received, value, status=_status, name=_field: (
                {**value, name: None} if value.get("status") == status else None
            )
        )
    )
for _requirement, _fault, _change in (
    (
        "interface/create",
        "It says as a text when a source was created",
        lambda self, received, value: (
            {**value, "created_at": "today"} if "created_at" in value else None
        ),
    ),
    (
        "sources/fields",
        "Its sources have no state in the answer that creates them",
        lambda self, received, value: (
            {name: of for name, of in value.items() if name != "revision"}
            if received.method == "POST"
            else None
        ),
    ),
    ("sources/pages", "Its list leaves the oldest source out", without_the_oldest),
):
    mutant(_requirement, _fault, ExtendedService, "answered")(changing(_change))


@mutant(
    "passages/places",
    "It searches all collections, whichever are named",
    ExtendedService,
    "_search",
)
def _(self, value):
    asked = {"query": value["query"], "limit": value.get("limit", 10)}
    return ExtendedService._search(self, asked)


@mutant("sync/answers", "It answers from what was deleted", ExtendedService, "say")
def _(self, question):
    texts = vars(self).setdefault("texts", [])
    texts += [self.ready_content(one["id"]) or "" for one in self.sources]
    word = question.rstrip("?").rpartition(" ")[2]
    return next((str(text) for text in texts if word in str(text)), "I do not know.")


# What becomes of sources --------------------------------------------------------------------------


@mutant("sources/filters", "It ignores the filters of a list", Sources, "listed")
def _(self, query):
    kept = {name: of for name, of in query.items() if name in ("limit", "before", "name")}
    return Sources.listed(self, kept)


@mutant("sources/delete", "It lists what was deleted", Sources, "delete")
def _(self, source_id):
    gone = dict(self.get(source_id))
    Sources.delete(self, source_id)

    def listed(query):
        page = Sources.listed(self, query)
        page["data"] += [gone] * (gone["name"] in query.get("name", ()))
        return page

    self.listed = listed


@mutant("passages/search", "It lists the passages that fit worst first", Sources, "found")
def _(self, query, collections, limit):
    return Sources.found(self, query, collections, limit)[::-1]


@mutant("passages/read", "It knows no passage by its id", Sources, "passage")
def _(self, passage_id):
    raise RejectedError(404, "not_found", "there is nothing at this address")


@mutant("passages/deleted", "It finds passages of sources that are deleted", Sources, "passages")
def _(self):
    kept = vars(self).setdefault("kept", {})
    kept.update({passage["id"]: (source, passage) for source, passage in Sources.passages(self)})
    return [*kept.values()]


# Origins ------------------------------------------------------------------------------------------


def with_value(method: str, change: Callable[..., Any]) -> Callable[..., Any]:
    """Change what a request says."""
    act = getattr(HeldOrigins, method)
    return lambda self, value, *rest: act(self, {**value, **change(self, value)}, *rest)


def with_answer(method: str, change: Callable[[Any], Any]) -> Callable[..., Any]:
    """Change what is answered."""
    act = getattr(HeldOrigins, method)

    def acting(self, *request):
        answer = act(self, *request)
        return answer | change(answer)

    return acting


def as_held(name: str, field: str, held: Callable[[Any], Any]) -> Callable[..., Any]:
    """Let what a list says of entries be what these have."""

    def change(self, value):
        there = self._origins[value["origin"]].entries
        return {
            name: [
                {**one, field: held(there[one["key"]])} if one["key"] in there else one
                for one in value.get(name, ())
            ]
        }

    return change


def text_of(change: Callable[[str], str]) -> Callable[..., Any]:
    """Change the texts that name an entry."""
    return lambda self, value: {
        name: change(value[name])
        for name in ("origin", "key", "version", "digest")
        if isinstance(value[name], str)
    }


def owner_of(self, value):
    gone = {one["key"] for one in value["missing"]}
    owners = [name for name, of in self._origins.items() if not gone.isdisjoint(of.entries)]
    return {"origin": owners[0]} if owners else {}


for _requirement, _fault, _method, _changed in (
    (
        "sums",
        "It keeps no versions",
        "put",
        with_value("put", lambda self, value: {"version": None}),
    ),
    (
        "entries",
        "It lists entries in an order of its own",
        "entries",
        with_answer("entries", lambda answer: {"data": answer["data"][::-1]}),
    ),
    (
        "entry-filters",
        "It lists all buckets",
        "entries",
        lambda self, query: HeldOrigins.entries(
            self, {name: of for name, of in query.items() if name != "bucket"}
        ),
    ),
    (
        "keys",
        "It takes two spellings of a letter for the same",
        "put",
        with_value("put", text_of(lambda text: normalize("NFC", text))),
    ),
    (
        "bounds",
        "It cuts keys that are too long",
        "put",
        with_value("put", text_of(lambda text: text[:2048])),
    ),
    ("apart", "It looks for a key in all origins", "complete", with_value("complete", owner_of)),
    (
        "put",
        "It reads again what is unchanged",
        "put",
        with_value("put", lambda self, value: {"digest": new_key()}),
    ),
    (
        "kinds",
        "It takes a file of another kind for the same",
        "put",
        lambda self, value, kind, *rest: HeldOrigins.put(self, value, "write", *rest),
    ),
    *(
        (
            requirement,
            f"It does not look at what is expected ({requirement})",
            "put",
            lambda self, value, *rest: HeldOrigins.put(
                self, {name: of for name, of in value.items() if name != "expected"}, *rest
            ),
        )
        for requirement in ("moved-on", "puts-at-once", "repeated")
    ),
    (
        "digest",
        "It believes any digest",
        "put",
        with_value("put", text_of(lambda text: text.removeprefix("sha256:"))),
    ),
    (
        "adopted",
        "It adopts what belongs to another origin",
        "_without_origin",
        lambda self, *what: self._owners.clear() or HeldOrigins._without_origin(self, *what),
    ),
    (
        "source-deleted",
        "It keeps the entries of what was deleted",
        "_held",
        lambda self: self._origins,
    ),
    (
        "touch",
        "It touches what has another digest",
        "touch",
        with_value("touch", as_held("entries", "digest", lambda entry: entry.digest)),
    ),
    (
        "moved",
        "It moves an entry to a key that another has",
        "touch",
        lambda self, value, read: (
            [
                self._origins[value["origin"]].entries.pop(one["key"], None)
                for one in value["entries"]
                if one.get("moved_from")
            ]
            and HeldOrigins.touch(self, value, read)
        ),
    ),
    (
        "few",
        "It removes at once what is not sure",
        "complete",
        with_value("complete", as_held("missing", "sure", lambda entry: True)),
    ),
    (
        "many",
        "It takes a run that is repeated for another",
        "complete",
        with_value("complete", lambda self, value: {"run": new_key()}),
    ),
    (
        "withheld",
        "It has no limit",
        "complete",
        with_value("complete", lambda self, value: {"limit": 1}),
    ),
    (
        "missing-moved-on",
        "It removes what is new",
        "complete",
        with_value("complete", as_held("missing", "digest", lambda entry: entry.digest)),
    ),
    (
        "parts",
        "It decides with each part",
        "complete",
        with_value("complete", lambda self, value: {"more": False}),
    ),
    (
        "completed",
        "It keeps no note",
        "complete",
        with_value("complete", lambda self, value: {"note": None}),
    ),
    (
        "told",
        "It takes any reason for told",
        "complete",
        with_value("complete", as_held("told", "reason", lambda entry: entry.source["reason"])),
    ),
    (
        "origins",
        "It keeps the sources of an origin that is deleted",
        "delete",
        lambda self, query: self._origins.pop(self._known(query)) and None,
    ),
    (
        "overlap",
        "It counts the origin's own sources as another's",
        "overlap",
        with_value("overlap", lambda self, value: {"origin": "nobody"}),
    ),
    (
        "limited-key",
        "It shows all entries to every key",
        "_seen",
        lambda self, origin: origin.entries,
    ),
):
    mutant(f"sync/{_requirement}", _fault, HeldOrigins, _method)(_changed)
