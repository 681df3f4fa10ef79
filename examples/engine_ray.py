"""Feed the sections of a handbook with Ray Data, twice: the second time nothing is sent.

    python examples/engine_ray.py

Install it with `pip install 'knowledge-bot[ingest,serve]' 'ray[data]'`. It starts Ray with two
workers and the embedded service, and leaves nothing behind. docs/how-to/engines.md says what
changes on a cluster.
"""

import os
import tempfile
from typing import Any

from handbook_rows import handbook_rows, rows_service
from knowledge_bot import Client
from knowledge_bot.ingest import IncompleteIngestionError, complete, ingest
from knowledge_bot.origins import Rows


def feed(batch: Any) -> dict[str, list[int]]:
    """Send a batch, an Arrow table; whoever is given it again sends only what is not there."""
    with Client() as client:
        report = ingest(
            client,
            Rows(batch.to_pylist(), key="id", text="body", title="title", name="handbook"),
            collections="col_default",
            ledger=os.environ["LEDGER"],  # for a service that does not announce `sync`
            complete=False,  # these are a part of the rows
            wait_ready=90,  # for rows that another worker is sending, or was when it died
        )
    if not report.ok or report.elsewhere:
        raise IncompleteIngestionError(report)
    return {name: [count] for name, count in report.counts.items()}


def main() -> None:
    """Feed twice, and ask."""
    import ray  # here, so that `feed` can be tested where there is none

    with (
        rows_service() as client,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        os.environ["LEDGER"] = f"{folder}/ledger.db"
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
        for day in (1, 2):
            sections = ray.data.from_items(handbook_rows(), override_num_blocks=4)
            fed = sections.map_batches(feed, batch_format="pyarrow", batch_size=25, concurrency=2)
            created, unchanged = fed.sum(["created", "unchanged"]).values()
            print(f"day {day}: created {created}, unchanged {unchanged}")
            keys = [row["id"] for row in handbook_rows()]
            complete(client, "handbook", keys, ledger=os.environ["LEDGER"])
        ray.shutdown()
        print(client.send_message(bot_id="bot_default", content="What is the late fee?").answer)


if __name__ == "__main__":
    main()
