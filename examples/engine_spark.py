"""Feed the sections of a handbook with Spark, twice: the second time only what is new is sent.

    python examples/engine_spark.py

You need Java 17 or 21 and `pip install 'knowledge-bot[ingest,serve]' pyspark`. The example starts
Spark with two threads and the embedded service, and leaves nothing behind. docs/how-to/engines.md
says what changes on a cluster.
"""

import os
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

from handbook_rows import handbook_rows, rows_service
from knowledge_bot import Client
from knowledge_bot.ingest import IncompleteIngestionError, complete, ingest
from knowledge_bot.origins import Rows


def feed(rows: Iterable[Any]) -> None:
    """Send a partition; whoever is given it again sends only what is not there."""
    with Client() as client:
        report = ingest(
            client,
            Rows(
                (row.asDict() for row in rows),
                key="id",
                text="body",
                title="title",
                name="handbook",
            ),
            collections="col_default",
            ledger=os.environ["LEDGER"],  # for a service that does not announce `sync`
            complete=False,  # these are a part of the rows
            wait_ready=90,  # for rows that another executor is sending, or was when it died
        )
    if not report.ok or report.elsewhere:
        raise IncompleteIngestionError(report)


def main() -> None:
    """Feed on two days, and ask."""
    from pyspark.sql import SparkSession  # here, so that `feed` can be tested where there is none

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with rows_service() as client, tempfile.TemporaryDirectory() as folder:
        os.environ["LEDGER"] = f"{folder}/ledger.db"
        spark = (
            SparkSession.builder.master("local[2,4]")  # a task is tried four times
            .config("spark.ui.enabled", "false")
            .config("spark.local.dir", folder)
            .getOrCreate()
        )
        rows = handbook_rows()
        for day in (1, 2):
            frame = spark.createDataFrame(rows, "id string, title string, body string")
            frame.repartition(4).foreachPartition(feed)
            keys = [row["id"] for row in rows]
            complete(client, "handbook", keys, ledger=os.environ["LEDGER"])
            (held,) = client.list_origins()
            print(f"day {day}: the service has {held.count} sections")
            rows.append({"id": "notice", "title": "Notice", "body": "The kiln is mended."})
        spark.stop()
        print(client.send_message(bot_id="bot_default", content="Is the kiln mended?").answer)


if __name__ == "__main__":
    main()
