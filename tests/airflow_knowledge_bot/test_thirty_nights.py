"""Thirty nights of a folder under a real scheduler: red are those that had a fault."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from airflow_processes import Airflow
from calls import KEY
from knowledge_bot.testing import MemoryService
from nights import COLLECTION, World
from served import served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

DAG = """
from airflow.sdk import DAG
from airflow_knowledge_bot.operators import KnowledgeBotIngestOperator
from knowledge_bot.origins import Folder

with DAG("handbook", schedule=None):
    KnowledgeBotIngestOperator(
        task_id="feed",
        origin=Folder("FOLDER", name="handbook"),
        collections="col_1",
        wait_ready=5,
    )
"""


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


FAULTS: dict[int, Callable[[World], Any]] = {
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


def test_thirty_nights_are_red_where_a_fault_was_and_nowhere_else(tmp_path):
    service = MemoryService(collections=[COLLECTION], extensions={"sync", "sources"})
    world = World("folder", tmp_path, service)
    for number in range(60):
        world.write(f"more/{number}.md", f"More of {number}.")
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "handbook.py").write_text(DAG.replace("FOLDER", str(world.folder)))
    states: dict[int, str] = {}
    with served(service) as url:
        connection = {"conn_type": "knowledge_bot", "host": url, "password": KEY}
        connections = {"knowledge_bot_default": connection}
        with Airflow(tmp_path, tmp_path / "dags", connections=connections) as airflow:
            for night in range(1, 31):
                world.write("3.md", f"The text of night {night}.")
                if night in FAULTS:
                    with FAULTS[night](world):
                        run = airflow.trigger("handbook")
                        states[night] = airflow.finished("handbook", run)["state"]
                else:
                    run = airflow.trigger("handbook")
                    states[night] = airflow.finished("handbook", run)["state"]
            assert airflow.files_holding(KEY) == []
    world.close()
    red = [night for night, state in states.items() if state != "success"]
    assert red == sorted(FAULTS), json.dumps(states)
    kept = {one["name"] for one in service.sources}
    files = {str(path.relative_to(world.folder)) for path in world.folder.rglob("*.*")}
    assert kept == files
