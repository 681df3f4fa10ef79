"""A ledger as lines of JSON: how it moves to another place, in SQLite or PostgreSQL.

The first line says which version of the tables it is, each of the others holds a row of one table,
and the last one has the counts, so that lines that were cut off are not taken for all of them.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from knowledge_bot._database import Connection
from knowledge_bot.ingest import _statements as sql
from knowledge_bot.ingest._schema import LedgerError, live_runs
from knowledge_bot.ingest._store import expire_run

# Rows that are inserted together.
_AT_ONCE = 2000


def lines_of(connection: Connection, name: str) -> Iterator[str]:
    """Yield a ledger's lines, as it is at this moment.

    Raises:
        LedgerError: a run is using it.
    """
    with connection.standing_still():
        if live_runs(connection):
            raise LedgerError(
                f"a run is using {name} right now, so nothing was exported; try again when it has "
                "ended"
            )
        yield json.dumps({"ledger": sql.VERSION})
        counts = dict.fromkeys(sql.EXPORTED, 0)
        for table in sql.EXPORTED:
            columns = connection.columns(f"kbot_{table}")
            query = f"SELECT {', '.join(columns)} FROM kbot_{table} ORDER BY 1"  # noqa: S608 - ours
            for row in itertools.chain.from_iterable(connection.batches(query)):
                counts[table] += 1
                yield json.dumps({table: dict(zip(columns, row, strict=True))}, default=_of_bytes)
        yield json.dumps({"end": counts})


def fill(connection: Connection, lines: Iterable[str]) -> dict[str, int]:
    """Fill the tables of a new ledger, in a transaction; return how many rows each has.

    Raises:
        LedgerError: these are not all lines of an export of this version.
    """
    rows = _rows(lines)
    if next(rows, None) != ("ledger", sql.VERSION):
        raise _no_export(f"it does not begin as an export of version {sql.VERSION}")
    counts: Counter[str] = Counter()
    expected: object = None
    for table, several in itertools.groupby(rows, lambda row: row[0]):
        values = (value for _, value in several)
        if table == "end":
            expected = next(values)
            break
        if table not in sql.EXPORTED:
            raise _no_export(f"{table!r} is no table of a ledger")
        counts[table] = _load(connection, f"kbot_{table}", values)
    there = {table: counts[table] for table in sql.EXPORTED}
    if there != expected or next(rows, None) is not None:
        raise _no_export("lines are missing, or there are too many")
    for (run,) in connection.rows(sql.CLAIMING_RUNS):
        expire_run(connection, run)
    return there


def _rows(lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(lines, 1):
        try:
            ((table, value),) = json.loads(line, object_hook=_to_bytes).items()
        except (ValueError, AttributeError):
            raise _no_export(f"line {number} is not as an export has it") from None
        yield table, value


def _load(connection: Connection, table: str, values: Iterator[Any]) -> int:
    columns, count = connection.columns(table), 0
    insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {{rows}}"  # noqa: S608 - ours
    while several := list(itertools.islice(values, _AT_ONCE)):
        try:
            rows = [[value[column] for column in columns] for value in several]
        except (LookupError, TypeError):
            raise _no_export(f"a row of {table} is not as an export has it") from None
        connection.insert(insert, rows)
        count += len(rows)
    if "number" in columns and not connection.sqlite:
        connection.run(sql.SET_NUMBERS.format(table=table))
    return count


def _of_bytes(value: Any) -> dict[str, str]:
    return {"hex": bytes(value).hex()}


def _to_bytes(value: dict[str, Any]) -> Any:
    return bytes.fromhex(value["hex"]) if value.keys() == {"hex"} else value


def _no_export(reason: str) -> LedgerError:
    return LedgerError(f"these are not the lines of a ledger's export: {reason}. Nothing was made")
