"""What callers and terminals ask for, said twice, too early, or in a wrong way."""

import json
import signal
import subprocess
import sys
import threading
import time

import pytest

import ingest_worker
from calls import KEY
from ingest_texts import texts
from knowledge_bot import AsyncClient, Client
from knowledge_bot.ingest import File, Ledger, Stop, Text, aingest, ingest
from refusals import refused
from served import surviving
from waiting import until

pytestmark = pytest.mark.timeout(60)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_comes_twice_at_once_is_one_wish(tmp_path, number):
    # As `timeout` does, and a shell and the kernel when a terminal is closed.
    with surviving(tmp_path, 0.3) as server:
        command = [sys.executable, ingest_worker.__file__, server.url, str(tmp_path / "l.db")]
        with subprocess.Popen(
            [*command, "2000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "ready\n"
            process.stdin.write("\n")
            process.stdin.flush()
            assert until(lambda: server.created().total() >= 8)
            process.send_signal(number)
            time.sleep(0.01)
            process.send_signal(number)
            report = json.loads(process.communicate(timeout=30)[0])
    assert (report["stopped"], report["unknown"]) == ("requested", 0)
    assert report["created"] == server.created().total()


def test_a_wish_to_stop_from_before_the_run_is_obeyed_at_once(run, ledger):
    taken = 0

    def slow():
        nonlocal taken
        for text in texts(400):
            taken += 1
            time.sleep(0.01)
            yield text

    stop = threading.Event()
    stop.set()
    assert run(slow(), ledger=ledger, stop=stop).stopped is Stop.REQUESTED
    assert taken < 100


def test_two_contents_under_one_key_do_not_take_turns_from_run_to_run(run, service, ledger):
    items = [Text(name="same", content=content) for content in ("one", "two")]
    first = run(items, ledger=ledger)
    assert (first.created, first.invalid) == (1, 1)
    assert "same key" in first.failures[0].error
    for _ in range(2):
        again = run(items, ledger=ledger)
        assert (again.unchanged, again.invalid, again.superseded) == (1, 1, 0)
    assert len(service.created) == 1


def test_an_item_that_comes_twice_is_reported_alike_in_each_run(run, ledger):
    items = [Text(name="same", content="one")] * 3
    assert (run(items, ledger=ledger).skipped, run(items, ledger=ledger).skipped) == (2, 2)


def test_a_function_that_opens_nothing_costs_one_item_and_not_the_run(run, service, ledger):
    broken = File(path="store://a", open=lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    report = run([broken, *texts(2)], ledger=ledger)
    assert (report.created, report.invalid) == (2, 1)
    assert "division by zero" in report.failures[0].error
    assert report.failures[0].key == "store://a"


def test_a_ledger_may_be_given_by_its_address(service, tmp_path):
    with Client(KEY, service.url) as client:
        ingest(client, texts(1), collections="col_1", ledger=tmp_path / "l.db")
        again = ingest(client, texts(1), collections="col_1", ledger=f"sqlite:///{tmp_path}/l.db")
    assert again.unchanged == 1
    assert Ledger(tmp_path / "l.db").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        *({"items": one} for one in (Text(name="a", content="b"), "h/p1.md", None)),
        *({"collections": one} for one in ([], "handbook")),
        *({"rate": one} for one in (float("nan"), "fast", 0, -3)),
        *({"limit": one} for one in (True, -1, 1.5)),
        *({"gone_limit": one} for one in (1.5, -0.1)),
        *({"concurrency": one} for one in (0, 1.5)),
        *({"origin": one} for one in (5, " ")),
        *({"prune": one} for one in ("some", 1, print)),
        *({"wait_ready": one} for one in ("5m", -1)),
        *({"ledger": 5}, {"stop": 5}, {"on_outcome": 5}, {"on_progress": 5}),
        {"on_unknown": "guess"},
    ],
    ids=str,
)
async def test_a_wrong_argument_is_refused_before_anything(service, wrong):
    given = {"items": [], "collections": "col_1", **wrong}
    with Client(KEY, service.url) as client, refused(*wrong):
        ingest(client, **given)
    async with AsyncClient(KEY, service.url) as client:
        with refused(*wrong):
            await aingest(client, **given)
    assert service.arrived == []
