"""Write the sections of a handbook with Spark, twice: the second time only what changed is sent.

    python examples/sink_spark.py

You need Java 17 or 21 and `pip install 'knowledge-bot[spark,serve]'`. The example starts Spark with
two threads and the embedded service, and leaves nothing behind. docs/how-to/spark.md says what
changes on a cluster.
"""

import os
import sys
import tempfile

from pyspark.sql import SparkSession

from handbook_rows import handbook_rows, rows_service
from knowledge_bot.ingest import Ledger
from knowledge_bot.sinks.spark import KnowledgeBotDataSource


def main() -> None:
    """Write on two days, and ask."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with rows_service() as client, tempfile.TemporaryDirectory() as folder:
        spark = (
            SparkSession.builder.master("local[2,4]")  # a task is tried four times
            .config("spark.ui.enabled", "false")
            .config("spark.local.dir", folder)
            .getOrCreate()
        )
        spark.dataSource.register(KnowledgeBotDataSource)
        rows = handbook_rows()
        for day in (1, 2):
            frame = spark.createDataFrame(rows, "id string, title string, body string")
            (
                frame.repartition(4)
                .write.format("knowledge_bot")
                .option("collections", "col_handbook")
                .option("ledger", f"{folder}/ledger.db")  # on a cluster: postgresql://…
                .option("key", "id")
                .option("name", "title")
                .option("text", "body")
                .mode("append")
                .save()
            )
            (held,) = Ledger(f"{folder}/ledger.db").status()
            print(f"day {day}: the service has {held.created} sections")
            rows.append({"id": "notice", "title": "Notice", "body": "The kiln is mended."})
        spark.stop()
        print(client.send_message(bot_id="bot_guide", content="Is the kiln mended?").answer)


if __name__ == "__main__":
    main()
