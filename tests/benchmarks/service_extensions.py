"""What the embedded service's extensions cost its questions, and what they keep when it is killed.

`python tests/benchmarks/service_extensions.py`; with `--full`, the sizes that the bounds are for.
Over HTTP, with the service in a process of its own.
"""

import argparse
import multiprocessing
import random
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from typing import Any

import httpx
from measuring import Figure, report

from knowledge_bot_service import LocalService
from knowledge_bot_service.config.folder import database_file

CLIENTS = 8
REPLACING = 4
# How many requests there are for each key, and how many of them are another one.
COLLIDING = 5
OTHERS = 0.1


@dataclass(frozen=True)
class Sizes:
    """How much of everything is measured."""

    sources: int = 200
    requests: int = 2_000
    replacements: int = 20
    turns: int = 50


FULL = Sizes(sources=1_000, requests=10_000, replacements=100, turns=200)


def main() -> None:
    """Measure one after the other, each on a service of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the sizes that the bounds are for")
    sizes = FULL if parser.parse_known_args()[0].full else Sizes()
    figures = [*questions(sizes), *answers(sizes), *keys(sizes), *replacements(sizes)]
    report("The embedded service's extensions", figures)


def questions(sizes: Sizes) -> list[Figure]:
    """How long a question takes while all sources are replaced, beside what it takes at rest."""
    with LocalService() as service, client_of(service) as http:
        ids = [
            write(http, f"Source {number}", text_of(number)).json()["value"]["id"]
            for number in range(sizes.sources)
        ]
        service.wait_until_ready(600)
        idle, busy = [], []
        context = multiprocessing.get_context("spawn")
        # At rest before and after each half, so that both see the machine alike.
        for half in (ids[::2], ids[1::2]):
            ended = context.Event()
            access = service.api_key, service.base_url
            replacing = context.Process(target=replace_all, args=(access, half, ended), daemon=True)
            idle += ask_until(http, at_least=sizes.sources // 4)
            replacing.start()
            busy += ask_until(http, ended)
            replacing.join()
            service.wait_until_ready(600)
            idle += ask_until(http, at_least=sizes.sources // 4)
    ratio = percentile(busy, 99) / percentile(idle, 99)
    return [
        Figure("question p50 at rest, ms", percentile(idle, 50)),
        Figure("question p99 at rest, ms", percentile(idle, 99)),
        Figure("questions asked meanwhile", len(busy)),
        Figure(
            f"question p50 while {sizes.sources} sources are replaced, ms", percentile(busy, 50)
        ),
        Figure(
            f"question p99 while {sizes.sources} sources are replaced, ms", percentile(busy, 99)
        ),
        Figure(f"question p99 while {sizes.sources} sources are replaced / at rest", ratio, 3),
    ]


def replace_all(access: tuple[str, str], ids: list[str], ended: Event) -> None:
    """Replace every source, a few at a time, in a process of a client."""
    key, base_url = access
    try:
        with (
            httpx.Client(base_url=base_url, headers={"X-API-KEY": key}, timeout=60) as http,
            ThreadPoolExecutor(REPLACING) as pool,
        ):
            for response in pool.map(
                lambda one: write(http, one, f"{text_of(hash(one))} It is newer.", one), ids
            ):
                response.raise_for_status()
    finally:
        ended.set()


def ask_until(http: httpx.Client, ended: Event | None = None, at_least: int = 0) -> list[float]:
    """Ask question after question; return what each took, in milliseconds."""
    times: list[float] = []
    while len(times) < at_least or (ended is not None and not ended.is_set()):
        body = {"bot_id": "bot_default", "content": f"Where is depot {random.randrange(1000)}?"}
        began = time.perf_counter()
        http.post("/messages", json={"value": body}).raise_for_status()
        times.append((time.perf_counter() - began) * 1000)
    return times


def answers(sizes: Sizes) -> list[Figure]:
    """A question whose answer is in every text of a source, while that is replaced all the time."""
    asked = unanswered = neither = older = 0
    times: list[float] = []
    with LocalService() as service, client_of(service) as http:
        first = write(http, "Depot", depot(0)).json()["value"]["id"]
        service.wait_until_ready()
        sent, over = [0], threading.Event()

        def replace_over_and_over() -> None:
            with client_of(service) as mine:
                for number in range(1, sizes.turns + 1):
                    sent.append(number)
                    write(mine, "Depot", depot(number), first).raise_for_status()
                    # Every second one takes the place of one that is pending.
                    while number % 2 and not is_ready(mine, first):
                        time.sleep(0.01)
            over.set()

        replacing = threading.Thread(target=replace_over_and_over)
        replacing.start()
        newest = 0
        while not over.is_set():
            began = time.perf_counter()
            told = answered(http)
            asked += 1
            unanswered += told < 0
            neither += told > sent[-1]
            older += 0 <= told < newest
            newest = max(newest, told)
            times.append((time.perf_counter() - began) * 1000)
            time.sleep(max(0.0, 0.05 - (time.perf_counter() - began)))
        replacing.join()
        service.wait_until_ready()
        neither += answered(http) != sizes.turns
    return [
        Figure(
            f"questions, one every 50 ms, while a source is replaced {sizes.turns} times", asked
        ),
        Figure("median time of these questions, ms", percentile(times, 50)),
        Figure("unanswered", unanswered, 0),
        Figure("answered from neither text, or at the end not from the newest", neither, 0),
        Figure("answered from an older text than the answer before", older, 0),
    ]


def is_ready(http: httpx.Client, source: str) -> bool:
    """Whether its newest text is the one that is answered from."""
    value = http.get(f"/sources/{source}").raise_for_status().json()["value"]
    return bool(value["revision"] == value["ready_revision"])


def keys(sizes: Sizes) -> list[Figure]:
    """Requests with keys that collide, from many clients, and `kill -9`: one effect a key."""
    chance = random.Random(1)
    number = sizes.requests // COLLIDING
    sent = [(chance.randrange(number), chance.random() < OTHERS) for _ in range(sizes.requests)]
    told: dict[int, set[str]] = defaultdict(set)
    statuses: dict[int, int] = defaultdict(int)
    over = threading.Event()
    kills = 0

    def send(one: tuple[int, bool]) -> None:
        key, is_other = one
        # A client sends its request until it knows what became of it.
        while True:
            try:
                response = request(http, service, key, is_other=is_other)
            except (httpx.TransportError, RuntimeError):
                time.sleep(0.05)
                continue
            statuses[response.status_code] += 1
            if response.status_code == httpx.codes.OK:
                told[key].add(response.json()["value"]["id"])
            if response.status_code not in {409, 503, 507}:
                return

    def kill() -> None:
        nonlocal kills
        while not over.wait(chance.uniform(2.0, 6.0)):
            service.kill()
            service.start()
            kills += 1

    with LocalService() as service:
        with ThreadPoolExecutor(CLIENTS) as pool, httpx.Client(timeout=30) as http:
            killing = threading.Thread(target=kill)
            killing.start()
            list(pool.map(send, sent))
            over.set()
            killing.join()
        with closing(sqlite3.connect(database_file(service.data), timeout=60)) as database:
            names = [row[0] for row in database.execute("SELECT name FROM source")]
            names += [row[0] for row in database.execute("SELECT question FROM message")]
    effects: dict[int, int] = defaultdict(int)
    for name in names:
        effects[int(name.split()[1])] += 1
    used = {key for key, _ in sent}
    return [
        Figure(f"requests with {len(used)} keys, {CLIENTS} clients, {kills} kills", len(sent)),
        Figure("answers 422", statuses[422]),
        Figure("keys with more than one effect", sum(effects[key] > 1 for key in used), 0),
        Figure("keys without an effect", sum(effects[key] == 0 for key in used), 0),
        Figure("keys that were told two ids", sum(len(told[key]) != 1 for key in used), 0),
        Figure(
            "answers other than 200, 409 and 422",
            sum(count for status, count in statuses.items() if status not in {200, 409, 422}),
            0,
        ),
    ]


def request(
    http: httpx.Client, service: LocalService, key: int, *, is_other: bool
) -> httpx.Response:
    """Send the request of a key, or another one: a text, a file or a question."""
    name = f"Number {key} {'other' if is_other else 'first'}"
    headers = {"X-API-KEY": service.api_key, "Idempotency-Key": f"key-{key}"}
    path = "write"
    more: dict[str, Any] = {"json": {"value": source_of(name, f"The text of {name}.")}}
    if key % 3 == 1:
        form = {"name": name, "collections": "col_default"}
        path, more = "upload", {"data": form, "files": {"file": ("a.txt", name.encode() * 50)}}
    elif key % 3 == 2:
        more = {"json": {"value": {"bot_id": "bot_default", "content": name}}}
    address = f"{service.base_url}/{'messages' if key % 3 == 2 else f'sources/{path}'}"
    return http.post(address, headers=headers, **more)


def replacements(sizes: Sizes) -> list[Figure]:
    """`kill -9` while a source is replaced: it answers from one of two revisions, wholly."""
    lost = neither = changed = refused = 0
    with LocalService() as service:
        with client_of(service) as http:
            first = write(http, "Depot", depot(0)).json()["value"]
            service.wait_until_ready()
            tag = http.get(f"/sources/{first['id']}").headers["ETag"]
        for number in range(1, sizes.replacements + 1):
            asked: list[httpx.Response] = []

            def put(
                number: int = number, tag: str = tag, asked: list[httpx.Response] = asked
            ) -> None:
                with client_of(service) as mine:
                    asked.append(write(mine, "Depot", depot(number), first["id"], If_Match=tag))

            sending = threading.Thread(target=swallow(put))
            sending.start()
            time.sleep(random.uniform(0.0, 0.4))
            service.kill()
            sending.join()
            service.start()
            with client_of(service) as http:
                neither += answered(http) not in {number - 1, number}
                # What was answered or not is sent again, and is one replacement.
                again = write(http, "Depot", depot(number), first["id"], If_Match=tag)
                refused += again.status_code != httpx.codes.OK
                if asked and asked[0].is_success:
                    changed += asked[0].headers["ETag"] != again.headers["ETag"]
                tag = again.headers["ETag"]
                service.wait_until_ready()
                neither += answered(http) != number
                lost += [one.id for one in service.sources()] != [first["id"]]
    return [
        Figure("kills while a source is replaced", sizes.replacements),
        Figure("the source lost, or there twice", lost, 0),
        Figure(
            "answers from neither revision, or not from the newest when it is ready", neither, 0
        ),
        Figure("replacements sent again and refused", refused, 0),
        Figure("replacements that became two", changed, 0),
    ]


def depot(number: int) -> str:
    """A text of many passages with one answer."""
    filling = "\n\n".join(f"Paragraph {one} is about ropes. " * 30 for one in range(60))
    return f"The depot of Rua opens at gate {number}.\n\n{filling}"


def answered(http: httpx.Client) -> int:
    """Which revision an answer is from; -1 for none."""
    body = {"bot_id": "bot_default", "content": "At which gate does the depot of Rua open?"}
    told = http.post("/messages", json={"value": body}).raise_for_status().json()["value"]["answer"]
    found = [word.strip(".") for word in told.partition("at gate ")[2].split()[:1]]
    return int(found[0]) if found else -1


def swallow(send: Callable[[], None]) -> Callable[[], None]:
    """The same, for a service that may die meanwhile."""

    def run() -> None:
        try:
            send()
        except httpx.TransportError:
            return

    return run


def write(
    http: httpx.Client, name: str, content: str, replaces: str | None = None, **headers: str
) -> httpx.Response:
    """Create a source, or replace one."""
    method, place = ("POST", "") if replaces is None else ("PUT", f"{replaces}/")
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"value": source_of(name, content)}
    return http.request(method, f"/sources/{place}write", json=body, headers=sent)


def source_of(name: str, content: str) -> dict[str, object]:
    """The body of a request for a text."""
    return {"name": name, "collections": ["col_default"], "content": content}


def text_of(number: int) -> str:
    """Some kilobyte about a depot."""
    return f"Depot {number} is beside harbour {number % 97}. " + "Its door is green. " * 60


def client_of(service: LocalService) -> httpx.Client:
    """A client of the service as it runs now."""
    return httpx.Client(
        base_url=service.base_url, headers={"X-API-KEY": service.api_key}, timeout=60
    )


def percentile(times: list[float], percent: int) -> float:
    """The time that so many per cent of the calls took at most."""
    return sorted(times)[len(times) * percent // 100]


if __name__ == "__main__":
    main()
