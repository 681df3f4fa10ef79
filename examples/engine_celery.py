"""Feed the sections of a handbook in tasks of Celery, twice: the second time nothing is sent.

    python examples/engine_celery.py

Install it with `pip install 'knowledge-bot[ingest,serve]' celery`. The broker is in memory and the
worker is a thread, so it needs nothing else. docs/how-to/engines.md says what changes on several
machines.
"""

import os
import tempfile

from celery import Celery, group
from celery.contrib.testing.worker import start_worker

from handbook_rows import handbook_rows, rows_service
from knowledge_bot import Client
from knowledge_bot.ingest import IncompleteIngestionError, complete, ingest
from knowledge_bot.origins import Rows

app = Celery("handbook", broker="memory://", backend="cache+memory://")
app.conf.update(
    task_acks_late=True,  # a task is done when it has ended, not when it begins ...
    task_reject_on_worker_lost=True,  # ... and is delivered again when its process died
    worker_prefetch_multiplier=1,
)


@app.task
def feed(rows: list[dict[str, str]]) -> dict[str, int]:
    """Send some rows; whoever is given them again sends only what is not there."""
    with Client() as client:
        report = ingest(
            client,
            Rows(rows, key="id", text="body", title="title", name="handbook"),
            collections="col_default",
            ledger=os.environ["LEDGER"],  # for a service that does not announce `sync`
            complete=False,  # these are a part of the rows
            wait_ready=90,  # for rows that another worker is sending, or was when it died
        )
    if not report.ok or report.elsewhere:
        raise IncompleteIngestionError(report)
    return report.counts


def main() -> None:
    """Feed twice, ten sections per task, and ask."""
    with rows_service() as client, tempfile.TemporaryDirectory() as folder:
        os.environ["LEDGER"] = f"{folder}/ledger.db"
        rows = handbook_rows()
        parts = [rows[start : start + 10] for start in range(0, len(rows), 10)]
        with start_worker(app, perform_ping_check=False, concurrency=1, loglevel="ERROR"):
            for day in (1, 2):
                counts = group(feed.s(part) for part in parts).apply_async().get(timeout=60)
                created = sum(one["created"] for one in counts)
                unchanged = sum(one["unchanged"] for one in counts)
                print(f"day {day}: created {created}, unchanged {unchanged}")
                keys = [row["id"] for row in rows]
                complete(client, "handbook", keys, ledger=os.environ["LEDGER"])
        print(client.send_message(bot_id="bot_default", content="What is the late fee?").answer)


if __name__ == "__main__":
    main()
