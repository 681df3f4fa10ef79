"""A sink for dlt: rows of a pipeline's tables.

    import dlt
    from knowledge_bot.sinks.dlt import knowledge_bot_destination

    destination = knowledge_bot_destination(
        collections="col_handbook", ledger="sqlite:///kbot.db", key="id", text="body"
    )
    dlt.pipeline("handbook", destination=destination).run(rows, table_name="articles")

dlt loads each file of a load package again after a crash; what was sent before is not sent again.
Needs the extra `dlt`.
"""

import itertools
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from knowledge_bot._extras import require
from knowledge_bot.errors import KnowledgeBotError
from knowledge_bot.sinks._row_sink import RowSink, RowSinkOptions

require(__name__, "dlt", "dlt")

import dlt  # noqa: E402 - after what it needs
from dlt.common.destination.exceptions import DestinationTerminalException  # noqa: E402 - as above
from dlt.common.json import json  # noqa: E402 - as above
from dlt.common.storages import FileStorage  # noqa: E402 - as above
from dlt.common.storages.load_package import ParsedLoadJobFileName  # noqa: E402 - as above

if TYPE_CHECKING:
    from knowledge_bot.ingest import Report

__all__ = ["knowledge_bot_destination"]

logger: logging.Logger = logging.getLogger("knowledge_bot.sinks")

_LEFT_OUT = (
    "The table %s: left out since they are marked as deleted: %d. If the service has sources of "
    "these rows, they stay; prune=True deletes them where the service can do that"
)

# In the name of a column that holds what did not fit the type of another: `id▶v_text` of `id`, or
# `id__v_text`, by the naming convention.
_VARIANT = re.compile("(?:▶|__)v_")


@dlt.destination(  # type: ignore[untyped-decorator,unused-ignore]
    name="knowledge_bot",
    batch_size=0,  # a file at a time: failures are raised when the rest of it is sent
    loader_file_format="typed-jsonl",
    max_parallel_load_jobs=1,
)
def _knowledge_bot(file: str, table: dict[str, Any]) -> None:
    # On a module's level, so that dlt's own commands find the class that dlt makes of it.
    raise DestinationTerminalException(
        f"The table {table['name']}: only a program that makes the destination with "
        f"knowledge_bot_destination(…) can load {file}. Nothing was sent"
    )


def knowledge_bot_destination(
    *, destination_name: str = "knowledge_bot", **options: Unpack[RowSinkOptions]
) -> Any:
    """Return a dlt destination: each row of a pipeline's tables becomes a source.

    The key is the table's name and the row's key. Files are loaded one after the other, each with
    `concurrency` requests in flight. The dispositions `append` and `merge` do the same: unchanged
    rows are not sent again, and changed rows are; where the service announces the extension
    `sources`, they replace their sources in place.

    With `prune=True` (or another value of it) `replace` also removes the rows that a table no
    longer has, under the guards of every ingestion: many at once only when the next load misses
    them, too. All files of a table are then loaded with its last one. Merged rows with a mark in a
    `hard_delete` column are deleted. Without `prune`, `replace` is refused, and such rows are left
    out, with a warning in the log. The strategy `scd2` is always refused.

    A value that did not fit its column's type, and that dlt put into a column of its own, such as
    `id▶v_text`, counts as the value of `id`.

    A job that fails raises at once, and its load package stays pending: the next run of the
    pipeline continues it. dlt does not retry it, since all useful retries are made while it runs.

    Args:
        destination_name: the name that dlt keeps the pipeline's state under.
        options: as for `RowSink`: `collections`, `ledger`, `key`, `text`, and the others; `table`
            replaces the table's name in the keys.

    Raises:
        ConfigurationError: an option cannot be used.
        LedgerError: the ledger's address cannot be used.
    """
    sink = RowSink(**options)
    loaded: dict[str, list[Report]] = {}  # of the files of one package, which hold one job's rows

    def load(file: str, table: dict[str, Any]) -> None:
        _check_disposition(table, prunes=bool(sink.prune))
        of_table = replace(sink, table=sink.table or table["name"])
        package = Path(file).parents[1].name
        earlier = loaded.get(package, [])
        try:
            of_table.check_columns(table["columns"])
            if table.get("write_disposition") == "replace":
                files = _files_of_table(file)
                if files:
                    rows = itertools.chain.from_iterable(_rows(one, table) for one in files)
                    of_table.write(rows, origin=of_table.table)
                return
            deleted: list[dict[str, Any]] = []
            report = of_table.write_part(_without_deleted(_rows(file, table), table, deleted))
            if deleted and sink.prune:
                of_table.delete(deleted)
            elif deleted:
                logger.warning(_LEFT_OUT, table["name"], len(deleted))
            of_table.finish([*earlier, report])
        except KnowledgeBotError as error:
            raise DestinationTerminalException(f"The table {table['name']}: {error}") from error
        loaded.clear()
        loaded[package] = [*earlier, report]

    return _knowledge_bot(destination_callable=load, destination_name=destination_name)


def _check_disposition(table: dict[str, Any], *, prunes: bool) -> None:
    refused = ""
    if table.get("write_disposition") == "replace" and not prunes:
        refused = "without prune=True nothing is removed, so nothing can be replaced"
    elif table.get("x-merge-strategy") == "scd2":
        refused = "no source can be retired, as the strategy scd2 does"
    if refused:
        raise DestinationTerminalException(
            f"The table {table['name']}: {refused}; use write_disposition='append'. Nothing was "
            "sent"
        )


def _files_of_table(file: str) -> list[str]:
    """Return all files of a table in a load package, if this is the last one to load."""
    table, package = ParsedLoadJobFileName.parse(Path(file).name).table_name, Path(file).parents[1]

    def found(folder: Path) -> list[str]:
        names = (one.name for one in folder.iterdir())
        same = (one for one in names if ParsedLoadJobFileName.parse(one).table_name == table)
        return [str(folder / one) for one in same]

    return [] if found(package / "new_jobs") else [*found(package / "completed_jobs"), file]


def _without_deleted(
    rows: Iterable[dict[str, Any]], table: dict[str, Any], deleted: list[dict[str, Any]]
) -> Iterator[Any]:
    """Yield the rows that are not marked as deleted, and put the others into a list."""
    columns = table["columns"] if table.get("write_disposition") == "merge" else {}
    marks = [name for name, column in columns.items() if column.get("hard_delete")]
    for row in rows:
        if any(row.get(name) not in (None, False) for name in marks):
            deleted.append(row)
        else:
            yield row


def _rows(file: str, table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    empty = dict.fromkeys(table["columns"])  # dlt leaves out what is None
    for row in _rows_as_written(file):
        whole = {**empty, **row}
        for name, value in row.items():
            column, *variant = _VARIANT.split(name)
            if variant and value is not None and whole.get(column) is None:
                whole[column] = value
        yield whole


def _rows_as_written(file: str) -> Iterator[dict[str, Any]]:
    if file.endswith(".parquet"):
        from pyarrow.parquet import ParquetFile

        with ParquetFile(file) as opened:
            for batch in opened.iter_batches():
                yield from batch.to_pylist()
        return
    with FileStorage.open_zipsafe_ro(file) as lines:
        for line in lines:
            found = json.typed_loads(line)
            yield from [found] if isinstance(found, dict) else found
