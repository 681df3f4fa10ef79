"""Load the sections of a handbook with dlt, twice: the second time only what is new is sent.

    python examples/engine_dlt.py

Install it with `pip install 'knowledge-bot[ingest,serve]' dlt`. It starts the embedded service, and
leaves nothing behind. docs/how-to/engines.md says what changes for your own pipeline.
"""

import os
import tempfile
from collections.abc import Iterator
from typing import Any

from handbook_rows import handbook_rows, rows_service
from knowledge_bot import Client
from knowledge_bot.ingest import IncompleteIngestionError, complete, ingest
from knowledge_bot.origins import Rows


def feed(rows: list[dict[str, Any]], table: dict[str, Any]) -> None:
    """Send some rows of a table; whoever is given them again sends only what is not there."""
    with Client() as client:
        report = ingest(
            client,
            Rows(
                rows,
                key=lambda row: f"{table['name']}/{row['id']}",
                text="body",
                title="title",
                name="handbook",
            ),
            collections="col_default",
            ledger=os.environ["LEDGER"],  # for a service that does not announce `sync`
            complete=False,  # these are a part of the rows
            wait_ready=90,  # for rows that another process is sending, or was when it died
        )
    if not report.ok or report.elsewhere:
        raise IncompleteIngestionError(report)


def sections(days: int) -> Iterator[dict[str, str]]:
    """Yield the handbook's sections, and a notice for each day after the first."""
    yield from handbook_rows()
    for day in range(2, days + 1):
        yield {"id": f"notice {day}", "title": "Notice", "body": f"Day {day}: the kiln is mended."}


def main() -> None:
    """Run the pipeline on two days, and ask."""
    import dlt  # here, so that `feed` can be tested where there is none

    with rows_service() as client, tempfile.TemporaryDirectory() as folder:
        os.environ["LEDGER"] = f"{folder}/ledger.db"
        destination = dlt.destination(
            feed, name="knowledge_bot", batch_size=50, max_parallel_load_jobs=1
        )
        pipeline = dlt.pipeline("handbook", destination=destination, pipelines_dir=folder)
        for day in (1, 2):
            pipeline.run(sections(days=day), table_name="sections")
            keys = [f"sections/{row['id']}" for row in sections(days=day)]
            complete(client, "handbook", keys, ledger=os.environ["LEDGER"])
            (held,) = client.list_origins()
            print(f"day {day}: the service has {held.count} sections")
        print(client.send_message(bot_id="bot_default", content="Is the kiln mended?").answer)


if __name__ == "__main__":
    main()
