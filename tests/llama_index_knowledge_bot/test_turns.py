"""Turns among threads and event loops."""

import asyncio
import pickle
import threading
import time

import pytest

from knowledge_bot import ConfigurationError
from llama_index_knowledge_bot.turns import Turns
from waiting import until_awaited

pytestmark = pytest.mark.timeout(30)


class Watch:
    """Notes who is inside, and that nobody else is."""

    def __init__(self):
        self.order, self.inside = [], 0

    def enter(self, name):
        self.inside += 1
        assert self.inside == 1
        self.order.append(name)

    def leave(self):
        self.inside -= 1


async def test_tasks_of_one_loop_come_in_the_order_of_their_calls():
    turns, watch = Turns(), Watch()

    async def take(name):
        async with turns.ataken():
            watch.enter(name)
            await asyncio.sleep(0)
            watch.leave()

    await asyncio.gather(*map(take, range(20)))
    assert watch.order == list(range(20))


def test_threads_and_loops_exclude_each_other():
    turns, watch = Turns(), Watch()

    def blocking(name):
        for _ in range(20):
            with turns.taken():
                watch.enter(name)
                time.sleep(0.0005)
                watch.leave()

    async def awaiting(name):
        for _ in range(20):
            async with turns.ataken():
                watch.enter(name)
                await asyncio.sleep(0.0005)
                watch.leave()

    threads = [threading.Thread(target=blocking, args=(f"thread {n}",)) for n in range(3)]
    threads += [
        threading.Thread(target=lambda n=n: asyncio.run(awaiting(f"loop {n}"))) for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(watch.order) == 120


async def test_one_that_gives_up_waiting_lets_nobody_in_early():
    turns, watch = Turns(), Watch()
    first_may_end = asyncio.Event()

    async def take(name):
        async with turns.ataken():
            watch.enter(name)
            if name == "first":
                await first_may_end.wait()
            watch.leave()

    first, second, third = (
        asyncio.create_task(take(name)) for name in ("first", "second", "third")
    )
    assert await until_awaited(lambda: watch.order)
    second.cancel()
    assert await until_awaited(second.done)
    assert watch.order == ["first"]
    first_may_end.set()
    await asyncio.gather(first, third)
    assert watch.order == ["first", "third"]
    assert second.cancelled()


async def test_a_loop_is_not_stopped_by_waiting_for_itself():
    turns = Turns()
    async with turns.ataken():
        with pytest.raises(ConfigurationError, match="await the async"), turns.taken():
            pytest.fail("two turns at once")
    with turns.taken():  # the one that failed is out of the way
        pass


async def test_any_number_that_gave_up_waiting_hold_nobody_up():
    turns = Turns()
    async with turns.ataken():
        for _ in range(2000):
            with pytest.raises(ConfigurationError), turns.taken():
                pytest.fail("two turns at once")
    async with asyncio.timeout(10), turns.ataken():
        pass


def test_a_turn_that_fails_passes_on():
    turns = Turns()
    with pytest.raises(ZeroDivisionError), turns.taken():
        _ = 1 / 0
    with turns.taken():
        pass


def test_one_loop_s_end_does_not_hold_up_the_next():
    turns = Turns()

    async def take():
        async with turns.ataken():
            return True

    for _ in range(3):
        assert asyncio.run(take())


def test_a_pickle_waits_for_nobody():
    turns = Turns()
    with turns.taken(), pickle.loads(pickle.dumps(turns)).taken():
        pass
