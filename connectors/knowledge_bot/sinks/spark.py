"""A sink for Spark: rows of a `DataFrame`, through Spark's Python data sources (Spark 4).

    from knowledge_bot.sinks.spark import KnowledgeBotDataSource

    spark.dataSource.register(KnowledgeBotDataSource)
    (
        frame.write.format("knowledge_bot")
        .option("collections", "col_handbook")
        .option("ledger", "postgresql://…/ledger")
        .option("key", "id")
        .option("text", "body")
        .mode("append")
        .save()
    )

Spark repeats a partition's task when its executor dies; what it sent before is not sent again.
Needs the extra `spark`, on the driver and on each executor.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from knowledge_bot._client import Client
from knowledge_bot._extras import require
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest import Report
from knowledge_bot.sinks._row_sink import RowSink

require(__name__, "spark", "pyspark", "pyarrow")

from pyspark.sql.datasource import (  # noqa: E402 - after what it needs
    DataSource,
    DataSourceArrowWriter,
    WriterCommitMessage,
)

__all__ = ["KnowledgeBotDataSource"]

_NUMBERS = {
    "concurrency": int, "rate": float, "wait": float, "ledger_wait": float, "wait_ready": float
}  # fmt: skip
_WORDS = ("ledger", "key", "text", "name", "version", "table", "on_unknown", "prune")
_NEEDED = ("collections", "ledger", "key", "text")
_OF_THE_CLIENT = ("base_url", "api_key")
_OPTIONS = ("collections", *_WORDS, *_NUMBERS, *_OF_THE_CLIENT)


class KnowledgeBotDataSource(DataSource):
    """The format `knowledge_bot` for writing: each row becomes a source.

    Options are the fields of `RowSink`, as text: `collections` (ids, with commas), `ledger`, `key`
    and `text` (columns), and optionally the others but `client`. The service's address and key come
    from the environment of the executors, or from the options `base_url` and `api_key`. Spark may
    show options in its plans and logs, so prefer the environment for the key.

    The mode is `append`: unchanged rows are not sent again, and changed ones replace their sources
    in place where the service announces the extension `sources`. `overwrite` is refused, since a
    writer does not see which rows are gone; `RowSink.delete` deletes rows, and `RowSink.write` with
    an `origin` and `prune` those that a table no longer has.

    Raises:
        ConfigurationError: an option is missing, unknown or wrong, a column is missing, or the mode
            is `overwrite`; nothing was sent.
        IncompleteIngestionError: some rows failed, and all others were created; or a partition
            ended early, and Spark's retries did not help. Spark shows it as text.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "knowledge_bot"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer for rows of a schema."""
        if overwrite:
            raise ConfigurationError.of(
                "mode",
                "this writer removes nothing, so nothing can be overwritten; use "
                "mode('append'): what is there already is not sent again. Nothing was sent",
            )
        sink = _sink_of(self.options)
        sink.check_columns(schema.fieldNames())
        return _Writer(sink)


@dataclass
class _Written(WriterCommitMessage):
    report: Report


class _Writer(DataSourceArrowWriter):
    def __init__(self, sink: RowSink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _Written(self._sink.write_part(_rows(iterator)))

    def commit(self, messages: list[Any]) -> None:
        self._sink.finish(message.report for message in messages if message is not None)


def _rows(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _sink_of(options: Mapping[str, str]) -> RowSink:
    given = {name.lower(): value for name, value in options.items() if name.lower() != "path"}
    unknown = sorted(given.keys() - set(_OPTIONS))
    if unknown:
        raise ConfigurationError(
            f"option({unknown[0]!r}): there is no such option; there are {', '.join(_OPTIONS)}"
        )
    missing = [name for name in _NEEDED if not given.get(name)]
    if missing:
        raise ConfigurationError(f"option({missing[0]!r}) is missing. Nothing was sent")
    values: dict[str, Any] = {name: given[name] for name in _WORDS if name in given}
    if given.get("prune", "").lower() in ("true", "false"):
        values["prune"] = given["prune"].lower() == "true"
    values["collections"] = [one.strip() for one in given["collections"].split(",")]
    for name, kind in _NUMBERS.items():
        if name in given:
            try:
                values[name] = kind(given[name])
            except ValueError:
                raise ConfigurationError(
                    f"option({name!r}): expected a number, not {given[name]!r}"
                ) from None
    if any(name in given for name in _OF_THE_CLIENT):
        values["client"] = Client(given.get("api_key"), given.get("base_url"))
    return RowSink(**values)
