"""`RowSink`: sends batches of rows, which may be repeated."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from knowledge_bot._client import Client
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest import (
    IncompleteIngestionError,
    Ingestion,
    Ledger,
    Report,
    Skipped,
    Text,
    from_rows,
)
from knowledge_bot.ingest._plan import OnUnknown
from knowledge_bot.ingest.sources._rows import Column, text_of

# Most failures in the report of several parts, as in that of one.
_FAILURES_KEPT = 1000

_AGAIN = "Run it again with the same rows"


@dataclass(frozen=True, kw_only=True)
class RowSink:
    """Sends rows to collections; made once, and used by every worker.

    It can be pickled. The pickle holds the ledger's address, and the client with its API key if one
    was given.

    Attributes:
        collections: where the rows go: ids, or `Collection` objects.
        ledger: remembers what was sent, for all workers: a `Ledger` or its address. For several
            machines use `postgresql://…`, with the extra `postgresql`.
        key: the column of the key: its name, or a function of the row.
        text: the column of the text.
        name: the column of the source's name; by default the key.
        version: a column that changes when the text does; by default the text is compared.
        table: a name for the rows, such as `articles`. Keys are prefixed by it, so that another
            table may have the same keys.
        client: sends the rows; by default each worker makes one from `KNOWLEDGE_BOT_BASE_URL` and
            `KNOWLEDGE_BOT_API_KEY` in its environment.
        concurrency: the most requests in flight per worker, and so the most unknown outcomes when
            one is killed.
        on_unknown: `hold` never sends an item of unknown outcome again, and fails until a person
            settles it; `resend` sends it again, and may create it twice.
        rate: the most rows per second, over all workers.
        wait: seconds to wait for rows that another worker is sending. A worker that died on another
            machine is noticed after a minute.

    Raises:
        ConfigurationError: an option cannot be used.
        LedgerError: the ledger's address cannot be used.
    """

    collections: Any
    ledger: Ledger | str
    key: Column
    text: Column
    name: Column | None = None
    version: Column | None = None
    table: str | None = None
    client: Client | None = None
    concurrency: int = 8
    on_unknown: OnUnknown = "hold"
    rate: float | None = None
    wait: float = 90.0

    def __post_init__(self) -> None:
        ledger = self._ingestion().ledger
        if ledger is None:
            raise ConfigurationError("ledger: expected a Ledger or its address, not None")
        _ = ledger.database  # raises now if the address cannot be used
        object.__setattr__(self, "ledger", ledger)  # its repr shows no password
        from_rows([], key=self.key, text=self.text, name=self.name, version=self.version)
        table: object = self.table
        if table is not None and not (isinstance(table, str) and table.strip()):
            raise ConfigurationError(f"table: expected a name, not {table!r}")
        if self.client is not None and not isinstance(self.client, Client):
            raise ConfigurationError(f"client: expected a Client, not {type(self.client).__name__}")

    def check_columns(self, columns: Iterable[str]) -> None:
        """Check that rows with these columns can be written, before any is.

        Raises:
            ConfigurationError: a column is missing.
        """
        there = list(columns)
        for option in ("key", "text", "name", "version"):
            column = getattr(self, option)
            if isinstance(column, str) and column not in there:
                raise ConfigurationError(
                    f"{option}: there is no column {column!r}; there are {', '.join(there)}"
                )

    def write(self, rows: Iterable[Any]) -> Report:
        """Send the rows that are not created yet, and wait for that.

        Args:
            rows: mappings, named tuples, or objects with attributes; they are taken one at a time.

        Returns:
            A report: how many sources were created, how many rows were unchanged.

        Raises:
            IncompleteIngestionError: some rows failed, and all others were created. A row has no
                key or no text, the service refused it or was not reached, or the outcome is
                unknown. `report` has the counts and names them. Writing the same rows again is
                always safe.
            ConfigurationError: these are not rows, or there is no address or API key.
            LedgerError: the ledger cannot be opened; nothing was sent.
        """
        return self.finish([self.write_part(rows)])

    def write_part(self, rows: Iterable[Any]) -> Report:
        """Send one of several parts, as a worker of an engine does.

        A row that fails does not fail its part, since repeating the part would not help: it is in
        the report, and `finish` raises. A part that ended early, because the service or the ledger
        failed, raises here.

        Args:
            rows: as for `write`.

        Returns:
            The part's report, for `finish`. It can be pickled.

        Raises:
            IncompleteIngestionError: the part ended early. What was sent is recorded.
            ConfigurationError: as for `write`.
            LedgerError: as for `write`.
        """
        if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
            raise ConfigurationError(f"rows: expected several rows, not {type(rows).__name__}")
        with contextlib.ExitStack() as closing:
            client = self.client or closing.enter_context(Client())
            report = self._ingestion().run(client, self._items(rows))
        if report.stopped is not None or report.elsewhere:
            raise self._incomplete(report)
        return report

    def finish(self, parts: Iterable[Report]) -> Report:
        """Combine the reports of all parts, at the end of the engine's job.

        Returns:
            The counts of all parts.

        Raises:
            IncompleteIngestionError: some rows failed.
        """
        report = _together(list(parts))
        if not report.ok:
            raise self._incomplete(report)
        return report

    def _incomplete(self, report: Report) -> IncompleteIngestionError:
        return IncompleteIngestionError(report, self._ingestion().collections, _AGAIN)

    def _ingestion(self) -> Ingestion:
        return Ingestion(
            collections=self.collections,
            ledger=self.ledger,  # type: ignore[arg-type] # it takes an address as well
            concurrency=self.concurrency,
            on_unknown=self.on_unknown,
            rate=self.rate,
            wait=self.wait,
            share=False,  # the engine has divided the rows already
        )

    def _items(self, rows: Iterable[Any]) -> Iterator[Text | Skipped]:
        fields = {"key": self.key, "text": self.text, "name": self.name, "version": self.version}
        for number, row in enumerate(rows, 1):
            item = text_of(row, number, fields, {})
            if isinstance(item, Skipped):
                yield item
            elif not item.content.strip():
                yield Skipped(f"the row {item.key!r}", "it has no text", invalid=True)
            else:
                key = item.key if self.table is None else f"{self.table}/{item.key}"
                yield item.model_copy(update={"key": key})


def _together(parts: list[Report]) -> Report:
    if len(parts) == 1:
        return parts[0]
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
    failures = [one for part in parts for one in part.failures]
    longest = max((part.duration for part in parts), default=0.0)
    return Report(**counts, failures=tuple(failures[:_FAILURES_KEPT]), duration=longest)  # type: ignore[arg-type] # counts are numbers
