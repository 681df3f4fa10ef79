"""The trigger, run as a triggerer runs it: in an event loop, from its serialised values."""

import asyncio
import json
import subprocess
import sys
import time
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import pytest

from airflow_knowledge_bot.hooks import KnowledgeBotHook
from airflow_knowledge_bot.triggers import KnowledgeBotPingTrigger, KnowledgeBotSourcesEventTrigger
from calls import KEY
from in_process import OnAPort
from knowledge_bot import Client
from knowledge_bot.testing import MemoryService
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
    monkeypatch.setattr("airflow_knowledge_bot.triggers.knowledge_bot._LAST_CHANCE", 0.2)
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
        async for event in KnowledgeBotSourcesEventTrigger(
            "col_house", poke_interval=0, **options
        ).run():
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


# What an event trigger has told, and how often it looks -------------------------------------------


class Asset(dict):
    """What Airflow keeps beside an asset; `fails` says which of its calls do."""

    def __init__(self):
        self.fails = set()

    async def aget(self, key, default=None):
        if "get" in self.fails:
            raise RuntimeError("API_SERVER_ERROR 503")
        return self.get(key, default)

    async def aset(self, key, value):
        if "set" in self.fails:
            raise RuntimeError("API_SERVER_ERROR 503")
        self[key] = json.loads(json.dumps(value))


@pytest.fixture
def ready(connect, no_sleep):
    """A service with one source that is ready."""
    connect("https://service.test", max_retries=0)
    given = {"collections": ["col_house"], "extensions": {"sources"}}
    with MemoryService(**given).standing_in() as service:
        with Client(KEY, "https://service.test") as client:
            client.create_text_source(name="Hours", collections="col_house", content="At nine.")
        yield service


@pytest.fixture
def no_sleep(monkeypatch):
    """The pauses that a trigger makes, in seconds, which take no time."""
    pauses, sleep = [], asyncio.sleep

    async def pause(seconds):
        if seconds > 0.4:  # else it is the test that waits
            pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", pause)
    return pauses


async def looked(*assets, looks, **options):
    """Run a trigger of these assets for some looks; returns its events."""
    watching = KnowledgeBotSourcesEventTrigger("col_house", **options)
    watching.asset_state_store = SimpleNamespace(_by_name=dict(enumerate(assets)), _by_uri={})
    events = []

    async def run():
        async for event in watching.run():
            events.append(event.payload)  # noqa: PERF401 - the run does not end

    running = asyncio.create_task(run())
    assert await until_awaited(lambda: watching._looks >= looks or running.done())
    running.cancel()
    return events


async def test_assets_with_an_equal_trigger_are_told_once_over_restarts(ready):
    one, two = Asset(), Asset()
    assert len(await looked(one, two, looks=3)) == 1
    assert await looked(one, two, looks=3) == []
    # Another DAG file names the trigger, too: its asset was not told.
    assert len(await looked(one, two, Asset(), looks=3)) == 1


async def test_an_event_that_nobody_took_comes_again(ready):
    asset = Asset()
    watching = KnowledgeBotSourcesEventTrigger("col_house")
    watching.asset_state_store = SimpleNamespace(_by_name={"a": asset}, _by_uri={})
    async for _ in watching.run():
        break  # the triggerer was killed here
    assert len(await looked(asset, looks=2)) == 1


@pytest.mark.parametrize("call", ["get", "set"])
async def test_while_airflow_s_store_fails_there_is_no_event_and_then_one(ready, no_sleep, call):
    asset = Asset()
    asset.fails = {call}
    assert await looked(asset, looks=5, poke_interval=timedelta(minutes=5)) == []
    assert len(no_sleep) >= 5
    assert all(240 <= pause <= 360 for pause in no_sleep)
    asset.fails = set()
    assert len(await looked(asset, looks=2)) == 1


async def test_after_ten_failures_in_a_row_it_ends_with_a_message(ready, no_sleep):
    ready.fail_next(501, times=None, where=lambda request: request.method == "GET")
    watching = KnowledgeBotSourcesEventTrigger("col_house", poke_interval=300)
    with pytest.raises(RuntimeError, match="501"):
        await anext(watching.run())
    assert len(no_sleep) == 10
    assert min(no_sleep) > 200


async def test_a_ping_trigger_gives_up_after_ten_strange_failures_in_a_row(monkeypatch, no_sleep):
    async def broken(self):
        raise RuntimeError("the API server is away")

    monkeypatch.setattr(KnowledgeBotHook, "get_async_conn", broken)
    (event,) = await events(trigger(poke_interval=60))
    assert event == {"status": "failed", "message": "the API server is away"}
    assert len(no_sleep) == 9


async def test_it_backs_off_as_a_sensor_does(ready, no_sleep):
    given = {"poke_interval": 10, "exponential_backoff": True, "max_wait": timedelta(seconds=35)}
    await looked(Asset(), looks=4, **given)
    first, second, third, *_ = no_sleep
    assert 8 <= first <= 12
    assert 16 <= second <= 24
    assert third == 35 or 32 <= third <= 35


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"collections": []}, "collections"),
        ({"collections": ""}, "collections"),
        ({"collections": None}, "collections"),
        ({"collections": "Handbook"}, "collections"),
        ({"collections": "{{ var.value.collection }}"}, "collections"),
        ({"knowledge_bot_conn_id": " "}, "knowledge_bot_conn_id"),
        ({"poke_interval": "60"}, "poke_interval"),
        ({"poke_interval": -1}, "poke_interval"),
        ({"poke_interval": None}, "poke_interval"),
        ({"max_wait": "60"}, "max_wait"),
    ],
)
def test_what_an_event_trigger_cannot_use_is_named_when_its_dag_is_parsed(given, named):
    with pytest.raises(ValueError, match=f"^{named}: "):
        KnowledgeBotSourcesEventTrigger(**{"collections": "col_house"} | given)


class Passing(KnowledgeBotSourcesEventTrigger):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class Naming(KnowledgeBotSourcesEventTrigger):
    def __init__(self, shop, **kwargs):
        self.shop = shop
        super().__init__(f"col_{shop}", **kwargs)


class Fixed(KnowledgeBotSourcesEventTrigger):
    def __init__(self):
        super().__init__("col_house", poke_interval=7)


@pytest.mark.parametrize(
    ("made", "own"),
    [
        (Passing("col_house", poke_interval=timedelta(seconds=7)), {"collections": ["col_house"]}),
        (Naming("house", poke_interval=7), {"shop": "house"}),
        (Fixed(), {}),
    ],
)
def test_a_subclass_is_recreated_from_what_airflow_stores(made, own):
    path, values = made.serialize()
    assert path.endswith(f".{type(made).__name__}")
    assert own.items() <= values.items()
