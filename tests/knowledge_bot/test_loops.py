"""An asynchronous client in one event loop after another, in several at once, and cancelled."""

import asyncio
import subprocess
import sys
import threading

import pytest

from calls import KEY, SOURCE, create
from knowledge_bot import AsyncClient, ConfigurationError, Delivery, RequestTimeoutError
from scripted_server import answer, drip, raw, silence, then
from waiting import on_linux, open_files, until, until_awaited

done = answer(body=SOURCE)


def test_an_event_loop_that_is_not_of_asyncio_is_named(scripted):
    server = scripted(done)
    client = AsyncClient(KEY, server.url)
    with pytest.raises(ConfigurationError, match="asyncio") as caught:
        create(client).send(None)  # as trio begins a coroutine
    assert caught.value.delivery is Delivery.NOT_DELIVERED
    with pytest.raises(StopIteration):
        client.aclose().send(None)
    assert server.connections == 0


@on_linux
def test_event_loops_at_once_leave_nothing_open(scripted):
    server = scripted(answer(body=SOURCE))
    client = AsyncClient(KEY, server.url)
    results = []

    async def several() -> None:
        results.extend(await asyncio.gather(*(create(client) for _ in range(10))))

    def work() -> None:
        for _ in range(6):
            asyncio.run(several())

    asyncio.run(several())
    before = open_files()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == len(server.requests) == 490
    assert until(lambda: open_files() <= before + 2)


@pytest.mark.parametrize(
    ("close", "end"),
    [
        ("loop.close()", "del client"),
        ("loop.close()", "asyncio.run(client.aclose())"),
        ("pass", "pass"),
    ],
)
def test_an_event_loop_that_a_framework_leaves_leaves_no_open_session(scripted, close, end):
    # Closed without `shutdown_asyncgens`, or not at all. aiohttp complains on standard error.
    server = scripted(answer(body=SOURCE))
    code = """
import asyncio, sys
from knowledge_bot import AsyncClient, Delivery
client = AsyncClient("key", sys.argv[1])
for _ in range(3):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(client.create_text_source(name="n", collections="col_1", content="c"))
    CLOSE
"""
    code = code.replace("CLOSE", close)
    done = subprocess.run(
        [sys.executable, "-c", code + end, server.url], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert len(server.requests) == 3


async def test_cancelled_calls_give_their_connections_back(scripted):
    server = scripted(reply_to=lambda received: silence if b"wait" in received.body else done)
    async with AsyncClient(KEY, server.url, timeout=20) as client:
        # More than there are connections, so that some are cancelled while they wait for one.
        waiting = [
            asyncio.create_task(client.send_message(bot_id="bot_1", content="wait"))
            for _ in range(130)
        ]
        assert await until_awaited(lambda: len(server.requests) >= 100)
        for task in waiting:
            task.cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(error) for error in ended} == {asyncio.CancelledError}
        assert len(await asyncio.gather(*(create(client) for _ in range(100)))) == 100


async def test_a_call_that_is_cancelled_between_two_attempts_was_not_under_way(scripted):
    server = scripted(answer(429, headers={"Retry-After": "60"}))
    async with AsyncClient(KEY, server.url) as client:
        task = asyncio.create_task(create(client))
        assert await until_awaited(lambda: server.requests)
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert not hasattr(caught.value, "__notes__")


@pytest.mark.timeout(60)
async def test_headers_that_drip_are_given_up_when_the_time_is_over(scripted):
    server = scripted(then(raw(b"HTTP/1.1 200 OK\r\nA: "), drip(b"a" * 9999, 0.05)))
    async with AsyncClient(KEY, server.url, timeout=0.5) as client:
        with pytest.raises(RequestTimeoutError) as caught:
            await create(client)
    assert caught.value.delivery is Delivery.UNKNOWN
