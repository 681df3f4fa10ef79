"""A sink for Ray Data: rows of a `Dataset`.

    from knowledge_bot.sinks.ray import KnowledgeBotDatasink

    sink = KnowledgeBotDatasink(
        collections="col_handbook", ledger="postgresql://…/ledger", key="id", text="body"
    )
    dataset.write_datasink(sink, concurrency=4)

Ray repeats a write task when its worker or its node dies; what it sent before is not sent again.
Needs the extra `ray`, on each node.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Unpack

from knowledge_bot._extras import require
from knowledge_bot.ingest import Report
from knowledge_bot.sinks._row_sink import RowSink, RowSinkOptions

require(__name__, "ray", "ray", "pyarrow")

from ray.data import Datasink  # noqa: E402 - after what it needs
from ray.data.block import BlockAccessor  # noqa: E402 - as above

__all__ = ["KnowledgeBotDatasink"]

# Rows of a block that are converted at once: a block may have hundreds of megabytes.
_ROWS = 1000


class KnowledgeBotDatasink(Datasink):
    """Writes a dataset: each row becomes a source.

    Args:
        options: as for `RowSink`: `collections`, `ledger`, `key`, `text`, and the others. Without a
            `client` each worker takes the service's address and key from its own environment, which
            `ray.init(runtime_env={"env_vars": …})` sets.

    Attributes:
        report: the counts of all tasks, once the dataset is written.

    Raises:
        ConfigurationError: an option cannot be used, or the dataset has no such column.
        LedgerError: the ledger's address cannot be used.
        IncompleteIngestionError: from `write_datasink`: some rows failed, and all others were
            created; or a task ended early.
    """

    def __init__(self, **options: Unpack[RowSinkOptions]) -> None:
        self._sink = RowSink(**options)
        self.report: Report | None = None

    def on_write_start(self, schema: Any = None) -> None:
        """Check the dataset's columns, before anything is written."""
        if schema is not None:
            self._sink.check_columns(schema.names)

    def write(self, blocks: Iterable[Any], ctx: Any) -> Report:  # noqa: ARG002 - Ray's
        """Write the blocks of one task."""
        return self._sink.write_part(_rows(blocks))

    def on_write_complete(self, write_result: Any) -> None:
        """Combine the reports of all tasks."""
        self.report = self._sink.finish(write_result.write_returns)

    def get_name(self) -> str:
        """Return the name that Ray shows."""
        return "KnowledgeBot"


def _rows(blocks: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for block in blocks:
        # Through Arrow, so that a missing value is None and not NaN.
        for batch in BlockAccessor.for_block(block).to_arrow().to_batches(_ROWS):
            yield from batch.to_pylist()
