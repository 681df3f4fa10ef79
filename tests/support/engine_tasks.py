"""The task that a worker of Celery runs for `engine_job.py`."""

import os
from pathlib import Path
from typing import Any

from celery import Celery

from engine_job import options, send_all
from knowledge_bot import KnowledgeBotError
from knowledge_bot.sinks import RowSink

app = Celery("rows", broker=os.environ["BROKER"])
app.conf.update(
    task_acks_late=True,  # a task is done when it has ended, not when it begins ...
    task_reject_on_worker_lost=True,  # ... and is delivered again when its process died
    worker_prefetch_multiplier=1,
)


@app.task
def write(number: int, rows: list[dict[str, Any]]) -> None:
    """Write a part; what it says in the end is in a file of its number, since no one else asks."""
    told = ""
    try:
        if os.environ["SINK"] == "naive":
            send_all(rows)
        else:
            RowSink(**options(os.environ["LEDGER"])).write(rows)
    except KnowledgeBotError as error:
        told = str(error)
        raise
    finally:
        (Path(os.environ["ENDED"]) / str(number)).write_text(told)
