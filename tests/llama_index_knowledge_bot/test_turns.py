"""Turns among threads and event loops."""

import asyncio
import pickle

import pytest

from knowledge_bot import ConfigurationError
from llama_index_knowledge_bot.engines import Turns
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


async def test_any_number_that_gave_up_waiting_hold_nobody_up():
    turns = Turns()
    async with turns.ataken():
        for _ in range(2000):
            with pytest.raises(ConfigurationError), turns.taken():
                pytest.fail("two turns at once")
    async with asyncio.timeout(10), turns.ataken():
        pass


def test_a_pickle_waits_for_nobody():
    turns = Turns()
    with turns.taken(), pickle.loads(pickle.dumps(turns)).taken():
        pass
