"""The task that a worker of Celery runs for `engine_job.py`."""

import os
from typing import Any

from celery import Celery

from engine_job import options, send_all
from knowledge_bot.sinks import RowSink

app = Celery("rows", broker=os.environ["BROKER"], backend=os.environ["BROKER"])
app.conf.update(
    task_acks_late=True,  # a task is done when it has ended, not when it begins ...
    task_reject_on_worker_lost=True,  # ... and is delivered again when its process died
    worker_prefetch_multiplier=1,
)


@app.task
def write(rows: list[dict[str, Any]]) -> str | None:
    if os.environ["SINK"] == "naive":
        return send_all(rows)
    return str(RowSink(**options(os.environ["LEDGER"])).write(rows))
