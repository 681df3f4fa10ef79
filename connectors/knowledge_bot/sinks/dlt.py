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

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from knowledge_bot._extras import require
from knowledge_bot.errors import KnowledgeBotError
from knowledge_bot.sinks._row_sink import RowSink

require(__name__, "dlt", "dlt")

import dlt  # noqa: E402 - after what it needs
from dlt.common.destination.exceptions import DestinationTerminalException  # noqa: E402 - as above
from dlt.common.json import json  # noqa: E402 - as above
from dlt.common.storages import FileStorage  # noqa: E402 - as above

__all__ = ["knowledge_bot_destination"]


def knowledge_bot_destination(*, destination_name: str = "knowledge_bot", **options: Any) -> Any:
    """Return a dlt destination: each row of a pipeline's tables becomes a source.

    The key is the table's name and the row's key. Files are loaded one after the other, each with
    `concurrency` requests in flight. The dispositions `append` and `merge` do the same: unchanged
    rows are not sent again, and changed rows are. `replace` is refused, since the service deletes
    nothing.

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

    def load(file: str, table: dict[str, Any]) -> None:
        of_table = replace(sink, table=sink.table or table["name"])
        if table.get("write_disposition") == "replace":
            raise DestinationTerminalException(
                f"The table {table['name']}: the service deletes nothing, so nothing can be "
                "replaced; use write_disposition='append'. Nothing was sent"
            )
        try:
            of_table.check_columns(table["columns"])
            of_table.write(_rows(file))
        except KnowledgeBotError as error:
            raise DestinationTerminalException(f"The table {table['name']}: {error}") from error

    return dlt.destination(
        load,
        name=destination_name,
        batch_size=0,  # a file at a time: failures are raised when the rest of it is sent
        loader_file_format="typed-jsonl",
        max_parallel_load_jobs=1,
    )()


def _rows(file: str) -> Iterator[dict[str, Any]]:
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
