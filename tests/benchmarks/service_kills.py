"""What `kill -9` does to the embedded service under load: what is lost, what is half processed.

`python tests/benchmarks/service_kills.py`; with `--full`, the twenty kills that the bounds are for.
Over HTTP, through our client, with the service in a process of its own.
"""

import argparse
import random
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path

from measuring import Figure, report

from knowledge_bot import Client, KnowledgeBotError
from knowledge_bot_service import LocalService
from knowledge_bot_service.config.folder import database_file

CLIENTS = 8
KILLS, FULL_KILLS = 5, 20

# Every so many sources is one that is processed in several steps: 300 passages, since a paragraph
# of more than half a passage is never joined with the next.
LONG_EVERY = 20
LONG_SOURCE = 300
LONG = "\n\n".join(f"Paragraph {number} is long. " * 30 for number in range(LONG_SOURCE))


def main() -> None:
    """Kill the service many times, and look at what it has in the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help=f"{FULL_KILLS} kills, not {KILLS}")
    times = FULL_KILLS if parser.parse_known_args()[0].full else KILLS
    report("The embedded service, killed", kills(times))


def kills(times: int) -> list[Figure]:
    """`kill -9` under load, many times: what was accepted and lost, and what is half processed."""
    accepted: list[str] = []

    def send(worker: int) -> None:
        with Client(service.api_key, service.base_url, max_retries=0) as client:
            for number in count():
                content = LONG if number % LONG_EVERY == 0 else f"Short text {number} of {worker}."
                try:
                    source = client.create_text_source(
                        name=f"{worker}-{number}", collections="col_default", content=content
                    )
                except KnowledgeBotError:
                    return
                accepted.append(source.id)

    with LocalService() as service, ThreadPoolExecutor(CLIENTS) as pool:
        for _ in range(times):
            sending = [pool.submit(send, worker) for worker in range(CLIENTS)]
            time.sleep(random.uniform(0.3, 1.5))
            service.kill()
            for one in sending:
                one.result()
            service.start()
        service.wait_until_ready(600)
        states = {source.id: source.status for source in service.sources()}
        half = half_processed(service.data)
    return [
        Figure(f"accepted between {times} kills", len(accepted)),
        Figure("accepted and lost", len(set(accepted) - states.keys()), 0),
        Figure("accepted and not ready", sum(status != "ready" for status in states.values()), 0),
        Figure("half processed", half, 0),
    ]


def half_processed(folder: Path) -> int:
    """How many sources have not all of their passages, or these not all in the index."""
    with closing(sqlite3.connect(database_file(folder))) as database:
        counts = database.execute(
            "SELECT source.name, count(passage.id) FROM source LEFT JOIN passage"
            " ON passage.source = source.id GROUP BY source.id"
        ).fetchall()
        (left,) = database.execute("SELECT count(*) FROM job").fetchone()
        (unindexed,) = database.execute(
            "SELECT (SELECT count(*) FROM passage) - (SELECT count(*) FROM passage_index)"
        ).fetchone()
        (check,) = database.execute("PRAGMA quick_check").fetchone()
        database.execute("INSERT INTO passage_index (passage_index) VALUES ('integrity-check')")
    wrong: int = sum(
        found != (LONG_SOURCE if int(name.partition("-")[2]) % LONG_EVERY == 0 else 1)
        for name, found in counts
    )
    return wrong + int(left) + abs(int(unindexed)) + int(check != "ok")


if __name__ == "__main__":
    main()
