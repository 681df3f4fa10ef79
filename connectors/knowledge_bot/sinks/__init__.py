"""Sinks: rows from engines that repeat work after a failure, each sent exactly once.

    from knowledge_bot.sinks import RowSink

    sink = RowSink(
        collections="col_handbook", ledger="postgresql://…/ledger", key="id", text="body"
    )
    report = sink.write(rows)

Ray, Spark, dlt, Celery and similar engines repeat a task when its worker dies, and the service
cannot recognise what it already has. So each row goes through a ledger that all workers share: what
was created is not sent again, and what a dead worker was sending is reported as unknown, never
guessed.

Three engines have their own modules, which need the engine: `knowledge_bot.sinks.dlt`,
`knowledge_bot.sinks.ray` and `knowledge_bot.sinks.spark`. For others, such as Celery, use a
`RowSink` in a task. It needs the extra `ingest`.
"""

from knowledge_bot._extras import require

require(__name__, "ingest", "defusedxml", "feedparser", "pathspec")

from knowledge_bot.sinks._row_sink import RowSink  # noqa: E402 - after what it needs

__all__ = ["RowSink"]
