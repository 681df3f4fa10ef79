"""Who waits for whom: sources for questions, and for how long."""

import asyncio
import time

import pytest

from knowledge_bot_service.work.backlog import Backlog, Questions


def test_a_source_waits_until_no_question_is_being_answered():
    async def run():
        questions = Questions()
        happened: list[str] = []

        async def add():
            await questions.wait()
            happened.append("stored")

        await questions.wait()
        with questions.one():
            with questions.one():
                adding = asyncio.create_task(add())
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            happened.append("answered")
        await adding
        return happened

    assert asyncio.run(run()) == ["answered", "stored"]


def test_a_source_waits_a_tenth_of_a_second_at_most():
    async def run():
        questions = Questions()
        with questions.one():
            began = time.monotonic()
            await asyncio.wait_for(questions.wait(), 60)
            return time.monotonic() - began

    assert asyncio.run(run()) >= 0.09


@pytest.mark.parametrize(("unfinished", "waits"), [(1, True), (5000, False)])
def test_a_question_waits_for_what_can_be_read_in_that_time(unfinished, waits):
    async def run():
        backlog = Backlog()
        for number in range(60 + unfinished):
            backlog.add(f"src_{number}", [1])
        for number in range(60):
            backlog.remove(f"src_{number}")
            await asyncio.sleep(0.001)
        began = time.monotonic()
        await backlog.wait([1], 1.0)
        return time.monotonic() - began

    assert (asyncio.run(run()) > 0.5) == waits
