"""Rows from engines that repeat their parts: the examples, with their engines and without."""

import importlib
import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from knowledge_bot.ingest import IncompleteIngestionError, Ledger
from scripted_server import answer
from served import surviving

EXAMPLES = Path(__file__).parents[2] / "examples"
ENGINES = {"celery": "celery", "dlt": "dlt", "ray": "ray", "spark": "pyspark"}


class Row(dict):
    """A row of Spark."""

    def asDict(self):  # noqa: N802 - Spark's name
        return dict(self)


class Table(list):
    """A table of Arrow, as Ray hands it over."""

    def to_pylist(self):
        return list(self)


GIVEN = {
    "celery": lambda feed, rows: feed(rows),
    "dlt": lambda feed, rows: feed(rows, {"name": "rows"}),
    "ray": lambda feed, rows: feed(Table(rows)),
    "spark": lambda feed, rows: feed(map(Row, rows)),
}


def rows_of(first, last):
    return [
        {"id": number, "title": f"row {number}", "body": f"This is the row {number}."}
        for number in range(first, last)
    ]


@pytest.fixture
def serve(monkeypatch, tmp_path):
    """`serve(url)`: what an engine's workers find in their environment. Returns the ledger."""

    def serve(url):
        ledger = str(tmp_path / "ledger.db")
        monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", url)
        monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key")
        monkeypatch.setenv("LEDGER", ledger)
        return Ledger(ledger)

    return serve


def task_of(engine, monkeypatch):
    """Return `feed(rows)`, which calls the task function of an example."""
    if engine == "celery":
        pytest.importorskip("celery")
    monkeypatch.syspath_prepend(EXAMPLES)
    given, feed = GIVEN[engine], importlib.import_module(f"engine_{engine}").feed
    return lambda rows: given(feed, rows)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_task_that_is_repeated_sends_only_what_is_not_there(engine, serve, tmp_path, monkeypatch):
    feed = task_of(engine, monkeypatch)
    with surviving(tmp_path, collections=("col_default",)) as server:
        serve(server.url)
        for part in (rows_of(0, 4), rows_of(0, 4), rows_of(2, 6)):
            feed(part)
        assert server.created() == {f"row {number}": 1 for number in range(6)}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_task_fails_when_a_row_is_refused_and_all_others_are_there(
    engine, serve, scripted, monkeypatch
):
    feed = task_of(engine, monkeypatch)
    ledger = serve(scripted(reply_to=lambda received: answer(400)).url)
    with pytest.raises(IncompleteIngestionError) as failed:
        feed(rows_of(0, 2))
    assert (failed.value.report.refused, failed.value.report.created) == (2, 0)
    assert len(list(ledger.entries("refused"))) == 2


def feed_in_parts(feed, rows, size=25):
    """Do as an engine's worker: send each part, whatever became of the one before."""
    for start in range(0, len(rows), size):
        try:
            feed(rows[start : start + size])
        except IncompleteIngestionError as incomplete:
            assert incomplete.report.unknown  # noqa: PT017 - nothing else may go wrong here


def forked(feed, rows):
    """Run a worker in a process of its own; return its id."""
    if (child := os.fork()) == 0:
        status = 1
        try:
            feed_in_parts(feed, rows)
            status = 0
        finally:
            os._exit(status)
    return child


@pytest.mark.parametrize(
    ("kills", "count"),
    [(1, 100), pytest.param(8, 1200, marks=[pytest.mark.slow, pytest.mark.timeout(300)])],
)
def test_workers_that_are_killed_send_nothing_twice_and_lose_nothing(
    kills, count, serve, tmp_path, monkeypatch
):
    rows, concurrency = rows_of(0, count), 8
    feed = task_of("dlt", monkeypatch)
    with surviving(tmp_path, 0.004, collections=("col_default",)) as server:
        ledger = serve(server.url)
        for _ in range(kills):
            before, worker = len(server.created()), forked(feed, rows)
            wanted = before + random.randint(1, count // (kills + 1))
            while len(server.created()) < wanted:
                time.sleep(0.001)
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
        _, status = os.waitpid(forked(feed, rows), 0)
        assert status == 0
        unknown = {entry.id: entry.name for entry in ledger.unknown()}
        there = server.created()
        assert {*there} | {*unknown.values()} == {row["title"] for row in rows}
        assert len(unknown) <= kills * concurrency
        for identifier, name in unknown.items():  # as a person does, who looks into the service
            ledger.resolve(identifier, created=name in there)
        for part in (rows, rows[:10]):
            feed(part)
        assert server.created() == {row["title"]: 1 for row in rows}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_example_runs_on_its_engine_and_leaves_nothing_behind(engine, home, environment):
    if importlib.util.find_spec(ENGINES[engine]) is None:
        pytest.skip("scripts/test-engines has an environment with it")
    quiet = {"RUNTIME__DLTHUB_TELEMETRY": "false", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"engine_{engine}.py")],
        cwd=home,
        env=os.environ | environment | quiet,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "late fee" in done.stdout or "kiln is mended" in done.stdout, done.stdout
    assert "day 2: " in done.stdout
