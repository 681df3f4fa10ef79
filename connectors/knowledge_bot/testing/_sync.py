"""The extension `sync` of docs/extensions.md from memory: the book of what origins hold."""

import hashlib
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowledge_bot._sync import BUCKETS, SUM_MODULUS, bucket_of, mark_of
from knowledge_bot.testing._extensions import Content, RejectedError, Sources

_Missing = dict[str, tuple[str, bool]]  # digest, and whether it is sure, by key
_Told = dict[str, str]  # reasons by key

Query = Mapping[str, Sequence[str]]

_PENDING = ("pending", "processing")

# Of what is missing for the first time: this many, or this share of all, may go at once.
_FEW = 5
_SMALL_SHARE = 0.05


@dataclass(slots=True)
class _HeldEntry:
    version: str | None
    digest: str
    source: dict[str, Any]
    told: str | None = None  # the reason that somebody was told

    @property
    def is_told(self) -> bool:
        return self.told is not None and self.told == self.source["reason"]


@dataclass(slots=True)
class _HeldOrigin:
    entries: dict[str, _HeldEntry] = field(default_factory=dict)
    missed: dict[str, str] = field(default_factory=dict)  # digests by key, of the last run
    parts: dict[str, list[tuple[_Missing, _Told]]] = field(default_factory=dict)  # by run, so far
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)  # by run
    completed_at: int | None = None
    note: str | None = None


class HeldOrigins:
    """The origins of a service, over its sources."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._origins: dict[str, _HeldOrigin] = {}
        self._owners: dict[str, str] = {}  # origins by the ids of their sources
        self._losses = 0

    # Reading

    def sums(self, query: Query) -> object:
        """Return what an origin holds, in short."""
        name = origin_in(query)
        found = self._held().get(name, _HeldOrigin())
        entries = self._seen(found)
        sums = [0] * BUCKETS
        for key, entry in entries.items():
            bucket = bucket_of(key)
            sums[bucket] = (sums[bucket] + mark_of(key, entry.version)) % SUM_MODULUS
        states = Counter(entry.source["status"] for entry in entries.values())
        failed = [one for one in entries.values() if one.source["status"] == "failed"]
        return {
            "known": name in self._origins,
            "count": len(entries),
            "sums": [f"{one:016x}" for one in sums],
            "pending": sum(states[state] for state in _PENDING),
            "failed": len(failed),
            "untold": sum(not one.is_told for one in failed),
            "completed_at": found.completed_at,
            "note": found.note,
        }

    def entries(self, query: Query) -> object:
        """Return a page of the entries of an origin."""
        found = self._seen(self._held().get(origin_in(query), _HeldOrigin()))
        limit = _number(query, "limit", 1, 1000, 500)
        bucket = _number(query, "bucket", 0, BUCKETS - 1, -1)
        after = (query.get("after") or [""])[0]
        keys = [
            key
            for key in sorted(found)
            if key > after
            and bucket in (-1, bucket_of(key))
            and ("status" not in query or found[key].source["status"] in query["status"])
        ]
        page = [_shown(key, found[key]) for key in keys[:limit]]
        return {"data": page, "next": keys[limit - 1] if len(keys) > limit else None}

    def listed(self) -> object:
        """Return the origins."""
        return {"data": [self._shown(name) for name in self._held()]}

    def overlap(self, value: Mapping[str, Any]) -> object:
        """Return how many names of sources others hold."""
        own, names, collections = _text(value, "origin"), value["names"], {*value["collections"]}
        if not isinstance(names, list) or len(names) > 500:
            raise _refused("names is not a list of at most 500")
        self._held()
        held: dict[str | None, set[str]] = {}
        for source in self._sources.all():
            owner = self._owners.get(source["id"])
            inside = not collections.isdisjoint(one["id"] for one in source["collections"])
            if owner != own and inside and source["name"] in names and self._sources.sees(source):
                held.setdefault(owner, set()).add(source["name"])
        counts = sorted(((len(of), owner) for owner, of in held.items()), key=lambda one: -one[0])
        return {"data": [{"origin": owner, "names": count} for count, owner in counts]}

    # Writing

    def put(
        self,
        value: Mapping[str, Any],
        kind: str,
        fields: dict[str, Any],
        content: Content,
        create: Callable[[], dict[str, Any]],
    ) -> object:
        """Let a key's source be this, and return the answer; `create` makes a new one."""
        name, key, digest = _text(value, "origin"), _text(value, "key"), _digest(value)
        version = _version(value)
        _check_digest(digest, kind, content)
        origin = self._held().setdefault(name, _HeldOrigin())
        entry = origin.entries.get(key)
        if entry is None:
            adopted = self._without_origin(kind, fields, content)
            source = create() if adopted is None else dict(adopted)
            kept = self._sources.get(source["id"])
            origin.entries[key] = _HeldEntry(version, digest, kept)
            self._owners[kept["id"]] = name
            return {"outcome": "created" if adopted is None else "adopted", "source": source}
        self._sources.check_whole(entry.source)
        if (entry.digest, self._sources.kind(entry.source)) == (digest, kind):
            entry.source.update(fields)
            entry.version = version
            return {"outcome": "unchanged", "source": dict(entry.source)}
        if "expected" in value and value["expected"] != entry.digest:
            raise RejectedError(412, "entry_moved_on", f"{key} has the digest {entry.digest}")
        source = self._sources.revise(entry.source, fields, kind, content)
        entry.version, entry.digest = version, digest
        return {"outcome": "replaced", "source": source}

    def touch(
        self, value: Mapping[str, Any], read: Callable[[Mapping[str, Any]], dict[str, Any]]
    ) -> object:
        """Give entries new versions and the like; `read` returns what a source is changed by."""
        origin = self._held().get(_text(value, "origin"), _HeldOrigin())
        entries = _objects(value, "entries", 1, 500)
        given = [(one, _text(one, "key"), _digest(one), _version(one)) for one in entries]
        changes = [read(one) for one in entries]
        outcomes = []
        for (one, key, digest, version), change in zip(given, changes, strict=True):
            old = one.get("moved_from") or key
            entry = origin.entries.get(old)
            if entry is None:
                entry, old = origin.entries.get(key), key  # it was moved already
            if entry is not None:
                self._sources.check_whole(entry.source)
            taken = old != key and key in origin.entries
            fits = entry is not None and entry.digest == digest and not taken
            if fits and entry is not None:
                del origin.entries[old]
                origin.entries[key] = entry
                entry.version = version
                entry.source.update(change)
            outcomes.append({"key": key, "outcome": "touched" if fits else "moved_on"})
        return {"data": outcomes}

    def complete(self, value: Mapping[str, Any]) -> object:
        """Take what an origin does not hold any more, and decide with the last part."""
        name, run, limit = _text(value, "origin"), _text(value, "run"), _share(value)
        part = _missing_in(value), _told_in(value)
        origin = self._held().setdefault(name, _HeldOrigin())
        if value.get("more"):
            origin.parts.setdefault(run, []).append(part)
            return {}
        if run not in origin.answers:
            parts = [*origin.parts.pop(run, []), part]
            for key, reason in {one: why for _, told in parts for one, why in told.items()}.items():
                if key in origin.entries:
                    origin.entries[key].told = reason
            missing = {key: one for gone, _ in parts for key, one in gone.items()}
            origin.note, origin.completed_at = value.get("note"), int(time.time() * 1000)
            origin.answers[run] = self._decide(origin, missing, limit)
        return origin.answers[run]

    def _decide(
        self, origin: _HeldOrigin, named: dict[str, tuple[str, bool]], limit: float
    ) -> dict[str, Any]:
        entries = self._seen(origin)
        missing = {
            key: digest
            for key, (digest, _) in named.items()
            if key in entries and entries[key].digest == digest
        }
        again = {key for key, digest in missing.items() if origin.missed.get(key) == digest}
        fresh = missing.keys() - again
        few = len(fresh) <= max(_FEW, math.floor(_SMALL_SHARE * len(entries)))
        withheld = len(missing) if len(missing) > limit * len(entries) else 0
        gone = again | {key for key in fresh if few and named[key][1]}
        if withheld:
            gone = set()
        kept = {key: digest for key, digest in missing.items() if key not in gone}
        self._sources.drop(entries[key].source["id"] for key in gone)
        self._held()
        origin.missed = kept
        return {
            "removed": len(gone),
            "waiting": 0 if withheld else len(kept),
            "withheld": withheld,
            "keys": sorted(gone)[:1000],
        }

    def rename(self, query: Query, value: Mapping[str, Any]) -> object:
        """Give an origin another name."""
        name, new = self._known(query), _text(value, "name")
        if new != name and new in self._origins:
            raise RejectedError(409, "origin_exists", f"there is an origin {new}")
        self._origins[new] = self._origins.pop(name)
        for entry in self._origins[new].entries.values():
            self._owners[entry.source["id"]] = new
        return self._shown(new)

    def delete(self, query: Query) -> None:
        """Delete an origin with its sources."""
        origin = self._origins.pop(self._known(query))
        self._sources.drop(entry.source["id"] for entry in origin.entries.values())
        self._held()

    # What these need

    def _held(self) -> dict[str, _HeldOrigin]:
        """Return the origins, without the entries whose sources are gone."""
        there = self._sources.by_id()
        if self._losses != self._sources.losses:
            self._losses = self._sources.losses
            self._owners = {one: name for one, name in self._owners.items() if one in there}
            for origin in self._origins.values():
                for key in [k for k, e in origin.entries.items() if e.source["id"] not in there]:
                    del origin.entries[key]
        return self._origins

    def _seen(self, origin: _HeldOrigin) -> dict[str, _HeldEntry]:
        """Return the entries of which the present API key sees the sources."""
        if self._sources.seen is None:
            return origin.entries
        return {key: one for key, one in origin.entries.items() if self._sources.sees(one.source)}

    def _known(self, query: Query) -> str:
        """Return the name of an origin that is to be changed."""
        name = origin_in(query)
        if name not in self._held():
            raise RejectedError(404, "unknown_origin", f"there is no origin {name}")
        for entry in self._origins[name].entries.values():
            self._sources.check_whole(entry.source)
        return name

    def _shown(self, name: str) -> dict[str, Any]:
        origin = self._origins[name]
        count = len(self._seen(origin))
        return {"name": name, "count": count, "completed_at": origin.completed_at}

    def _without_origin(
        self, kind: str, fields: Mapping[str, Any], content: Content
    ) -> dict[str, Any] | None:
        """Return a source that is the same and belongs to no origin."""
        if len(self._owners) == len(self._sources.by_id()):
            return None
        ids = {one["id"] for one in fields["collections"]}
        same = (
            source
            for source in self._sources.all()
            if source["id"] not in self._owners
            and source["name"] == fields["name"]
            and {one["id"] for one in source["collections"]} == ids
            and self._sources.made_from(source) == (kind, content)
        )
        return next(same, None)


def _shown(key: str, entry: _HeldEntry) -> dict[str, Any]:
    source = entry.source
    return {
        "key": key,
        "version": entry.version,
        "digest": entry.digest,
        "source_id": source["id"],
        "status": source["status"],
        "reason": source["reason"],
        "told": entry.is_told,
    }


# What is asked for --------------------------------------------------------------------------------


def _refused(message: str) -> RejectedError:
    return RejectedError(400, "invalid_request", message)


def _text(value: Mapping[str, Any], name: str) -> str:
    """Return an origin, a key or the like."""
    text = value.get(name)
    if not isinstance(text, str) or not 1 <= len(text) <= 2048 or not _is_plain(text):
        raise _refused(f"{name} is not a text of 1 to 2,048 characters")
    return text


def _is_plain(text: str) -> bool:
    return re.search("[\0\ud800-\udfff]", text) is None


def _digest(value: Mapping[str, Any]) -> str:
    digest = _text(value, "digest")
    if len(digest) > 128 or not digest.isascii():
        raise _refused("digest is not 1 to 128 characters of ASCII")
    return digest


def _version(value: Mapping[str, Any]) -> str | None:
    version = value.get("version")
    if version is None:
        return None
    if not isinstance(version, str) or not _is_plain(version) or len(version.encode()) > 2048:
        raise _refused("version is not a text of at most 2,048 bytes")
    return version


def _share(value: Mapping[str, Any]) -> float:
    limit = value.get("limit")
    if not isinstance(limit, int | float) or isinstance(limit, bool) or not 0 <= limit <= 1:
        raise _refused("limit is not 0 to 1")
    return limit


def _missing_in(value: Mapping[str, Any]) -> _Missing:
    listed = _objects(value, "missing")
    return {_text(one, "key"): (_digest(one), bool(one.get("sure"))) for one in listed}


def _told_in(value: Mapping[str, Any]) -> _Told:
    return {_text(one, "key"): str(one.get("reason")) for one in _objects(value, "told")}


def _objects(value: Mapping[str, Any], name: str, least: int = 0, most: int = 1000) -> list[Any]:
    listed = value.get(name) or []
    if not isinstance(listed, list) or not least <= len(listed) <= most:
        raise _refused(f"{name} is not a list of {least} to {most}")
    if not all(isinstance(one, dict) for one in listed):
        raise _refused(f"{name} is not a list of objects")
    return listed


def _check_digest(digest: str, kind: str, content: Content) -> None:
    if kind == "webpage" or not re.fullmatch("sha256:[0-9a-f]{64}", digest):
        return
    held = content.encode() if isinstance(content, str) else content
    if hashlib.sha256(held).hexdigest() != digest.removeprefix("sha256:"):
        raise RejectedError(400, "digest_mismatch", "the content has another digest")


def origin_in(query: Query) -> str:
    """Return the origin that a query names."""
    return _text({name: given[0] for name, given in query.items()}, "origin")


def _number(query: Query, name: str, least: int, most: int, usual: int) -> int:
    given = (query.get(name) or [str(usual)])[0]
    if name in query and not (given.isdecimal() and least <= int(given) <= most):
        raise _refused(f"{name} is not {least} to {most}")
    return int(given)
