"""Thirty nights of the scheduled ingestion under a real scheduler: red are those with a fault."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_processes import Airflow
from calls import KEY
from faults import FAULTS as TABLE
from knowledge_bot import HTTPRequest
from knowledge_bot.testing import MemoryService
from nights import COLLECTION, World
from scripted_server import Received, Reply, ScriptedServer, answer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "scheduled_ingestion.py"
NAME = EXAMPLE.stem
ANSWERS = {
    "How many tools were lent in 2024?": "11,286 tools.",
    "How long is the loan period for hand tools?": "14 days.",
    "What does a household membership cost a year?": "54 euros.",
    "Who leads the repair evening?": "Ines Okafor.",
}
MESSAGES = 10
"""How many a night costs: one until it is known, five of the checks, and four questions."""

REPLIES = {
    name: fault for name, fault in TABLE.items() if fault.reply is not None and not fault.occupied
}
"""The faults of the table that a service can have while it listens."""


class Failing(ScriptedServer):
    """Passes requests on to a service in memory, and answers some of them as the test says.

    Attributes:
        puts: the replies to the next sources that are sent.
        messages: the replies to messages, by how many were sent before them in this night.
    """

    def __init__(self, service: MemoryService) -> None:
        self.puts: list[Reply] = []
        self.messages: dict[int, Reply] = {}
        self.asked, self._service = 0, service
        super().__init__(reply_to=self.chosen, on_ping=None)

    def chosen(self, received: Received) -> Reply:
        if received.method == "PUT" and self.puts:
            return self.puts.pop(0)
        if received.path.endswith("/messages"):
            self.asked += 1
            if (fault := self.messages.pop(self.asked, None)) is not None:
                return fault
        url, headers = f"http://service.test{received.path}", [*received.headers.items()]
        request = HTTPRequest(received.method, url, headers, received.body, 60, 1 << 24)
        found = self._service.transport.send(request)
        return answer(found.status, found.body, dict(found.headers))


@contextmanager
def _without(world: World, name: str = "") -> Iterator[None]:
    """The folder, or a part of it, is away for a night."""
    away = world.path / "away"
    os.rename(world.folder / name, away)
    yield
    os.rename(away, world.folder / name)


@contextmanager
def _unmounted(world: World) -> Iterator[None]:
    """The share is away, and the folder where it was mounted is empty."""
    with _without(world):
        world.folder.mkdir()
        yield
        world.folder.rmdir()


@contextmanager
def _circle(world: World) -> Iterator[None]:
    with _without(world, "team"):
        os.symlink("team", world.folder / "team")
        yield
        os.unlink(world.folder / "team")


@contextmanager
def _answering(world: World, status: int, **how: Any) -> Iterator[None]:
    world.write("today.md", f"Written before the {status}.")
    world.service.fail_next(status, times=None, **how)
    yield
    world.service.recover()


@contextmanager
def _foreign(world: World) -> Iterator[None]:
    html = b"<!doctype html><html><body>It works!</body></html>"
    world.service.answer_next(200, html, times=None, where=lambda _: True)
    yield
    world.service.recover()


@contextmanager
def _unreadable(world: World, name: str) -> Iterator[None]:
    """A document that nobody can read is told in the night when it is new, and then counted."""
    world.write(name, f"No slides: {name}")
    world.service.fail_source(name, "it is no presentation")
    yield


OF_THE_PLACE: dict[int, Callable[[World], Any]] = {
    3: _unmounted,
    6: _without,
    9: _circle,
    11: lambda world: _without(world, "more"),
    14: lambda world: _answering(world, 503),
    17: lambda world: _answering(world, 401),
    20: lambda world: _answering(world, 402),
    23: _foreign,
    26: lambda world: _unreadable(world, "slides.pptx"),
    29: lambda world: _unreadable(world, "more.pptx"),
}


def faults_of(nights: list[int]) -> dict[int, list[str]]:
    """Deal the faults of the table out to nights; one that nothing can pass has a night alone."""
    for_good = [name for name, fault in REPLIES.items() if not fault.may_pass]
    passing = [name for name, fault in REPLIES.items() if fault.may_pass]
    dealt = {night: [name] for night, name in zip(nights, for_good, strict=False)}
    others = nights[len(for_good) :]
    return dealt | {night: passing[i :: len(others)] for i, night in enumerate(others)}


@contextmanager
def _failing(server: Failing, night: int, faults: list[str]) -> Iterator[None]:
    """Let sources meet the faults, and messages of the sensor, the check or the questions.

    A fault that nothing can pass would let nothing come after it: it is at one of these places.
    """
    replies = [fault for name in faults if (fault := REPLIES[name].reply) is not None]
    passes = all(REPLIES[name].may_pass for name in faults)
    if passes or night % 2 == 0:
        server.puts = list(replies)
    if passes or night % 2 == 1:
        server.messages = dict(enumerate(replies, (1, 3, 8)[night % 3]))
    yield
    server.puts, server.messages = [], {}


def test_thirty_nights_are_red_where_a_fault_was_and_nowhere_else(tmp_path):
    service = MemoryService(
        bots={"bot_guide": ANSWERS},
        collections=[COLLECTION],
        extensions={"idempotency", "sync", "sources"},
    )
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(EXAMPLE, dags)  # as it is: its documents are those beside it
    (dags / ".airflowignore").write_text("handbook\naway\n")
    world = World("folder", dags, service)
    for number in range(60):
        world.write(f"more/{number}.md", f"More of {number}.")
    server = Failing(service)
    extra = {"max_retries": 0, "timeout": 20, "default_bot_id": "bot_guide"}
    extra |= {"default_collection_id": COLLECTION}
    connections = {
        "knowledge_bot_default": {
            "conn_type": "knowledge_bot",
            "host": server.url,
            "password": KEY,
            "extra": extra,
        },
        "knowledge_bot_ledger_default": {
            "conn_type": "knowledge_bot_ledger",
            "host": str(tmp_path / "ledger.db"),
        },
    }
    of_the_service = faults_of([n for n in range(1, 31) if n not in OF_THE_PLACE])
    red_nights = {*OF_THE_PLACE}
    red_nights |= {
        night
        for night, names in of_the_service.items()
        if not all(REPLIES[n].may_pass for n in names)
    }
    with Airflow(tmp_path, dags, connections=connections) as airflow:
        (first,) = airflow.until(lambda: _runs(airflow) or None, 120, "its schedule began")
        assert airflow.finished(NAME, first, 900)["state"] == "success"
        for night in range(1, 31):
            world.write("3.md", f"The text of night {night}.")
            world.write(f"new{night % 7}.md", f"Something of night {night}.")
            before, server.asked = _messages(service), 0
            faulty = (
                OF_THE_PLACE[night](world)
                if night in OF_THE_PLACE
                else _failing(server, night, of_the_service[night])
            )
            with faulty:
                run = airflow.trigger(NAME)
                state = airflow.finished(NAME, run, 900)["state"]
            tasks = airflow.tasks(NAME, run)
            red = sorted({name for (name, _), one in tasks.items() if one["state"] == "failed"})
            acted = _messages(service) - before
            _tell(night, state, red, acted, of_the_service.get(night, "the place"))
            assert (state == "failed") is (night in red_nights), (night, red)
            if state == "success":
                assert acted == MESSAGES, night
                assert len(airflow.xcom(NAME, run, "hand_on")) == len(ANSWERS)
                documents = airflow.xcom(NAME, run, "documents")
                assert documents["unknown"] == documents["undelivered"] == 0
            for name in red:
                assert f"{name} is red, and says: " in airflow.task_log(NAME, name)
        assert airflow.files_holding(KEY) == []
    server.stop()
    world.close()
    names = [one["name"] for one in service.sources]
    assert len(names) == len(set(names))
    files = {str(path.relative_to(world.folder)) for path in world.folder.rglob("*.*")}
    assert set(names) == files


def _messages(service: MemoryService) -> int:
    return sum(map(len, service.conversations.values()))


def _runs(airflow: Airflow) -> list[str]:
    return [one["dag_run_id"] for one in airflow.get(f"/dags/{NAME}/dagRuns")["dag_runs"]]


def _tell(*facts: object) -> None:
    """Print what came of a night, for `pytest -s`."""
    print(json.dumps(facts), flush=True)  # noqa: T201
