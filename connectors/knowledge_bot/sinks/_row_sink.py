"""`RowSink`: sends batches of rows, which may be repeated."""

import contextlib
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Required

from knowledge_bot._client import Client
from knowledge_bot._endpoints import Collections
from knowledge_bot._freshness import ledger_of
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest import (
    IncompleteIngestionError,
    Ingestion,
    Ledger,
    Report,
    Skipped,
    Text,
)
from knowledge_bot.ingest._ledger import remove
from knowledge_bot.ingest._plan import OnUnknown
from knowledge_bot.ingest._report import FAILURES_KEPT, Outcome, shortened
from knowledge_bot.ingest._run import Prune, SharedOptions, shared_options
from knowledge_bot.ingest.sources._rows import (
    Column,
    MissingColumnError,
    check_fields,
    text_of,
    value_of,
)

_SHARED = (
    "two parts of this job have this key with different texts, and both are sources now; give each "
    "row a key of its own. `kbot ledger superseded` names the older source"
)

# A column that none of so many rows has is misspelt.
_ROWS_CHECKED = 100

_AGAIN = "Run it again with the same rows"


class RowSinkOptions(SharedOptions, total=False):
    """The fields of a `RowSink`, for the sinks that make one."""

    collections: Required[Collections]
    ledger: Required[Ledger | str | os.PathLike[str]]
    key: Required[Column]
    text: Required[Column]
    name: Column | None
    version: Column | None
    table: str | None
    client: Client | None


@dataclass(frozen=True, kw_only=True)
class RowSink:
    """Sends rows to collections; made once, and used by every worker.

    It can be pickled if its columns are names. The pickle holds the ledger's address, and the
    client with its API key if one was given.

    `knowledge_bot.ingest.IngestionOptions` describes `concurrency`, `on_unknown`, `rate`, `wait`,
    `ledger_wait`, `prune` and `wait_ready`. All but the rate are for each worker; the wait is by
    default long enough to notice that a worker on another machine died. A changed row replaces its
    source in place where the service announces the extension `sources` to this key. Parts of a job
    have no origin, so `prune` removes there what was superseded, not what is gone.

    Attributes:
        collections: where the rows go: ids, or `Collection` objects.
        ledger: remembers what was sent, for all workers: a `Ledger` or its address. For several
            machines use `postgresql://…`, with the extra `postgresql`.
        key: the column of the key: its name, or a function of the row; this and the next three as
            for `knowledge_bot.ingest.from_rows`. No two rows of a job may have the same key.
        text: the column of the text. A row without one is invalid.
        name: the column of the source's name; by default the key.
        version: a column that changes when the text does; by default the text is compared.
        table: a name for the rows, such as `articles`. Keys are prefixed by it, so that another
            table may have the same keys.
        client: sends the rows; by default each worker makes one from `KNOWLEDGE_BOT_BASE_URL` and
            `KNOWLEDGE_BOT_API_KEY` in its environment.

    Raises:
        ConfigurationError: an option cannot be used.
        LedgerError: the ledger's address cannot be used.
    """

    collections: Collections
    ledger: Ledger | str | os.PathLike[str]
    key: Column
    text: Column
    name: Column | None = None
    version: Column | None = None
    table: str | None = None
    client: Client | None = None
    concurrency: int = Ingestion.concurrency
    on_unknown: OnUnknown = Ingestion.on_unknown
    rate: float | None = Ingestion.rate
    wait: float = 90.0
    ledger_wait: float = Ingestion.ledger_wait
    prune: Prune = Ingestion.prune
    wait_ready: float = Ingestion.wait_ready

    def __post_init__(self) -> None:
        ledger = self._ingestion().ledger
        if ledger is None:
            raise ConfigurationError.of("ledger", "expected a Ledger or its address, not None")
        _ = ledger.database  # raises now if the address cannot be used
        object.__setattr__(self, "ledger", ledger)  # its repr shows no password
        check_fields(self._fields)
        table: object = self.table
        if table is not None and not (isinstance(table, str) and table.strip()):
            raise ConfigurationError.of("table", f"expected a name, not {table!r}")
        if self.client is not None and not isinstance(self.client, Client):
            raise ConfigurationError.expected("client", "a Client", self.client)

    @property
    def _fields(self) -> dict[str, Column | None]:
        return {"key": self.key, "text": self.text, "name": self.name, "version": self.version}

    def check_columns(self, columns: Iterable[str]) -> None:
        """Check that rows with these columns can be written, before any is.

        Raises:
            ConfigurationError: a column is missing.
        """
        there = list(columns)
        for option, column in self._fields.items():
            if isinstance(column, str) and column not in there:
                raise ConfigurationError.of(option, f"{MissingColumnError(column, there)}")

    def write(self, rows: Iterable[Any], *, origin: str | None = None) -> Report:
        """Send the rows that are not created yet, and wait for that.

        Args:
            rows: mappings, named tuples, or objects with attributes; they are taken one at a time.
            origin: a name for where these rows come from, if they are all that it has: rows that it
                had before are then gone, and `prune` removes them.

        Returns:
            A report: how many sources were created, how many rows were unchanged.

        Raises:
            IncompleteIngestionError: some rows failed, and all others were created. A row has no
                key or no text, the service refused it or was not reached, or the outcome is
                unknown. `report` has the counts and names them. Writing the same rows again is
                always safe.
            ConfigurationError: these are not rows, none of the first 100 has one of the columns, or
                there is no address or API key; nothing was sent.
            LedgerError: the ledger cannot be opened; nothing was sent.
        """
        return self.finish([self._write(rows, fewest=1, origin=origin)])

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
            ConfigurationError: as for `write`; of fewer than 100 rows without a column each is
                `invalid`, since an engine may put a few such rows into a part of their own.
            LedgerError: as for `write`.
        """
        return self._write(rows, fewest=_ROWS_CHECKED)

    def delete(self, rows: Iterable[Any]) -> list[str]:
        """Delete the sources of rows, where the service announces that this key may.

        Only the rows' keys are read. A row that is written again later is created again.

        Returns:
            The keys of those that were deleted; a row that the ledger does not know is fine.

        Raises:
            UnsupportedError: the service does not announce `sources` with `manage` to this key.
            ConfigurationError: a row has no key, or there is no address or API key.
            KnowledgeBotError: the service did not delete one; a call may be repeated.
            LedgerError: the ledger cannot be used, or does not know what became of one.
        """
        fields = {"key": self.key, "text": self.key, "name": None, "version": None}
        keys = []
        for item in self._items(rows, fields):
            if isinstance(item, Skipped):
                raise ConfigurationError.of(
                    "rows", f"{item.name}: {item.reason}. Nothing was deleted"
                )
            keys.append(item.key or "")
        with self._client() as client:
            return remove(client, ledger_of(self.ledger), self._ingestion().collections, keys)

    def _write(self, rows: Iterable[Any], *, fewest: int, origin: str | None = None) -> Report:
        if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
            raise ConfigurationError.expected("rows", "several rows", rows)
        items = self._items(self._checked(rows, fewest), self._fields)
        with self._client() as client:
            report = self._ingestion(origin).run(client, items)
        if report.stopped is not None or report.elsewhere:
            raise self._incomplete(report)
        return report

    def finish(self, parts: Iterable[Report]) -> Report:
        """Combine the reports of all parts, at the end of the engine's job.

        Args:
            parts: what `write_part` returned, of all parts of the job.

        Returns:
            The counts of all parts.

        Raises:
            IncompleteIngestionError: some rows failed, or rows of two parts have the same key and
                another text. The service has both of these; they are counted as `invalid` too.
        """
        report = _together(list(parts))
        if not report.ok:
            raise self._incomplete(report)
        return report

    def _incomplete(self, report: Report) -> IncompleteIngestionError:
        return IncompleteIngestionError(report, self._ingestion().collections, _AGAIN)

    def _client(self) -> contextlib.AbstractContextManager[Client]:
        return Client() if self.client is None else contextlib.nullcontext(self.client)

    def _ingestion(self, origin: str | None = None) -> Ingestion:
        return Ingestion(
            collections=self.collections,
            ledger=self.ledger,
            origin=origin,
            share=False,  # the engine has divided the rows already
            **shared_options(self),
        )

    def _checked(self, rows: Iterable[Any], fewest: int) -> Iterator[Any]:
        """Return the rows, unless so many of the first, or more, do not have a column."""
        each, first = iter(rows), list[Any]()
        missing = {option: name for option, name in self._fields.items() if isinstance(name, str)}
        absent: dict[str, MissingColumnError] = {}
        count = 0
        while missing and count < _ROWS_CHECKED:
            first += itertools.islice(each, 1)
            if len(first) == count:
                break
            count += 1
            for option, column in list(missing.items()):
                try:
                    value_of(first[-1], column, {})
                except MissingColumnError as error:
                    absent.setdefault(option, error)
                else:
                    del missing[option]
        if missing and count >= fewest:
            option = next(iter(missing))
            raise ConfigurationError.of(option, f"{absent[option]}. Nothing was sent")
        return itertools.chain(first, each)

    def _items(
        self, rows: Iterable[Any], fields: dict[str, Column | None]
    ) -> Iterator[Text | Skipped]:
        for number, row in enumerate(rows, 1):
            item = text_of(row, number, fields, {})
            if isinstance(item, Skipped):
                yield item
                continue
            key = item.key or ""
            if not item.content.strip():
                yield Skipped(f"the row '{shortened(key)}'", "it has no text", invalid=True)
            else:
                key = key if self.table is None else f"{self.table}/{key}"
                yield item.model_copy(update={"key": key})


def _together(parts: list[Report]) -> Report:
    if len(parts) == 1:
        return parts[0]
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
    failures = [*_shared_keys(parts)]
    counts["invalid"] += len(failures)
    for number, part in enumerate(parts, 1):
        for one in part.failures:
            is_numbered = one.key is None and one.name.startswith("row ")
            name = f"{one.name} of part {number}" if is_numbered else one.name
            failures.append(replace(one, name=name))
    longest = max((part.duration for part in parts), default=0.0)
    return Report(**counts, failures=tuple(failures[:FAILURES_KEPT]), duration=longest)  # type: ignore[arg-type] # counts are numbers


def _shared_keys(parts: list[Report]) -> Iterator[Outcome]:
    """Yield an outcome for each key that two parts sent with different texts.

    One of them replaced the source that the other had sent. Without this, the two would replace
    each other in every run.
    """
    runs = {part.run for part in parts}
    keys = {key for part in parts for run, key in part.older if run in runs - {part.run}}
    for key in sorted(keys):
        yield Outcome("invalid", key, key, _SHARED)
