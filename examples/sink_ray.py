"""Write the sections of a handbook with Ray Data, twice: the second time nothing is sent.

    python examples/sink_ray.py

Install it with `pip install 'knowledge-bot[ray,serve]'`. It starts Ray with two workers and the
embedded service, and leaves nothing behind. docs/how-to/ray.md says what changes on a cluster.
"""

import tempfile

import ray

from handbook_rows import handbook_rows, rows_service
from knowledge_bot.sinks.ray import KnowledgeBotDatasink


def main() -> None:
    """Write twice, and ask."""
    with (
        rows_service() as client,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
        for day in (1, 2):
            dataset = ray.data.from_items(handbook_rows(), override_num_blocks=4)
            sink = KnowledgeBotDatasink(
                collections="col_handbook",
                ledger=f"{folder}/ledger.db",  # on a cluster: postgresql://…
                key="id",
                name="title",
                text="body",
            )
            dataset.write_datasink(sink, concurrency=2)
            print(f"day {day}: {sink.report}")
        ray.shutdown()
        print(client.send_message(bot_id="bot_guide", content="What is the late fee?").answer)


if __name__ == "__main__":
    main()
