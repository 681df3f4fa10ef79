"""A job of an engine that writes rows: `python engine_job.py ENGINE SINK LEDGER FOLDER ROWS`.

`SINK` is `naive`, which sends each row as it comes, as anybody's first sink does, or `ledger`,
which is ours. Both send eight rows at a time. It ends with 1, and the engine's error, where the job
failed.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from knowledge_bot import Client
from waiting import until

COLLECTION, IN_FLIGHT, WORKERS = "col_1", 8, 2


def rows_of(count: int) -> list[dict[str, str]]:
    return [
        {"id": f"row {number:05}", "body": f"This is the row {number}."} for number in range(count)
    ]


def send_all(rows: Iterable[dict[str, str]]) -> None:
    """The naive sink."""
    with Client() as client, ThreadPoolExecutor(IN_FLIGHT) as pool:
        send = partial(client.create_text_source, collections=COLLECTION)
        for _ in pool.map(lambda row: send(name=row["id"], content=row["body"]), rows):
            pass


def options(ledger: str) -> dict[str, Any]:
    return {
        "collections": COLLECTION,
        "ledger": ledger,
        "key": "id",
        "text": "body",
        "concurrency": IN_FLIGHT,
    }


def dlt(sink: str, ledger: str, folder: Path, count: int) -> None:
    """One process, whose pipeline goes on with what is pending when it is run again."""
    import dlt

    from knowledge_bot.sinks.dlt import knowledge_bot_destination

    if sink == "naive":

        @dlt.destination(batch_size=500, name="naive", max_parallel_load_jobs=1)
        def destination(items: Any, table: Any) -> None:
            send_all(items)

        target: Any = destination
    else:
        # The rows' names are what the service counts, and the table stands before their keys.
        target = knowledge_bot_destination(**options(ledger), name="id")
    pipeline = dlt.pipeline("rows", destination=target, pipelines_dir=str(folder / "pipelines"))
    if pipeline.has_pending_data:
        pipeline.load()
    else:
        pipeline.run(rows_of(count), table_name="articles")


def ray(sink: str, ledger: str, folder: Path, count: int) -> None:
    """Two workers of one node; their tasks are run again by Ray when they die."""
    import ray
    from ray.data import Datasink
    from ray.data.block import BlockAccessor

    from knowledge_bot.sinks.ray import KnowledgeBotDatasink

    class Naive(Datasink):
        def write(self, blocks: Any, ctx: Any) -> None:
            for block in blocks:
                send_all(BlockAccessor.for_block(block).iter_rows(public_row_format=True))

    # Beside the folder, whose path may be too long for the sockets in it.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as sockets:
        ray.init(
            num_cpus=WORKERS,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100 * 1024 * 1024,
            _temp_dir=sockets,
        )
        target = Naive() if sink == "naive" else KnowledgeBotDatasink(**options(ledger))
        dataset = ray.data.from_items(rows_of(count), override_num_blocks=10)
        try:
            dataset.write_datasink(target)
        finally:
            ray.shutdown()


def spark(sink: str, ledger: str, folder: Path, count: int) -> None:
    """Two tasks at a time; Spark runs one again when its worker dies, up to seven times."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

    from knowledge_bot.sinks.spark import KnowledgeBotDataSource

    class NaiveWriter(DataSourceWriter):
        def write(self, iterator: Any) -> Any:
            send_all(row.asDict() for row in iterator)
            return WriterCommitMessage()

    class Naive(DataSource):
        @classmethod
        def name(cls) -> str:
            return "naive"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return NaiveWriter()

    session = (
        SparkSession.builder.master(f"local[{WORKERS},8]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.local.dir", str(folder / "spark"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    for source in (Naive, KnowledgeBotDataSource):
        session.dataSource.register(source)
    frame = session.createDataFrame(rows_of(count), "id string, body string").repartition(10)
    writing = frame.write.format("naive" if sink == "naive" else "knowledge_bot").mode("append")
    if sink != "naive":
        writing = writing.options(**options(ledger))
    writing.save()


def celery(sink: str, ledger: str, folder: Path, count: int) -> None:
    """Two processes of one worker; the broker delivers a task again whose process died."""
    from redis_server import redis

    ended = Path(tempfile.mkdtemp(dir=folder))
    with redis() as broker:
        settings = {"BROKER": broker, "SINK": sink, "LEDGER": ledger, "ENDED": str(ended)}
        os.environ |= settings
        command = ["-A", "engine_tasks", "worker", "--pool", "prefork", "-c", str(WORKERS)]
        with subprocess.Popen(
            [sys.executable, "-m", "celery", *command, "--loglevel", "ERROR"],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
            cwd=folder,
        ) as worker:
            try:
                from engine_tasks import write

                rows = rows_of(count)
                parts = [rows[start : start + 500] for start in range(0, count, 500)]
                for number, part in enumerate(parts):
                    write.delay(number, part)
                assert until(lambda: len(list(ended.iterdir())) >= len(parts), 300)
            finally:
                worker.terminate()
    told = [file.read_text() for file in ended.iterdir()]
    if any(told):
        raise RuntimeError("\n".join(told))


ENGINES: dict[str, Callable[..., None]] = {"celery": celery, "dlt": dlt, "ray": ray, "spark": spark}

if __name__ == "__main__":
    ENGINES[sys.argv[1]](sys.argv[2], sys.argv[3], Path(sys.argv[4]), int(sys.argv[5]))
