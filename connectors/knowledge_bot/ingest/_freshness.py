"""Whether what a bot answered from is still what the sources say."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from knowledge_bot._database import Connection
from knowledge_bot.ingest._listings import DIGEST_SIZE, version_of_stat
from knowledge_bot.ingest._store import (
    Row,
    State,
    item_ids,
    rows_where,
)

Verdict = Literal["current", "changed", "moved", "gone", "unknown"]


class Freshness(NamedTuple):
    """What became of a source since a bot answered from it.

    Attributes:
        source_id: the source.
        name: the name that the answer has for it.
        verdict: `current`: it says what the answer was given from. `changed`: it says something
            else by now, or was replaced. `moved`: it says the same under another name. `gone`: it
            is not there any more. `unknown`: the ledger, or this machine, cannot tell.
        as_of: when that was seen, in UTC: now for a file that was looked at, else when the ledger
            recorded it.
        key: the item's key in the ledger; None if it has none.
    """

    source_id: str
    name: str
    verdict: Verdict
    as_of: datetime
    key: str | None = None


def freshness(connection: Connection, answer: Any, service: str | None) -> Iterator[Freshness]:
    """Yield what became of each source that an answer names, as far as a ledger knows.

    Where no service is given, it is that of any.
    """
    named = answer.get("sources") if isinstance(answer, Mapping) else None
    named = named if named is not None else getattr(answer, "sources", None)
    sources = [each for each in named or () if isinstance(each, Mapping) and "id" in each]
    rows, now = _rows(connection, sources, service), datetime.now(UTC)
    ids = [str(each["id"]) for each in sources]
    query = "SELECT source_id, superseded_at, key FROM kbot_superseded WHERE source_id {ids}"
    older = {each: rest for each, *rest in connection.of_ids(query, ids)}
    for each in sources:
        source_id, name = str(each["id"]), str(each.get("name", ""))
        if (row := rows.get(source_id)) is not None:
            verdict, seen = _verdict(row, each)
            moment = now if seen is None else datetime.fromtimestamp(seen, UTC)
            yield Freshness(source_id, name, verdict, moment, row.key)
        elif source_id in older:
            at, key = older[source_id]
            yield Freshness(source_id, name, "changed", datetime.fromtimestamp(at, UTC), key)
        else:
            yield Freshness(source_id, name, "unknown", now)


def _rows(
    connection: Connection, sources: Sequence[Mapping[str, Any]], service: str | None
) -> dict[str, Row]:
    """Return the rows of sources, by source.

    No index has their ids, since each new source would have to be written to it. Most are found by
    the keys that their names lead to, and the others by reading all rows.
    """
    scopes = {
        number: (of, joined.split(","))
        for number, of, joined in connection.rows(
            "SELECT number, service, collections FROM kbot_scopes"
        )
        if service in (None, of)
    }
    prefixes: dict[int, list[str]] = {number: [] for number in scopes}
    for scope, name in connection.rows("SELECT scope, name FROM kbot_origins"):
        prefixes.setdefault(scope, []).append(f"{name.partition(' [')[0]}/")
    ids = set()
    for number, of in scopes.items():
        identify = item_ids(*of)
        for each in sources:
            name, url = str(each.get("name", "")), str(each.get("url") or "")
            ids |= {identify(key) for key in (name, url, *(p + name for p in prefixes[number]))}
    wanted = {str(each["id"]) for each in sources}
    rows = rows_where(connection, "id {ids}", ids=list(ids), dead=())
    found = {row.source_id or "": row for row in rows if row.source_id in wanted}
    if left := wanted - found.keys():
        rows = rows_where(connection, "source_id {ids}", ids=sorted(left), dead=())
        found.update({row.source_id or "": row for row in rows if row.scope in scopes})
    return found


def _verdict(row: Row, named: Mapping[str, Any]) -> tuple[Verdict, int | None]:
    """Return what became of an item's source, and when that was recorded; None: just now."""
    if row.gone_at is not None or row.gone_reason is not None:
        return "gone", row.gone_at or row.updated_at
    if row.state != State.CREATED or len(row.digest or b"") != DIGEST_SIZE:
        return "changed", row.updated_at
    revision = named.get("revision")
    if revision != row.source_revision and None not in (revision, row.source_revision):
        return "changed", row.updated_at
    if revision is None and row.source_revision is not None and row.ready_at is None:
        return "unknown", row.updated_at  # it may have been the text before
    if revision is not None and row.source_revision is None:
        return "unknown", row.updated_at
    verdict: Verdict = _of_file(row) if row.kind == "file" else "current"
    if verdict == "current" and named.get("name") not in (None, row.name or row.key):
        verdict = "moved"
    return verdict, None if row.kind == "file" else row.updated_at


def _of_file(row: Row) -> Verdict:
    """Return whether a file is as it was sent, by its content if anything about it changed."""
    path = next(filter(os.path.isabs, (row.location or "", row.key)), "")
    try:
        if version_of_stat(os.stat(path)) == row.version:  # noqa: PTH116 - a `Path` costs more
            return "current"
        with open(path, "rb") as stream:  # noqa: PTH123 - as above
            digest = hashlib.file_digest(stream, "sha256").digest()[:DIGEST_SIZE]
    except (FileNotFoundError, NotADirectoryError):
        # Without its folder this may be another machine.
        return "gone" if os.path.isdir(os.path.dirname(path)) else "unknown"  # noqa: PTH112, PTH120 - as above
    except OSError:
        return "unknown"
    return "current" if digest == row.digest else "changed"
