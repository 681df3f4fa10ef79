"""Extensions of docs/extensions.md, from memory: keys, sources with a state, and passages.

`MemoryService` holds one object of each, and asks it under its own lock.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from knowledge_bot._extensions import end_of_life
from knowledge_bot._transports import HTTPResponse

LIFETIME = 604_800  # seconds

ANNOUNCED = {
    "idempotency": f"idempotency=1;lifetime={LIFETIME}",
    "sources": "sources=1;manage",
    "sync": "sync=1",
    "passages": "passages=1",
}

Content = str | bytes
"""The text of a source, a page's address, or a file."""


class RejectedError(Exception):
    """A request that is answered with an error, and what stands in its body."""

    def __init__(self, status: int, code: str, message: str, **more: str) -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, str] = {"code": code, "message": message, **more}


class KeptAnswers:
    """The answers to requests that had a key, kept for whoever sends one again."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[object, HTTPResponse, str]] = {}

    def answer(
        self, key: str, request: object, act: Callable[[], tuple[HTTPResponse, str]]
    ) -> HTTPResponse:
        """Return the answer to a request: the first one again, if its key was used for it.

        `act` returns the answer, and the id of what was created.

        Raises:
            RejectedError: the key cannot be used, or not for this.
        """
        given, key = key, key.strip().strip('"')
        if not 0 < len(key) <= 255 or "," in key:
            raise RejectedError(400, "invalid_request", "the Idempotency-Key cannot be used")
        if key in self._kept:
            first, answer, created = self._kept[key]
            if first != request:
                raise RejectedError(
                    422, "idempotency_key_reused", "it was another request", id=created
                )
            headers = {**answer.headers, "idempotent-replayed": "true"}
            return HTTPResponse(answer.status, headers, answer.body)
        if end_of_life(key, {"idempotency": {"lifetime": LIFETIME}}) < time.time():
            raise RejectedError(412, "idempotency_key_expired", "the key is too old")
        answer, created = act()
        headers = {**answer.headers, "idempotency-key": given}
        answer = HTTPResponse(answer.status, headers, answer.body)
        self._kept[key] = request, answer, created
        return answer


class Sources:
    """The sources of a service, with their revisions."""

    def __init__(self, sources: list[dict[str, Any]]) -> None:
        self._sources = sources
        self._contents: dict[str, tuple[str, Content]] = {}  # kinds and contents by revision
        self._failing: dict[str, str] = {}  # reasons by name
        self._revisions = 0
        self.held = False
        self.seen: frozenset[str] | None = None
        """The collections that the present API key sees; None: all."""
        self._index: dict[str, dict[str, Any]] = {}
        self._newest: dict[str, Any] = {}  # of the index
        self.losses = 0
        """How often sources went, by a request or by the hand of a test."""

    def all(self) -> Sequence[dict[str, Any]]:
        """Return the sources, the oldest first."""
        return self._sources

    def by_id(self) -> Mapping[str, dict[str, Any]]:
        """Return the sources by their ids, also after a test changed the list of them."""
        known, sources = self._index, self._sources
        count = len(known)
        if count > len(sources) or (count and sources[count - 1] is not self._newest):
            known.clear()
            self.losses += 1
        for source in sources[len(known) :]:
            known[source["id"]] = self._newest = source
        return known

    def get(self, source_id: str) -> dict[str, Any]:
        """Return a source."""
        if (source := self.by_id().get(source_id)) is None or not self.sees(source):
            raise RejectedError(404, "unknown_source", f"there is no source {source_id}")
        return source

    def sees(self, source: Mapping[str, Any], *, whole: bool = False) -> bool:
        """Return whether the present API key sees a source, or all of its collections."""
        ids = {one["id"] for one in source["collections"]}
        return self.seen is None or (ids <= self.seen if whole else not ids.isdisjoint(self.seen))

    def check_whole(self, source: Mapping[str, Any]) -> None:
        """Refuse to change what the present API key does not see all of."""
        if not self.sees(source, whole=True):
            raise RejectedError(
                403, "forbidden", "it is in a collection that this key does not see"
            )

    def shown(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """Return a source as the present API key sees it."""
        inside = [
            one for one in source["collections"] if self.seen is None or one["id"] in self.seen
        ]
        return {**source, "collections": inside}

    def made_from(self, source: Mapping[str, Any]) -> tuple[str, Content]:
        """Return the kind of a source, such as `upload.md`, and what its revision is made from."""
        return self._contents[source["revision"]]

    def kind(self, source: Mapping[str, Any]) -> str:
        """Return how a source was made: `write`, `webpage`, or `upload` and the file's suffix."""
        return self.made_from(source)[0]

    def listed(self, query: Mapping[str, Sequence[str]]) -> object:
        """Return a page of the sources, the newest first."""
        limit = (query.get("limit") or ["50"])[0]
        if not limit.isdecimal() or not 1 <= int(limit) <= 500:
            raise RejectedError(400, "invalid_request", "limit is not 1 to 500")
        found = [one for one in reversed(self._sources) if self.sees(one) and _fits(one, query)]
        if before := query.get("before"):
            ids = [one["id"] for one in reversed(self._sources)]
            if before[0] not in ids:
                raise RejectedError(400, "invalid_request", "before names no page")
            older = ids[ids.index(before[0]) + 1 :]
            found = [one for one in found if one["id"] in older]
        page = [self.shown(one) for one in found[: int(limit)]]
        return {"data": page, "next": page[-1]["id"] if len(found) > len(page) else None}

    def create(self, source: dict[str, Any], kind: str, content: Content) -> dict[str, Any]:
        """Add a source, and return the answer; it is ready soon after."""
        source.update(ready_revision=None, ready_at=None)
        self._sources.append(source)
        return self._revise(source, kind, content)

    def revise(
        self, source: dict[str, Any], changes: dict[str, Any], kind: str, content: Content
    ) -> dict[str, Any]:
        """Give a source another content, and return the answer."""
        source.update(changes)
        return self._revise(source, kind, content)

    def delete(self, source_id: str) -> None:
        """Forget a source."""
        self.check_whole(self.get(source_id))
        self.drop([source_id])

    def drop(self, ids: Iterable[str]) -> None:
        """Forget sources."""
        gone = {*ids}
        self._sources[:] = [one for one in self._sources if one["id"] not in gone]

    def finish(self) -> None:
        """Let what is pending be ready, or fail."""
        for source in self._sources:
            self._settle(source)

    def _settle(self, source: dict[str, Any]) -> None:
        if source["status"] != "pending":
            return
        reason = self._failing.pop(source["name"], None)
        source["reason"], source["status"] = reason, "failed" if reason else "ready"
        if not reason:
            now = int(time.time() * 1000)
            source.update(ready_revision=source["revision"], ready_at=now)

    def fail(self, name: str, reason: str) -> None:
        """Let the next text of this name fail."""
        self._failing[name] = reason

    def content(self, source_id: str) -> Content | None:
        """Return what questions are answered from."""
        ready = self.by_id().get(source_id, {}).get("ready_revision")
        return None if ready is None else self._contents[ready][1]

    def passages(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yield each source that is ready and has a text, and its text as one passage."""
        for source in self._sources:
            text = self.content(source["id"])
            if isinstance(text, str):
                revision = source["ready_revision"]
                named = {"source_id": source["id"], "name": source["name"], "url": None}
                kept = {"id": f"pas_{revision}", **named, "revision": revision, "text": text}
                yield source, {**kept, "score": None, "found": None}

    def found(self, query: str, collections: Iterable[str], limit: int) -> list[dict[str, Any]]:
        """Return the passages with most of a question's words."""
        words = set(query.casefold().split())
        found = [
            {
                **passage,
                "score": float(len(words & {*passage["text"].casefold().split()})),
                "found": True,
            }
            for source, passage in self.passages()
            if {one["id"] for one in source["collections"]} & {*collections}
        ]
        found = [passage for passage in found if passage["score"]]
        return sorted(found, key=lambda passage: -passage["score"])[:limit]

    def passage(self, passage_id: str) -> dict[str, Any]:
        """Return a passage."""
        for _, passage in self.passages():
            if passage["id"] == passage_id:
                return passage
        raise RejectedError(404, "unknown_passage", f"there is no passage {passage_id}")

    def _revise(self, source: dict[str, Any], kind: str, content: Content) -> dict[str, Any]:
        self._revisions += 1
        revision = f"r{self._revisions}"
        self._contents[revision] = kind, content
        source.update(revision=revision, status="pending", reason=None, warnings=[])
        answer = dict(source)
        if not self.held:
            self._settle(source)
        return answer


def _fits(source: Mapping[str, Any], query: Mapping[str, Sequence[str]]) -> bool:
    ids = {one["id"] for one in source["collections"]}
    return (
        ("name" not in query or source["name"] in query["name"])
        and ("status" not in query or source["status"] in query["status"])
        and ("collection" not in query or not ids.isdisjoint(query["collection"]))
    )
