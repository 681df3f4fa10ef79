"""The extension `sync` (docs/extensions.md): a service that is the book of what origins hold.

The sums by which a client and a service are compared, and the calls, each once for both clients.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from knowledge_bot._endpoints import (
    UNKNOWN_ORIGIN,
    Collections,
    Headers,
    Page,
    Request,
    Steps,
    check_number,
    collection_ids,
    endpoint,
    json_body,
    json_request,
    non_empty_text,
    page_fields,
    read_nothing,
    reader,
    sequence,
    source_fields,
    text_fields,
    unwrapped,
)
from knowledge_bot._uploads import OnProgress, Upload, UploadFile
from knowledge_bot.errors import ConfigurationError

if TYPE_CHECKING:  # pydantic is slow to load, so it waits for the first answer
    from knowledge_bot.models import SyncCompletion, SyncEntry, SyncOrigin, SyncPut, SyncSums

T = TypeVar("T")

BUCKETS = 256
SUM_MODULUS = 2**64

# As much as the extension allows in one request: of a list, of touches, of missing keys, of names.
_PAGE = 1000
_TOUCHES = 500
_MISSING = 1000
_NAMES = 500

LONGEST_NAME = 2048  # characters of an origin and a key
_LONGEST_VERSION = 2048  # bytes of UTF-8
_LONGEST_NOTE = 4096  # bytes of UTF-8
_LONGEST_DIGEST = 128

_NEEDS = ("sync",)

_TOUCHED = ("touched", "moved_on")


def bucket_of(key: str) -> int:
    """Return the bucket of an entry, 0 to 255."""
    return zlib.crc32(key.encode()) % BUCKETS


def mark_of(key: str, version: str | None) -> int:
    """Return the mark of an entry, which the sum of its bucket is made of."""
    import hashlib

    digest = hashlib.sha256(f"{key}\0{version or ''}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


@dataclass(frozen=True, slots=True)
class SyncTouch:
    """An entry whose content is the same.

    Attributes:
        key: of the entry.
        digest: the one that the entry has; the entry is touched only if it has it still.
        version: its version from now on.
        name: its source's name from now on; None: as it is.
        collections: its source's collections from now on; None: as they are.
        moved_from: the key that it has had until now; None: `key`.
    """

    key: str
    digest: str
    version: str | None = None
    name: str | None = None
    collections: Collections | None = None
    moved_from: str | None = None

    def fields(self) -> dict[str, Any]:
        """Return it as it is sent.

        Raises:
            ConfigurationError: it cannot be.
        """
        fields: dict[str, Any] = _identity(self.key, self.digest, self.version)
        if self.name is not None:
            fields["name"] = non_empty_text("name", self.name)
        if self.collections is not None:
            fields["collections"] = collection_ids(self.collections)
        if self.moved_from is not None:
            fields["moved_from"] = _text("moved_from", self.moved_from)
        return fields


@dataclass(frozen=True, slots=True)
class SyncMissing:
    """An entry that the origin does not hold any more.

    Attributes:
        key: of the entry.
        digest: the one that the entry has; it stays if it has another by then.
        reason: why it is missing, for people.
        sure: whether it may go at once; False: another run has to miss it, too.
    """

    key: str
    digest: str
    reason: str = ""
    sure: bool = True

    def fields(self) -> dict[str, Any]:
        """Return it as it is sent.

        Raises:
            ConfigurationError: it cannot be.
        """
        key, digest = _text("key", self.key), _digest(self.digest)
        return {"key": key, "digest": digest, "reason": self.reason, "sure": self.sure}


class SyncEndpoints:
    """The operations of the extension `sync`; without it each raises `UnsupportedError`.

    All of them have no second effect, so an unknown outcome is sent again.
    """

    @endpoint
    @staticmethod
    def compare_origin(origin: str) -> "Request[SyncSums]":
        """Return what the service holds of an origin, in short.

        Args:
            origin: the origin's name, 1 to 2,048 characters.
        """
        return Request("GET", _path("", origin), _read_sums, needs=_NEEDS)

    @sequence
    @staticmethod
    def list_entries(
        origin: str, *, bucket: int | None = None, status: str | Iterable[str] | None = None
    ) -> "Steps[list[SyncEntry]]":
        """Return the entries of an origin, in the order of their keys; all pages of them.

        Args:
            origin: the origin's name.
            bucket: only those in this bucket, 0 to 255; see `bucket_of`.
            status: only those with this status of their sources, or one of several.
        """
        query = {"limit": _PAGE, **_filters(bucket, status)}
        found: list[SyncEntry] = []
        after: str | None = None
        while True:
            place = {} if after is None else {"after": after}
            path = _path("/entries", origin, **query, **place)
            page = yield Request("GET", path, _read_entries(bucket, after), needs=_NEEDS)
            found += page.data
            after = page.following
            if after is None:
                return found

    @endpoint
    @staticmethod
    def put_text_source(
        *,
        origin: str,
        key: str,
        digest: str,
        version: str | None = None,
        expected: str | EllipsisType | None = ...,
        name: str,
        collections: Collections,
        content: str,
    ) -> "Request[SyncPut]":
        """Let the source of an origin's key be this text.

        Args:
            origin: the origin's name.
            key: names the item within the origin, 1 to 2,048 characters.
            digest: of the content, at most 128 characters of ASCII; the service checks one that is
                `sha256:` and 64 hexadecimal digits.
            version: says of the item that it is unchanged without its content, at most 2,048 bytes.
            expected: the digest that the service had when it was compared, None: it had no entry;
                by default whichever it has is replaced.
            name: the source's name.
            collections: the collections it belongs to, at least one.
            content: the text.

        Raises:
            PreconditionFailedError: `entry_moved_on`: it has another digest than `expected`.
            BadRequestError: `digest_mismatch`: the content has another digest.
        """
        identity = _put_fields(origin, key, digest, version, expected)
        return _put("/sync/write", {**text_fields(name, collections, content), **identity})

    @endpoint
    @staticmethod
    def put_webpage_source(
        *,
        origin: str,
        key: str,
        digest: str,
        version: str | None = None,
        expected: str | EllipsisType | None = ...,
        name: str,
        collections: Collections,
        url: str,
        headers: Headers | None = None,
    ) -> "Request[SyncPut]":
        """Let the source of an origin's key be this page, which the service scrapes.

        Arguments and errors are those of `put_text_source` and `create_webpage_source`; the digest
        is the client's own.
        """
        identity = _put_fields(origin, key, digest, version, expected)
        return _put("/sync/webpage", {**page_fields(name, collections, url, headers), **identity})

    @endpoint
    @staticmethod
    def put_file_source(
        *,
        origin: str,
        key: str,
        digest: str,
        version: str | None = None,
        expected: str | EllipsisType | None = ...,
        name: str,
        collections: Collections,
        file: UploadFile,
        filename: str | None = None,
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> "Request[SyncPut]":
        """Let the source of an origin's key be this file.

        Arguments and errors are those of `put_text_source` and `upload_source`.
        """
        identity = _put_fields(origin, key, digest, version, expected)
        upload = Upload.prepare(
            {**source_fields(name, collections), **identity},
            file,
            filename=filename,
            content_type=content_type,
            on_progress=on_progress,
            only_as="value",
        )
        return Request("PUT", "/sync/upload", _read_put, upload=upload, needs=_NEEDS)

    @sequence
    @staticmethod
    def touch_entries(origin: str, entries: Iterable[SyncTouch]) -> "Steps[dict[str, str]]":
        """Give entries whose content is the same new versions, names, collections or keys.

        Args:
            origin: the origin's name.
            entries: the entries, any number.

        Returns:
            `touched` or `moved_on`, of each key.
        """
        outcomes: dict[str, str] = {}
        for part in _parts([one.fields() for one in entries], _TOUCHES):
            fields = {"origin": _text("origin", origin), "entries": part}
            read = _read_touched([one["key"] for one in part])
            outcomes |= yield _post("/sync/touch", fields, read)
        return outcomes

    @sequence
    @staticmethod
    def complete_origin(
        origin: str,
        run: str,
        *,
        missing: Iterable[SyncMissing] = (),
        limit: float,
        note: str | None = None,
        told: Iterable[tuple[str, str]] = (),
    ) -> "Steps[SyncCompletion]":
        """Say that an origin was enumerated to its end, and what it does not hold any more.

        Args:
            origin: the origin's name.
            run: a text that no other run has; called again with it, the same is answered.
            missing: what the service has of it, and the origin has not.
            limit: which share of all entries may be missing, 0 to 1; if it is more, all of them
                are withheld.
            note: what the next run finds in `compare_origin`, at most 4,096 bytes.
            told: keys and the reasons of their sources' failures that somebody was told.
        """
        check_number("limit", limit, 0, 1)
        fields = {
            "origin": _text("origin", origin),
            "run": _text("run", run),
            "limit": limit,
            "note": _bounded("note", note, _LONGEST_NOTE),
        }
        gone = [one.fields() for one in missing]
        said = [{"key": _text("key", key), "reason": reason} for key, reason in told]
        several = max(len(_parts(gone, _MISSING)), len(_parts(said, _MISSING)), 1)
        result: Any = None
        for number in range(several):
            part = slice(number * _MISSING, (number + 1) * _MISSING)
            lists = {"missing": gone[part], "told": said[part]}
            if number + 1 < several:
                more = {**fields, **lists, "more": True}
                yield _post("/sync/complete", more, read_nothing)
            else:
                result = yield _post("/sync/complete", {**fields, **lists}, _read_completion)
        return result  # type: ignore[no-any-return] # the last answer

    @endpoint
    @staticmethod
    def overlapping_origins(
        origin: str, names: Sequence[str], collections: Collections
    ) -> Request[list[tuple[str | None, int]]]:
        """Return how many of these names of sources other origins hold in these collections.

        Args:
            origin: the name of the origin that is about to be fed.
            names: names of sources, at most 500.
            collections: the collections that they are about to be in.

        Returns:
            The name of each other origin, None for sources without one, and how many of the names
            it has; those that have most first.
        """
        if len(names) > _NAMES:
            raise ConfigurationError.of("names", f"expected at most {_NAMES}, not {len(names)}")
        fields = {
            "origin": _text("origin", origin),
            "names": [non_empty_text("names", name) for name in names],
            "collections": collection_ids(collections),
        }
        return _post("/sync/overlap", fields, _read_overlap)

    @endpoint
    @staticmethod
    def list_origins() -> "Request[list[SyncOrigin]]":
        """Return the origins that the service knows."""
        return Request("GET", "/sync/origins", _read_origins, needs=_NEEDS)

    @endpoint
    @staticmethod
    def rename_origin(origin: str, name: str) -> "Request[SyncOrigin]":
        """Give an origin another name; nothing is read again.

        Args:
            origin: the origin's name.
            name: its name from now on.

        Raises:
            NotFoundError: `unknown_origin`: there is none.
            ConflictError: `origin_exists`: another has that name.
        """
        path = _path("/origins", origin)
        body = json_body("PATCH", "/sync/origins", {"name": _text("name", name)})
        return Request("PATCH", path, _read_origin, body, needs=_NEEDS)

    @endpoint
    @staticmethod
    def delete_origin(origin: str) -> Request[None]:
        """Delete an origin with all its sources; one that is not there is fine.

        Args:
            origin: the origin's name.
        """
        path = _path("/origins", origin)
        return Request("DELETE", path, read_nothing, needs=_NEEDS, done_if=(UNKNOWN_ORIGIN,))


# Requests -----------------------------------------------------------------------------------------


def _path(below: str, origin: str, **query: object) -> str:
    return f"/sync{below}?{urlencode({'origin': _text('origin', origin), **query}, doseq=True)}"


def _filters(bucket: int | None, status: str | Iterable[str] | None) -> dict[str, object]:
    filters: dict[str, object] = {}
    if bucket is not None:
        check_number("bucket", bucket, 0, BUCKETS - 1, whole=True)
        filters["bucket"] = bucket
    if status is not None:
        several = [status] if isinstance(status, str) else status
        filters["status"] = [non_empty_text("status", one) for one in several]
    return filters


def _post(path: str, fields: Mapping[str, Any], read: Callable[[bytes], T]) -> Request[T]:
    return json_request("POST", path, fields, read, needs=_NEEDS)


def _put(path: str, fields: Mapping[str, Any]) -> "Request[SyncPut]":
    return json_request("PUT", path, fields, _read_put, needs=_NEEDS)


def _put_fields(
    origin: str, key: str, digest: str, version: str | None, expected: str | EllipsisType | None
) -> dict[str, Any]:
    fields = {"origin": _text("origin", origin), **_identity(key, digest, version)}
    if expected is not ...:
        fields["expected"] = None if expected is None else _digest(expected, "expected")
    return fields


def _identity(key: str, digest: str, version: str | None) -> dict[str, Any]:
    return {
        "key": _text("key", key),
        "digest": _digest(digest),
        "version": _bounded("version", version, _LONGEST_VERSION),
    }


def _parts(several: list[T], size: int) -> list[list[T]]:
    return [several[start : start + size] for start in range(0, len(several), size)]


# Checks of arguments ------------------------------------------------------------------------------


def _text(argument: str, value: object) -> str:
    """Return an origin, a key or the like, checked for what the extension allows."""
    if not isinstance(value, str):
        raise ConfigurationError.expected(argument, "a string", value)
    if not 0 < len(value) <= LONGEST_NAME:
        raise ConfigurationError.of(
            argument, f"expected 1 to {LONGEST_NAME} characters, not {len(value)}"
        )
    _bounded(argument, value, 4 * LONGEST_NAME)
    return value


def _bounded(argument: str, value: object, most: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConfigurationError.expected(argument, "a string", value)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigurationError.of(
            argument, "holds half of a surrogate pair, which is not Unicode text"
        ) from None
    if "\0" in value:
        raise ConfigurationError.of(argument, "holds a NUL")
    if size > most:
        raise ConfigurationError.of(argument, f"expected at most {most} bytes, not {size}")
    return value


def _digest(value: object, argument: str = "digest") -> str:
    fits = isinstance(value, str) and 0 < len(value) <= _LONGEST_DIGEST and value.isascii()
    if not fits or "\0" in value:  # type: ignore[operator] # a string by now
        raise ConfigurationError.of(
            argument, f"expected 1 to {_LONGEST_DIGEST} characters of ASCII, not {value!r:.80}"
        )
    return value  # type: ignore[return-value] # as above


# Answers ------------------------------------------------------------------------------------------

_read_sums = reader("SyncSums")
_read_put = reader("SyncPut")
_read_completion = reader("SyncCompletion")
_read_origin = reader("SyncOrigin")
_read_origins = reader("SyncOrigin", listed=True)
_read_page = reader("SyncEntry", listed=True, paged=True)


def _read_entries(bucket: int | None, after: str | None) -> "Callable[[bytes], Page[SyncEntry]]":
    """Return a parser of a page that leads on, with entries that were asked for."""

    def read(body: bytes) -> "Page[SyncEntry]":
        page: Page[SyncEntry] = _read_page(body)
        keys = [after or "", *(one.key for one in page.data)]
        if any(one >= two for one, two in pairwise(keys)):
            raise ValueError("its keys are not in order")
        if page.following is not None and keys[1:][-1:] != [page.following]:
            raise ValueError("its `next` is not its last key")
        if bucket is not None and any(bucket_of(key) != bucket for key in keys[1:]):
            raise ValueError(f"it has a key that is not of bucket {bucket}")
        return page

    return read


def _read_touched(keys: Iterable[str]) -> Callable[[bytes], dict[str, str]]:
    """Return a parser of the outcomes of these keys."""

    def read(body: bytes) -> dict[str, str]:
        said = {one.get("key"): str(one.get("outcome")) for one in _listed(body)}
        for key in keys:
            if said.get(key) not in _TOUCHED:
                raise ValueError(f"it does not say what became of {key!r}")
        return {key: said[key] for key in keys}

    return read


def _read_overlap(body: bytes) -> list[tuple[str | None, int]]:
    found: list[tuple[str | None, int]] = []
    for one in _listed(body):
        origin, names = one.get("origin"), one.get("names")
        if not isinstance(origin, str | None) or type(names) is not int:
            raise ValueError("it does not name origins and numbers")
        found.append((origin, names))
    return found


def _listed(body: bytes) -> list[dict[str, Any]]:
    import json

    answer = unwrapped(json.loads(body))
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
        raise ValueError("there is no list `data` of objects in it")
    return data
