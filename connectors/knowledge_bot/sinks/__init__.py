"""Sinks: rows of an engine that replays its work, each a source exactly once.

    from knowledge_bot.sinks import RowSink

    sink = RowSink(
        collections="col_handbook", ledger="postgresql://…/ledger", key="id", text="body"
    )
    report = sink.write(rows)

Ray, Spark, dlt, Celery and their like run a piece of work again when the worker that did it dies,
and the service cannot recognise what it has seen. So each row goes through a ledger that all
workers share: what is there already is not sent again, and what a dead worker was just sending is
unknown, named, and never guessed about.

Three engines have faces of their own, in modules that need the engine: `knowledge_bot.sinks.dlt`,
`knowledge_bot.sinks.ray` and `knowledge_bot.sinks.spark`. Elsewhere, as in a task of Celery, a
`RowSink` is all it takes. It needs the extra `ingest`.
"""

from knowledge_bot._extras import require

require(__name__, "ingest", "defusedxml", "feedparser", "pathspec")

from knowledge_bot.sinks._row_sink import RowSink  # noqa: E402 - after what it needs

__all__ = ["RowSink"]
