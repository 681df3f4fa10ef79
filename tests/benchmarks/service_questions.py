"""What a question costs in a large index when the bot sees everything, alone and among many.

`python tests/benchmarks/service_questions.py [FOLDER]`; with `--full`, at the sizes that the bounds
are for (minutes more). Texts and questions have words by Zipf's law; with a folder that has
squad-half.json, texts have the words of its articles, the articles are among them, and its
questions are asked. Over HTTP, with the service in a process of its own. Figures are of this
machine at this moment: compare them side by side, and the CPU time first.
"""

import argparse
import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from measuring import Figure, report
from service_load import CHANCE, client_of, cpu_seconds, memory, percentile, text_of, words

from knowledge_bot_service import LocalService

# Passages in the index, and the most that the 99th percentile of a question alone may take, in
# milliseconds.
SIZES = {10_000: 30.0, 100_000: 60.0}
QUICK = {2_000: 30.0}

CLIENTS = 200
QUESTIONS = 400
PASSAGES_OF_SOURCE = 100

# How long a very long question is, in characters.
LONG = 19_000


def main() -> None:
    """Measure each size on a service of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="where squad-half.json is")
    parser.add_argument("--full", action="store_true", help="the sizes that the bounds are for")
    parser.add_argument("--json", help="a file to write the figures to")
    given = parser.parse_args()
    data = json.loads((given.folder / "squad-half.json").read_text()) if given.folder else None
    figures: list[Figure] = []
    rows: list[dict[str, Any]] = []
    for passages, bound in (SIZES if given.full else QUICK).items():
        with LocalService() as service:
            fill(service, passages, data)
            load = os.getloadavg()[0]
            figures += questions(service, passages, bound, data)
        rows.append({"passages": passages, "load before": round(load, 2)})
    report("Questions when the bot sees everything", figures, rows)


def fill(service: LocalService, passages: int, data: dict[str, Any] | None) -> None:
    """Add sources of so many passages together, and the articles."""
    with client_of(service) as client:
        for article in data["sources"] if data else ():
            client.create_text_source(
                name=article["title"], collections="col_default", content=article["text"]
            )
        texts = mixed(data) if data else iter(lambda: text_of(1), "")
        for number in range(passages // PASSAGES_OF_SOURCE):
            content = "\n\n".join(islice(texts, PASSAGES_OF_SOURCE))
            client.create_text_source(
                name=f"Document {number}", collections="col_default", content=content
            )
    service.wait_until_ready(1200)


def mixed(data: dict[str, Any]) -> Iterator[str]:
    """Paragraphs of some 650 characters, of the words of four paragraphs of the articles each."""
    paragraphs = [
        paragraph.split()
        for article in data["sources"]
        for paragraph in article["text"].split("\n\n")
    ]
    while True:
        pool = [word for paragraph in CHANCE.sample(paragraphs, 4) for word in paragraph]
        yield " ".join(f"{' '.join(CHANCE.choices(pool, k=14))}." for _ in range(8))


def asked(data: dict[str, Any] | None) -> Iterator[str]:
    """Questions of five to twelve words that a text has, or those of the articles."""
    while data:
        yield CHANCE.choice(data["questions"])["question"]
    while True:
        telling = words(CHANCE.randint(5, 12))
        yield f"Which {' '.join([telling[0].capitalize(), *telling[1:]])}?"


def questions(
    service: LocalService, passages: int, bound: float, data: dict[str, Any] | None
) -> list[Figure]:
    """What questions take: one by one, many at once, and a very long one."""
    ask(service, "Is it warm?")
    before = cpu_seconds(service)
    alone = [ask(service, question) for question in islice(asked(data), QUESTIONS)]
    work = (cpu_seconds(service) - before) / QUESTIONS * 1000
    together, pings = at_once(service, list(islice(asked(data), CLIENTS)))
    long = [ask(service, " ".join(islice(asked(data), LONG // 10))[:LONG]) for _ in range(3)]
    size = f"{passages:,} passages"
    return [
        Figure(f"{size}: question p50, ms", percentile(alone, 50)),
        Figure(f"{size}: question p99, ms", percentile(alone, 99), bound),
        Figure(f"{size}: CPU time of the service for a question, ms", work),
        Figure(f"{size}: {CLIENTS} at once, p50, ms", percentile(together, 50), 1500),
        Figure(f"{size}: {CLIENTS} at once, p99, ms", percentile(together, 99)),
        Figure(f"{size}: {CLIENTS} at once, slowest, ms", max(together)),
        Figure(f"{size}: slowest ping meanwhile, ms", max(pings)),
        Figure(f"{size}: a question of {LONG:,} characters, ms", max(long), 100),
        Figure(f"{size}: memory afterwards, MB", memory(service)),
    ]


def at_once(service: LocalService, contents: list[str]) -> tuple[list[float], list[float]]:
    """Have each question asked by a client of its own, at the same time; and pings meanwhile."""
    ready = threading.Barrier(len(contents))

    def wait_and_ask(content: str) -> float:
        ready.wait(60)
        return ask(service, content)

    pings = []
    with ThreadPoolExecutor(len(contents)) as pool:
        waiting = [pool.submit(wait_and_ask, content) for content in contents]
        while not all(one.done() for one in waiting):
            began = time.perf_counter()
            call(service, "GET", "/ping")
            pings.append((time.perf_counter() - began) * 1000)
            time.sleep(0.05)
    return [one.result() for one in waiting], pings


def ask(service: LocalService, content: str) -> float:
    """Ask a question; what it took, in milliseconds."""
    body = json.dumps({"value": {"bot_id": "bot_default", "content": content}})
    began = time.perf_counter()
    call(service, "POST", "/messages", body)
    return (time.perf_counter() - began) * 1000


def call(service: LocalService, method: str, path: str, body: str | None = None) -> None:
    """Send a request on a connection of its own, at little cost to the machine that serves too."""
    base = urlsplit(service.base_url)
    connection = HTTPConnection(base.hostname or "", base.port, timeout=120)
    headers = {"X-API-KEY": service.api_key, "Content-Type": "application/json"}
    connection.request(method, base.path + path, body, headers)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"{method} {path} gave {response.status}: {answer.decode()}")


if __name__ == "__main__":
    main()
