"""A service with all extensions, and mutants of it with one fault each.

It knows two API keys of one account, its sources are pending for some requests, and its bot answers
from the texts that are ready.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from knowledge_bot._transports import HTTPResponse
from knowledge_bot.testing import MemoryService, ReceivedRequest
from knowledge_bot.testing._extensions import KeptAnswers, RejectedError, Sources

API_KEYS = ("key-of-the-owner", "another-key-of-the-owner")

_OLD = "017f"  # how a UUIDv7 of February 2022 begins


class ExtendedService(MemoryService):
    """A service that does what docs/extensions.md says."""

    keys: type[KeptAnswers] = KeptAnswers
    managed: type[Sources] = Sources
    pending_for = 1
    """After how many requests a source is no longer pending."""

    def __init__(self, **options: Any) -> None:
        bots = {"bot_default": self.say}
        super().__init__(bots=bots, extensions={"idempotency", "sources", "passages"}, **options)
        self._keys, self._sources = self.keys(), self.managed(self.sources)
        self._keys.service = self._sources.service = self
        self.hold_sources()
        self._looks = 0
        self._fail_broken_documents()

    def _fail_broken_documents(self) -> None:
        """Let a PDF fail, as it does where documents are read: none here is whole."""
        take = self._sources._revise

        def revise(source: Any, content: Any) -> Any:
            if isinstance(content, bytes) and content.startswith(b"%PDF"):
                self.fail_source(source["name"])
            return take(source, content)

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


@dataclass(frozen=True)
class Mutant:
    """A fault, and the requirement whose test finds it."""

    service: Callable[[], MemoryService]
    requirement: str


MUTANTS: dict[str, Mutant] = {}


def mutant(requirement: str) -> Callable[[type], type]:
    def add(cls: type) -> type:
        def service() -> MemoryService:
            if issubclass(cls, KeptAnswers):
                return type(cls.__name__, (ExtendedService,), {"keys": cls})()
            if issubclass(cls, Sources):
                return type(cls.__name__, (ExtendedService,), {"managed": cls})()
            return cls()

        MUTANTS[(cls.__doc__ or "").rstrip(".")] = Mutant(service, requirement)
        return cls

    return add


def again(answer: HTTPResponse, key: str) -> HTTPResponse:
    return replace(answer, headers={**answer.headers, "idempotency-key": key})


@mutant("idempotency/replay")
class _Executes(KeptAnswers):
    """It acts on each request, whatever its key."""

    def answer(self, key, request, act):
        return again(act()[0], key)


@mutant("idempotency/replay")
class _NoEcho(KeptAnswers):
    """It does not repeat the key."""

    def answer(self, key, request, act):
        answer = super().answer(key, request, act)
        return replace(answer, headers={n: v for n, v in answer.headers.items() if "key" not in n})


@mutant("idempotency/expired")
class _ExecutesExpired(KeptAnswers):
    """It acts on a request whose key has expired."""

    def answer(self, key, request, act):
        return again(act()[0], key) if key.startswith(_OLD) else super().answer(key, request, act)


@mutant("idempotency/another-request")
class _ReplaysForAnother(KeptAnswers):
    """It answers another request with the first answer."""

    def answer(self, key, request, act):
        return super().answer(key, None, act)


@mutant("idempotency/parts")
class _ComparesBytes(KeptAnswers):
    """It compares the bytes of requests."""

    def answer(self, key, request, act):
        return super().answer(key, self.service.received.body, act)


@mutant("idempotency/account")
class _ScopesByApiKey(KeptAnswers):
    """Its keys belong to an API key."""

    def answer(self, key, request, act):
        own = self.service.received.headers["x-api-key"] if key and "," not in key else ""
        own = own[:1] if len(key) > 100 else own
        return again(super().answer(key if own == API_KEYS[0] else own + key, request, act), key)


@mutant("idempotency/quotes")
class _KeepsQuotes(KeptAnswers):
    """It takes quotes for a part of the key."""

    def answer(self, key, request, act):
        return super().answer(key.replace('"', "q"), request, act)


@mutant("idempotency/odd-keys")
class _CutsKeys(KeptAnswers):
    """It cuts a key that is too long."""

    def answer(self, key, request, act):
        return super().answer(key[:255], request, act)


@mutant("idempotency/at-once")
class _WaitsForEver(KeptAnswers):
    """It waits for ever for a request with the same key."""

    def answer(self, key, request, act):
        if key in self._kept:
            raise TimeoutError
        return super().answer(key, request, act)


@mutant("idempotency/refusal-not-kept")
class _KeepsRefusals(ExtendedService):
    """It keeps the answer to a request whose API key it refused."""

    def __init__(self):
        super().__init__()
        self.refused = {}

    def unauthorized(self, received):
        self.refused[received.headers.get("idempotency-key")] = super().unauthorized(received)
        return super().unauthorized(received)

    def answered(self, received):
        kept = self.refused.get(received.headers.get("idempotency-key", ""))
        return kept or super().answered(received)


@mutant("sources/if-match")
class _IgnoresIfMatch(Sources):
    """It ignores If-Match."""

    def check(self, source, if_match):
        pass


class _Failing(ExtendedService):
    """Changes what is answered to some requests."""

    def answered(self, received):
        answer = super().answered(received)
        value = json.loads(answer.body or b"{}")
        if not isinstance(value, dict):
            return answer
        changed = self.changed(received, value.get("value", value), answer.status)
        if changed is None:
            return answer
        return replace(answer, body=json.dumps({"value": changed}).encode())

    def changed(self, received, value, status):
        raise NotImplementedError


@mutant("sources/unknown")
class _DeletesLoudly(ExtendedService):
    """It fails to delete what is not there."""

    def answered(self, received):
        answer = super().answered(received)
        failed = received.method == "DELETE" and answer.status == 404
        return replace(answer, status=500) if failed else answer


@mutant("interface/create")
class _NamesTheTime(_Failing):
    """It says as a text when a source was created."""

    def changed(self, received, value, status):
        return {**value, "created_at": "today"} if "created_at" in value else None


@mutant("interface/announcement")
class _AnnouncesBadly(ExtendedService):
    """It announces in words of its own."""

    def __init__(self):
        super().__init__()
        self.announcement = "Sources 1"


@mutant("idempotency/lifetime")
class _TellsNoLifetime(ExtendedService):
    """It does not say how long a key lives."""

    def __init__(self):
        super().__init__()
        self.announcement = "idempotency=1, sources=1;manage;rename"


@mutant("idempotency/messages")
class _AsksAgain(ExtendedService):
    """It looks at the keys of sources alone."""

    def answered(self, received):
        if received.path != "/messages":
            return super().answered(received)
        return again(self._acted(received)[0], received.headers.get("idempotency-key", ""))


@mutant("sources/ready")
class _NeverSaysSince(_Failing):
    """It does not say since when a source is ready."""

    def changed(self, received, value, status):
        return {**value, "ready_at": None} if value.get("status") == "ready" else None


@mutant("sources/lost-answer")
class _ForgetsItsAnswer(Sources):
    """It refuses a replacement whose answer was lost."""

    def replace(self, source_id, changes, content, if_match):
        self.check(self.get(source_id), if_match)
        return super().replace(source_id, changes, content, if_match)


@mutant("sources/replace")
class _ReadyTooSoon(_Failing):
    """It says of a revision that is pending that it is answered from."""

    def changed(self, received, value, status):
        if value.get("status") == "pending" and received.method == "PUT":
            return {**value, "ready_revision": value["revision"]}
        return None


@mutant("sources/replace")
class _MovesAway(_Failing):
    """It gives a source that is replaced another id."""

    def changed(self, received, value, status):
        return {**value, "id": "src_x"} if received.method == "PUT" and status == 200 else None


@mutant("sources/rename")
class _RenamesElsewhere(_Failing):
    """It gives a source that is renamed another id."""

    def changed(self, received, value, status):
        return {**value, "id": "src_x"} if received.method == "PATCH" else None


@mutant("sources/pages")
class _LeavesOut(_Failing):
    """Its list leaves the oldest source out."""

    def changed(self, received, value, status):
        if received.path == "/sources" and received.method == "GET":
            oldest = self.sources[0]["id"] if len(self.sources) < 2 else self.sources[-3]["id"]
            return {**value, "data": [one for one in value["data"] if one["id"] != oldest]}
        return None


@mutant("sources/filters")
class _FiltersNothing(Sources):
    """It ignores the filters of a list."""

    def listed(self, query):
        return super().listed({n: v for n, v in query.items() if n in ("limit", "before", "name")})


@mutant("passages/search")
class _FindsTheWorstFirst(Sources):
    """It lists the passages that fit worst first."""

    def found(self, query, collections, limit):
        return super().found(query, collections, limit)[::-1]


@mutant("passages/places")
class _SearchesEverywhere(ExtendedService):
    """It searches all collections, whichever are named."""

    def _search(self, value):
        return super()._search({"query": value["query"], "limit": value.get("limit", 10)})


@mutant("passages/read")
class _ReadsNoPassage(Sources):
    """It knows no passage by its id."""

    def passage(self, passage_id):
        raise RejectedError(404, "not_found", "there is nothing at this address")


@mutant("passages/deleted")
class _KeepsPassages(Sources):
    """It finds passages of sources that are deleted."""

    def delete(self, source_id, if_match):
        self.kept = [*getattr(self, "kept", []), *super().passages()]
        super().delete(source_id, if_match)

    def passages(self):
        return [*super().passages(), *getattr(self, "kept", [])]


@mutant("sources/answers")
class _ForgetsWhilePending(ExtendedService):
    """It answers from no text of a source that is being replaced."""

    def ready_content(self, source_id):
        source = self._sources.get(source_id)
        return None if source["status"] == "pending" else super().ready_content(source_id)


@mutant("sources/answers")
class _Remembers(ExtendedService):
    """It answers from what was deleted."""

    def __init__(self):
        self.texts = []
        super().__init__()

    def say(self, question):
        self.texts += [self.ready_content(one["id"]) or "" for one in self.sources]
        word = question.rstrip("?").rpartition(" ")[2]
        return next((str(text) for text in self.texts if word in str(text)), "I do not know.")


@mutant("sources/fields")
class _NoState(_Failing):
    """Its sources have no state in the answer that creates them."""

    def changed(self, received, value, status):
        if received.method == "POST" and "revision" in value:
            return {name: of for name, of in value.items() if name != "revision"}
        return None


@mutant("sources/failed")
class _LosesTheOld(_Failing):
    """It gives up the old text where the new one fails."""

    def changed(self, received, value, status):
        return {**value, "ready_revision": None} if value.get("status") == "failed" else None


@mutant("sources/delete")
class _KeepsListing(Sources):
    """It lists what was deleted."""

    def delete(self, source_id, if_match):
        source = self.get(source_id)
        self.check(source, if_match)
        self._gone = [*getattr(self, "_gone", []), dict(source)]
        super().delete(source_id, if_match)

    def listed(self, query):
        page = super().listed(query)
        gone = getattr(self, "_gone", [])
        page["data"] += [one for one in gone if one["name"] in query.get("name", ())]
        return page
