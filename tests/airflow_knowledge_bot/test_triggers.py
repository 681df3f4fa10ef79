"""The trigger, run as a triggerer runs it: in an event loop, from its serialised values."""

import asyncio
import json
import subprocess
import sys
import time
from functools import partial

import pytest

from airflow_knowledge_bot.triggers import KnowledgeBotAnswerTrigger, KnowledgeBotPingTrigger
from calls import KEY
from in_process import OnAPort
from knowledge_bot import Client
from scripted_server import answer, close, silence
from waiting import until, until_awaited


@pytest.fixture
def scripted(scripted):
    """Servers whose replies are to pings."""
    return partial(scripted, on_ping=None)


def trigger(*, seconds=10.0, conn_id="knowledge_bot_default", poke_interval=0.0):
    return KnowledgeBotPingTrigger(conn_id, poke_interval, time.time() + seconds)


async def events(waiting):
    return [event.payload async for event in waiting.run()]


@pytest.mark.parametrize("reply", [answer(503), close, silence])
async def test_passing_failures_are_tolerated(connect, scripted, reply):
    server = scripted(reply, reply, answer(body="pong"))
    connect(server.url, max_retries=0, timeout=0.5 if reply is silence else 30)
    (event,) = await events(trigger())
    assert event["status"] == "ready"
    assert len(server.requests) == 3


async def test_no_interval_makes_it_spin(connect, scripted):
    server = scripted(answer(503))
    connect(server.url, max_retries=0)
    running = asyncio.create_task(events(trigger(poke_interval=0.0)))
    assert await until_awaited(lambda: server.requests)
    assert not await until_awaited(lambda: len(server.requests) > 4, 1.3)
    running.cancel()


@pytest.mark.parametrize("status", [302, 401])
async def test_what_waiting_cannot_mend_fires_failed_at_once(connect, scripted, status):
    server = scripted(answer(status))
    connect(server.url)
    (event,) = await events(trigger())
    assert event["status"] == "failed"
    assert str(status) in event["message"]
    assert len(server.requests) == 1


async def test_a_connection_that_is_missing_or_wrong_fires_failed_at_once(connect):
    (event,) = await events(trigger(conn_id="none_such"))
    assert event["status"] == "failed"
    assert "names a connection that does not exist: 'none_such'" in event["message"]
    (event,) = await events(trigger(conn_id=""))
    assert event["status"] == "failed"
    assert "'knowledge_bot_conn_id' is empty once it is rendered" in event["message"]
    connect("https://svc.example", timeout="soon")
    (event,) = await events(trigger())
    assert (event["status"], "'timeout'" in event["message"]) == ("failed", True)


@pytest.mark.timeout(25)  # the client alone would wait for thirty seconds
@pytest.mark.parametrize("reply", [answer(503), silence])
async def test_the_deadline_ends_the_wait_also_in_the_middle_of_a_ping(
    connect, scripted, monkeypatch, reply
):
    monkeypatch.setattr("airflow_knowledge_bot.triggers._LAST_CHANCE", 0.2)
    connect(scripted(reply).url, max_retries=0, timeout=30)
    (event,) = await events(trigger(seconds=0.5))
    assert event["status"] == "timeout"


async def test_a_trigger_that_wakes_after_its_deadline_asks_once(connect, scripted):
    connect(scripted(answer(body="pong")).url)
    (event,) = await events(trigger(seconds=-3600))
    assert event["status"] == "ready"


async def test_cancelling_it_closes_its_connections(connect, scripted):
    server = scripted(silence)
    connect(server.url)
    running = asyncio.create_task(events(trigger()))
    assert await until_awaited(lambda: server.requests)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_it_survives_a_restart_of_the_triggerer_with_the_same_deadline():
    before = trigger(seconds=60)
    path, values = before.serialize()
    again = KnowledgeBotPingTrigger(**json.loads(json.dumps(values)))
    assert again.serialize() == (path, values)
    assert path == f"{KnowledgeBotPingTrigger.__module__}.{KnowledgeBotPingTrigger.__qualname__}"


def test_what_airflow_stores_of_it_is_plain_and_holds_no_secret(connect):
    connect("https://svc.example")
    values = json.dumps(trigger().serialize())
    assert KEY not in values
    assert "svc.example" not in values


COLD = """
import asyncio, sys, threading
from airflow_knowledge_bot.triggers import KnowledgeBotPingTrigger

in_the_loop = set()

def imported(event, arguments):
    if event == "import" and threading.current_thread() is threading.main_thread():
        in_the_loop.add(arguments[0].partition(".")[0])

async def main():
    waiting = KnowledgeBotPingTrigger("knowledge_bot_default", 0.5, deadline=None)
    return [event.payload["status"] async for event in waiting.run()]

sys.addaudithook(imported)
print(asyncio.run(main()), sorted(in_the_loop & {"aiohttp", "httpx", "knowledge_bot"}))
"""


def test_the_first_trigger_of_a_triggerer_imports_the_client_outside_the_event_loop(
    connect, scripted
):
    # Airflow warns when its event loop stands still for 0.2 s: all triggers stand still with it.
    connect(scripted(answer(body="pong")).url)
    done = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['ready'] []"


@pytest.fixture
def new(connect):
    """A service of the test's own, and a client of it."""
    with (
        OnAPort(collections={"col_house": "House", "col_other": "Other"}) as running,
        Client(running.api_key, running.base_url) as client,
    ):
        connect(running.base_url, password=running.api_key)
        yield client


def told(**options):
    """Start a trigger; returns its events, and what ends it."""
    queue = asyncio.Queue()

    async def run():
        async for event in KnowledgeBotAnswerTrigger("col_house", poke_interval=0, **options).run():
            queue.put_nowait(event.payload)

    return queue, asyncio.create_task(run())


async def sent(client, name, *, key=None, into="col_house"):
    """Send a text, in the place of the one with this key, and wait until it is ready."""
    what = {"name": name, "collections": into, "content": f"On {name}."}
    identity = {"origin": "tests", "key": key or name, "digest": name}
    source = (await asyncio.to_thread(client.put_text_source, **identity, **what)).source

    def is_ready():
        return client.get_source(source.id).ready_revision == source.revision

    assert await asyncio.to_thread(until, is_ready)
    return source.id


async def nothing(queue):
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 1.5)


async def test_each_change_of_what_a_bot_can_answer_from_is_told_once(new):
    events, running = told()
    await nothing(events)
    hours = await sent(new, "hours")
    assert await asyncio.wait_for(events.get(), 20) == {
        "collections": ["col_house"],
        "ready": 1,
        "failed": 0,
    }
    await sent(new, "elsewhere", into="col_other")
    await nothing(events)
    await sent(new, "new hours", key="hours")
    assert (await asyncio.wait_for(events.get(), 20))["ready"] == 1
    await asyncio.to_thread(new.delete_source, hours)
    assert (await asyncio.wait_for(events.get(), 20))["ready"] == 0
    running.cancel()


async def test_a_service_that_tells_no_state_of_sources_is_named_and_asked_again(
    connect, scripted, capfd
):
    connect(scripted(answer(body="pong")).url, max_retries=0)
    events, running = told()
    await nothing(events)
    assert "'sources'" in capfd.readouterr().out
    assert not running.done()
    running.cancel()
