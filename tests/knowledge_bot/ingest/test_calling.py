"""How a run is called: its arguments, its items as they come, its progress, and its end."""

import asyncio
import contextlib
import gc
import inspect
import io
import re
import signal
import sqlite3
import threading
import time
from dataclasses import MISSING, fields, replace
from functools import partial

import httpx
import pytest

from calls import KEY
from ingest_texts import texts
from knowledge_bot import AsyncClient, Client, ConfigurationError
from knowledge_bot.ingest import (
    File,
    Ingestion,
    IngestionOptions,
    Report,
    Text,
    WebPage,
    aingest,
    ingest,
)
from refusals import refused
from scripted_server import answer, reset, silence
from waiting import until, until_awaited

pytestmark = pytest.mark.timeout(60)


def test_an_item_is_sent_before_the_next_one_comes(run, service, ledger):
    def slow():
        yield Text(name="first", content="text")
        until(lambda: service.created)
        yield Text(name="second" if service.created else "too late", content="text")

    assert run(slow(), ledger=ledger).created == 2
    assert service.created == ["first", "second"]


def test_what_the_items_raise_comes_out_after_all_is_recorded(run, service, ledger):
    def broken():
        yield from texts(5)
        raise LookupError("the database went away")

    with pytest.raises(LookupError, match="went away") as caught:
        run(broken(), ledger=ledger)
    assert "created" in caught.value.__notes__[0]
    assert sum(holding.claimed for holding in ledger.status()) == 0
    assert run(texts(5), ledger=ledger).failed == 0
    assert len(service.created) == 5


def test_progress_is_reported_up_to_the_end(run, service, ledger):
    reports: list[Report] = []
    final = run(texts(5), ledger=ledger, on_progress=reports.append)
    assert reports[-1] == final


def test_a_client_that_cannot_be_used_is_refused_before_anything(service):
    with Client(base_url=service.url) as client, refused("api_key"):
        ingest(client, texts(1), collections="col_1")
    with Client(KEY, service.url) as closed, pytest.raises(ConfigurationError):
        asyncio.run(aingest(closed, texts(1), collections="col_1"))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        ingest(closed, texts(1), collections="col_1")
    assert service.arrived == []


def test_a_client_with_methods_of_its_own_is_sent_through(service, ledger):
    names: list[str] = []

    class Noting(Client):
        def create_text_source(self, *, name, **options):
            names.append(name)
            return super().create_text_source(name=name, **options)

    with Noting(KEY, service.url) as client:
        report = ingest(client, texts(3), collections="col_1", ledger=ledger)
        assert report.created == 3
    assert sorted(names) == sorted(service.created) == ["t0", "t1", "t2"]


def test_a_client_that_has_to_block_is_called_in_threads(service, ledger, tmp_path):
    (tmp_path / "a.txt").write_text("A file.")
    trouble = {
        "bad": answer(400, {"code": "no", "message": "not so"}),
        "lost": reset,
        "late": answer(429, {"code": "slow", "message": "later"}, {"Retry-After": "0"}),
    }
    service.judge = lambda name, times: trouble.get(name) if times == 1 else None
    items = [
        *texts(20),
        *(Text(name=name, content=name) for name in trouble),
        File(path=tmp_path / "a.txt"),
        File(path="bucket/b.txt", open=lambda: io.BytesIO(b"An object."), version="1"),
        WebPage(name="page", url="https://h.example/"),
    ]
    options = {"collections": "col_1", "ledger": ledger, "concurrency": 4}
    with httpx.Client() as http:
        client = Client(KEY, service.url, http_client=http)
        first = ingest(client, items, **options)
        second = ingest(client, items, **options)
    assert (first.created, first.refused, first.unknown) == (24, 1, 1)
    assert (second.created, second.unchanged, second.unknown) == (1, 24, 1)
    assert any(b"An object." in body for body in service.raw)


def test_what_a_client_of_ones_own_raises_comes_out_and_the_item_is_unknown(service, ledger):
    class Broken(Client):
        def create_text_source(self, *, name, **options):
            if name == "t1":
                raise RuntimeError("a mistake in somebody's client")
            return super().create_text_source(name=name, **options)

    options = {"collections": "col_1", "ledger": ledger, "concurrency": 2}
    with Broken(KEY, service.url) as client, pytest.raises(RuntimeError, match="mistake"):
        ingest(client, texts(100), **options)
    (entry,) = ledger.unknown()
    assert entry.key == "t1"
    assert "a mistake" in entry.error
    (holding,) = ledger.status()
    assert (holding.claimed, holding.created) == (0, len(service.created))


def test_options_are_kept_for_many_runs(service, ledger):
    ingestion = Ingestion(collections=["col_1"], ledger=ledger, concurrency=2)
    with Client(KEY, service.url) as client:
        assert ingestion.run(client, texts(3)).created == 3
        assert ingestion.run(client, texts(4)).created == 1

    async def main() -> Report:
        async with AsyncClient(KEY, service.url) as client:
            return await ingestion.arun(client, texts(5))

    assert asyncio.run(main()).unchanged == 4
    with pytest.raises(ConfigurationError, match="concurrency"):
        replace(ingestion, concurrency=0)


def test_the_functions_take_the_options_that_an_ingestion_keeps(run, service):
    kept = {field.name: field.default for field in fields(Ingestion)}
    assert IngestionOptions.__annotations__.keys() == kept.keys()
    assert IngestionOptions.__required_keys__ == {"collections"}
    assert [name for name, default in kept.items() if default is MISSING] == ["collections"]
    for name in kept:
        assert f"\n    {name}: " in inspect.getdoc(IngestionOptions)
    assert len(kept.keys() - {"collections", "origin"}) <= 14
    del kept["collections"], kept["ledger"]
    assert run(texts(2), **kept).created == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurency": 2}, ["'concurency'", "'concurrency'"]),
        ({"wait_raedy": 2}, ["'wait_raedy'", "'wait_ready'"]),
        ({"xyz": 2}, ["'xyz'"]),
    ],
)
def test_an_option_that_there_is_not_is_named_before_anything(run, service, options, said):
    with pytest.raises(TypeError) as caught:
        run(texts(1), **options)
    assert re.findall(r"'\w+'", str(caught.value)) == said
    assert service.arrived == []


def test_a_run_needs_collections(service):
    with Client(KEY, service.url) as client, pytest.raises(TypeError, match="list_collections"):
        ingest(client, texts(1))  # type: ignore[call-arg]
    assert service.arrived == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_are_handled_for_the_time_of_a_run_where_nobody_else_does(service, send, number):
    during: list[object] = []
    service.judge = lambda name, times: during.append(signal.getsignal(number))
    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, default)
    try:
        send(texts(1))
        assert signal.getsignal(number) is default
        signal.signal(number, mine := lambda number, frame: None)
        send(texts(2)[1:])
        assert signal.getsignal(number) is mine
        assert during[0] is not default
        assert during[1:] == [mine]
    finally:
        signal.signal(number, before)


def test_it_may_be_called_where_an_event_loop_runs(service, ledger):
    async def main() -> Report:
        with Client(KEY, service.url) as client:
            return ingest(client, texts(3), collections="col_1", ledger=ledger)

    assert asyncio.run(main()).created == 3


def test_an_asynchronous_item_is_sent_before_the_next_one_comes(service, ledger):
    async def slow():
        yield Text(name="first", content="text")
        async with asyncio.timeout(10):
            assert await until_awaited(lambda: service.created)
        yield Text(name="second", content="another text")

    async def main() -> Report:
        async with AsyncClient(KEY, service.url) as client:
            return await aingest(client, slow(), collections="col_1", ledger=ledger)

    assert asyncio.run(main()).created == 2


def test_asynchronous_items_that_end_in_a_cancellation_of_their_own_end_the_run(service, ledger):
    async def broken():
        for item in texts(5):
            yield item
        inner = asyncio.create_task(asyncio.sleep(60))
        inner.cancel()
        await inner

    async def main() -> None:
        async with AsyncClient(KEY, service.url) as client, asyncio.timeout(20):
            await aingest(client, broken(), collections="col_1", ledger=ledger)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    (holding,) = ledger.status()
    assert (holding.created, holding.claimed, holding.unknown) == (5, 0, 0)


def test_no_step_of_a_run_is_long_for_the_callers_loop(service, ledger):
    """Other parts of the program are served meanwhile, by the CPU time of the loop's thread."""
    gc.disable()  # a collection takes as long as all that the process holds, whoever begins it

    async def main() -> list[float]:
        steps, last = [], time.thread_time()
        async with AsyncClient(KEY, service.url) as client:
            task = asyncio.create_task(
                aingest(client, texts(1000), collections="col_1", ledger=ledger)
            )
            while not task.done():
                await asyncio.sleep(0.001)
                now = time.thread_time()
                steps.append(now - last)
                last = now
            assert (await task).created == 1000
        return steps

    try:
        steps = asyncio.run(main())
    finally:
        gc.enable()
    assert max(steps) < sum(steps) / 25  # a 90th is usual; with imports in the loop it is a 4th


def test_contents_are_not_read_and_hashed_in_the_callers_loop(service, ledger):
    items = [
        File(path=f"{n}.md", open=partial(io.BytesIO, b"%d" % n * 300_000)) for n in range(100)
    ]

    async def main() -> tuple[Report, float]:
        async with AsyncClient(KEY, service.url) as client:
            await aingest(client, items, collections="col_1", ledger=ledger)
            loop, process = time.thread_time(), time.process_time()
            report = await aingest(client, items, collections="col_1", ledger=ledger)
            return report, (time.thread_time() - loop) / (time.process_time() - process)

    report, share = asyncio.run(main())
    assert report.unchanged == 100
    assert share < 0.5  # of the CPU time; a 30th is usual


def test_nothing_that_a_run_waits_for_blocks_the_callers_loop(service, ledger, tmp_path):
    """The loop itself ends each wait: for the items, for the service and for the ledger's lock."""
    read, answered = threading.Event(), threading.Event()
    service.judge = lambda name, times: None if answered.wait(30) else reset

    def slow():
        yield from texts(20)
        assert read.wait(30)
        yield from texts(60)[20:]

    async def main() -> Report:
        async with AsyncClient(KEY, service.url) as client:
            task = asyncio.create_task(aingest(client, slow(), collections="col_1", ledger=ledger))
            assert await until_awaited(lambda: service.arrived)
            answered.set()
            assert await until_awaited(lambda: len(service.created) == 20)
            with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db")) as other:
                other.execute("BEGIN IMMEDIATE")
                read.set()
                await asyncio.sleep(0.5)
                other.rollback()
            return await task

    report = asyncio.run(main())
    assert (report.created, report.unknown, report.stopped) == (60, 0, None)


def test_a_cancelled_run_finishes_what_is_in_flight(service, ledger):
    async def main() -> None:
        async with AsyncClient(KEY, service.url) as client:
            task = asyncio.create_task(
                aingest(client, texts(5000), collections="col_1", ledger=ledger)
            )
            assert await until_awaited(lambda: len(service.created) >= 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    (holding,) = ledger.status()
    assert (holding.unknown, holding.claimed) == (0, 0)
    assert holding.created == len(service.created) < 5000


def test_a_run_that_is_cancelled_twice_leaves_unknown_what_is_in_flight(service, ledger):
    service.judge = lambda name, times: silence

    async def main() -> None:
        async with AsyncClient(KEY, service.url) as client:
            task = asyncio.create_task(
                aingest(client, texts(50), collections="col_1", ledger=ledger, concurrency=4)
            )
            assert await until_awaited(lambda: len(service.arrived) >= 4)
            task.cancel()
            await asyncio.sleep(0.05)
            task.cancel()
            began = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < 20  # and not until all has timed out

    asyncio.run(main())
    assert len(list(ledger.unknown())) == 4
