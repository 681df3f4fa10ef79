"""What the embedded service stands: its start, many clients, a long text, many passages, and more.

`scripts/benchmark service_load`; with `--full`, the sizes that the bounds are for (minutes
more). Over HTTP, through our client, with the service in a process of its own. Figures are of this
machine at this moment; the table tells its load.
"""

import argparse
import multiprocessing
import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import accumulate, islice
from multiprocessing.synchronize import Barrier, Event
from typing import TYPE_CHECKING, Any

from measuring import Figure, cpu_seconds, report, resident

from knowledge_bot import Client
from knowledge_bot_service import LocalService
from knowledge_bot_service.config.folder import database_file

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

CLIENTS = 8
SECONDS = 8.0
PASSAGES, PASSAGES_OF_SOURCE, COLLECTIONS = 60_000, 100, 100
REPLACING = 4


@dataclass(frozen=True)
class Sizes:
    """How much of everything is measured."""

    starts: int = 3
    megabytes: int = 10
    questions: int = 100
    pages: int = 10
    replaced: int = 200


FULL = Sizes(starts=5, megabytes=50, questions=500, pages=40, replaced=1_000)


def main() -> None:
    """Measure one after the other, each on a service of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the sizes that the bounds are for")
    sizes = FULL if parser.parse_known_args()[0].full else Sizes()
    rows: list[dict[str, Any]] = []
    figures: list[Figure] = []
    for measure in (start, accepts, long_text, many_passages, documents, replacements):
        load = os.getloadavg()[0]
        began = time.perf_counter()
        found = measure(sizes)
        figures += found
        rows.append(
            {
                "measured": measure.__name__,
                "load before": round(load, 2),
                "seconds": round(time.perf_counter() - began, 1),
            }
        )
    report("The embedded service under load", figures, rows)


def start(sizes: Sizes) -> list[Figure]:
    """How soon a service answers, and what memory it has at rest, before and after a question."""
    seconds, resting, used = [], [], []
    for _ in range(sizes.starts):
        with tempfile.TemporaryDirectory() as folder:
            service = LocalService(folder)
            began = time.perf_counter()
            with service, client_of(service) as client:
                client.ping()
                seconds.append(time.perf_counter() - began)
                resting.append(resident(service.pid) / 1e6)
                client.create_text_source(name="A", collections="col_default", content="A text.")
                client.send_message(bot_id="bot_default", content="Which text is it?")
                used.append(resident(service.pid) / 1e6)
    return [
        Figure("first reply after start, s", statistics.median(seconds), 2),
        Figure("memory at rest, MB", statistics.median(resting), 70),
        Figure("memory after a source and a question, MB", statistics.median(used), 100),
    ]


def accepts(_sizes: Sizes) -> list[Figure]:
    """How many sources of 1 kB are accepted per second, each durable when it is answered."""
    content = "One kilobyte of text, more or less. " * 28
    with LocalService() as service:
        with accepting(service, content, CLIENTS) as times:
            before = cpu_seconds(service.pid)
            time.sleep(SECONDS)
            cost = cpu_seconds(service.pid) - before
        rate = len(times) / SECONDS
        service.wait_until_ready(600)
    return [
        Figure(f"sources accepted per second, {CLIENTS} clients", rate, 1000, at_least=True),
        Figure("accept p99 then, ms", percentile(times, 99)),
        Figure("CPU time of the service for one source then, ms", cost / len(times) * 1000),
    ]


def long_text(sizes: Sizes) -> list[Figure]:
    """What accepting costs while a long text is processed, and when that text is ready."""
    content = text_of(sizes.megabytes * 1_000_000 // 755)
    with LocalService() as service, client_of(service) as client:
        client.create_text_source(name="Long", collections="col_default", content=content)
        accepted = time.perf_counter()
        with accepting(service, "A short text. " * 20, 1) as times:
            service_wait(service, "Long")
            ready = time.perf_counter() - accepted
    return [
        Figure(
            f"accept p99 while {sizes.megabytes} MB are processed, ms", percentile(times, 99), 250
        ),
        Figure(f"{sizes.megabytes} MB ready, s", ready, 60),
    ]


def many_passages(sizes: Sizes) -> list[Figure]:
    """What a question costs when the bot reads one of a hundred collections."""
    collections = [f"col_{number}" for number in range(COLLECTIONS)]
    bots = {"bot_one": ["col_7"], "bot_all": collections}
    with (
        LocalService(collections=collections, bots=bots) as service,
        client_of(service) as client,
    ):
        for number in range(PASSAGES // PASSAGES_OF_SOURCE):
            client.create_text_source(
                name=f"Source {number}",
                collections=collections[number % COLLECTIONS],
                content=text_of(PASSAGES_OF_SOURCE),
            )
        service.wait_until_ready(600)
        with closing(sqlite3.connect(database_file(service.data))) as database:
            (passages,) = database.execute("SELECT count(*) FROM passage").fetchone()
        (first,) = ask(client, "bot_one", 1)
        one, every = (ask(client, bot, sizes.questions) for bot in bots)
    return [
        Figure("passages", passages, PASSAGES, at_least=True),
        Figure("the first question after them, ms", first),
        Figure("question p50, bot sees 1 %, ms", percentile(one, 50)),
        Figure("question p99, bot sees 1 %, ms", percentile(one, 99), 50),
        Figure("question p99, bot sees all, ms", percentile(every, 99)),
    ]


def documents(sizes: Sizes) -> list[Figure]:
    """How many small web pages, each read by a parser under limits, become ready per second."""
    paragraph = "<p>The office in the old town opens every day at nine and closes at five.</p>"
    page = f"<!doctype html><html><body><article>{paragraph * 20}</article></body></html>"
    with LocalService() as service, client_of(service) as client:
        began = time.perf_counter()
        for number in range(sizes.pages):
            client.upload_source(
                name=f"Page {number}",
                collections="col_default",
                file=page.encode(),
                filename="page.html",
            )
        service.wait_until_ready(600)
        seconds = time.perf_counter() - began
        client.upload_source(
            name="Last", collections="col_default", file=page.encode(), filename="page.html"
        )
        alone = time.perf_counter()
        service.wait_until_ready(300)
        alone = time.perf_counter() - alone
    return [
        Figure("pages of HTML ready per second", sizes.pages / seconds),
        Figure("one page alone ready, s", alone),
    ]


def replacements(sizes: Sizes) -> list[Figure]:
    """What a question costs while all sources are replaced, beside what it costs at rest."""
    with LocalService() as service, client_of(service) as client:
        keys = [f"{number}" for number in range(sizes.replaced)]
        for key in keys:
            put_text(client, key, "first")
        service.wait_until_ready(600)
        idle, busy = [], []
        context = multiprocessing.get_context("spawn")
        # At rest before and after each half, so that both see the machine alike.
        for half in (keys[::2], keys[1::2]):
            given = ((service.api_key, service.base_url), half)
            replacing = context.Process(target=replace, args=given, daemon=True)
            idle += ask(client, "bot_default", sizes.replaced // 4)
            replacing.start()
            while replacing.is_alive():
                busy += ask(client, "bot_default", 1)
            if replacing.exitcode:
                raise RuntimeError("the client that replaces failed; its traceback is above")
            service.wait_until_ready(600)
            idle += ask(client, "bot_default", sizes.replaced // 4)
    while_replaced = f"while {sizes.replaced} sources are replaced"
    ratio = percentile(busy, 99) / percentile(idle, 99)
    return [
        Figure(f"question p99 {while_replaced}, ms", percentile(busy, 99)),
        Figure(f"question p99 {while_replaced} / at rest", ratio, 3),
    ]


def put_text(client: Client, key: str, digest: str) -> None:
    """Let a key's source have a new text."""
    client.put_text_source(
        origin="load",
        key=key,
        digest=digest,
        name=f"Source {key}",
        collections="col_default",
        content=text_of(2),
    )


def replace(access: tuple[str, str], keys: list[str]) -> None:
    """Replace every source, a few at a time, in a process of a client."""
    with Client(*access) as client, ThreadPoolExecutor(REPLACING) as pool:
        list(pool.map(lambda key: put_text(client, key, "second"), keys))


@contextmanager
def accepting(service: LocalService, content: str, clients: int) -> Iterator[list[float]]:
    """Create sources all the time; afterwards the list has what each took, in milliseconds.

    Every client is a process: threads of one would wait for each other and not for the service.
    """
    times: list[float] = []
    context = multiprocessing.get_context("spawn")
    started, ending = context.Barrier(clients + 1), context.Event()
    found: SimpleQueue[list[float]] = context.SimpleQueue()
    access = service.api_key, service.base_url
    given = (access, content, started, ending, found)
    processes = [context.Process(target=create, args=given, daemon=True) for _ in range(clients)]
    for process in processes:
        process.start()
    started.wait(60)
    try:
        yield times
    finally:
        ending.set()
    for _ in processes:
        times += found.get()
    for process in processes:
        process.join()
        if process.exitcode:
            raise RuntimeError("a client ended early; its traceback is above")


def create(
    access: tuple[str, str],
    content: str,
    started: Barrier,
    ending: Event,
    found: "SimpleQueue[list[float]]",
) -> None:
    """Create sources until told to end, in a process of a client."""
    times: list[float] = []
    try:
        with Client(*access, max_retries=0) as client:
            client.ping()
            started.wait(60)
            while not ending.is_set():
                began = time.perf_counter()
                client.create_text_source(name="Short", collections="col_default", content=content)
                times.append((time.perf_counter() - began) * 1000)
    finally:
        found.put(times)


def ask(client: Client, bot: str, questions: int) -> list[float]:
    """Ask many questions; return what each took, in milliseconds."""
    times = []
    for _ in range(questions):
        telling = (word for word in words(500) if word not in STOP_WORDS)
        question = f"Which {' '.join(islice(telling, 6))}?"
        began = time.perf_counter()
        client.send_message(bot_id=bot, content=question)
        times.append((time.perf_counter() - began) * 1000)
    return times


def text_of(passages: int) -> str:
    """Paragraphs of some 750 characters, which are a passage each: too long to be joined."""
    return "\n\n".join(
        " ".join(f"{' '.join(words(12)).capitalize()}." for _ in range(9)) for _ in range(passages)
    )


CHANCE = random.Random(1)
VOCABULARY = [
    "".join(CHANCE.choice("bdfgklmnprstvz") + CHANCE.choice("aeiou") for _ in range(syllables))
    for syllables in (2, 3, 4)
    for _ in range(10_000)
]
CHANCE.shuffle(VOCABULARY)
STOP_WORDS = set(VOCABULARY[:30])
SUMS = list(accumulate(1 / rank for rank in range(1, len(VOCABULARY) + 1)))


def words(number: int) -> list[str]:
    """Words by Zipf's law."""
    return CHANCE.choices(VOCABULARY, cum_weights=SUMS, k=number)


def service_wait(service: LocalService, name: str) -> None:
    """Wait until the source of that name is ready."""
    with closing(sqlite3.connect(database_file(service.data), timeout=30)) as database:
        status = "SELECT status FROM source WHERE name = ?"
        while database.execute(status, (name,)).fetchone()[0] != "ready":
            time.sleep(0.05)


def client_of(service: LocalService) -> Client:
    """A client of the service that repeats nothing."""
    return Client(service.api_key, service.base_url, max_retries=0)


def percentile(times: list[float], percent: int) -> float:
    """The time that so many per cent of the calls took at most."""
    return sorted(times)[len(times) * percent // 100]


if __name__ == "__main__":
    main()
