"""Load the sections of a handbook with dlt, twice: the second time only what is new is sent.

    python examples/sink_dlt.py

Install it with `pip install 'knowledge-bot[dlt,serve]'`. It starts the embedded service, and leaves
nothing behind. docs/how-to/dlt.md says what changes for your own pipeline.
"""

import tempfile
from collections.abc import Iterator

import dlt

from handbook_rows import handbook_rows, rows_service
from knowledge_bot.ingest import Ledger
from knowledge_bot.sinks.dlt import knowledge_bot_destination


@dlt.resource(name="handbook", primary_key="id")
def handbook(days: int) -> Iterator[dict[str, str]]:
    """Yield the sections, and a notice for each day after the first."""
    yield from handbook_rows()
    for day in range(2, days + 1):
        yield {"id": f"notice {day}", "title": "Notice", "body": f"Day {day}: the kiln is mended."}


def main() -> None:
    """Run the pipeline on two days, and ask."""
    with rows_service() as client, tempfile.TemporaryDirectory() as folder:
        ledger = f"{folder}/ledger.db"
        pipeline = dlt.pipeline(
            "handbook",
            destination=knowledge_bot_destination(
                collections="col_handbook",
                ledger=ledger,
                client=client,
                key="id",
                name="title",
                text="body",
            ),
            pipelines_dir=folder,
        )
        for day in (1, 2):
            pipeline.run(handbook(days=day))
            (held,) = Ledger(ledger).status()
            print(f"day {day}: the service has {held.created} sections")
        print(client.send_message(bot_id="bot_guide", content="Is the kiln mended?").answer)


if __name__ == "__main__":
    main()
