"""Who waits for whom: sources for questions, and for how long."""

import asyncio
import time

from knowledge_bot_service.backlog import Questions


def test_a_source_waits_until_no_question_is_being_answered() -> None:
    async def run() -> list[str]:
        questions = Questions()
        happened: list[str] = []

        async def add() -> None:
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


def test_a_source_waits_a_tenth_of_a_second_at_most() -> None:
    async def run() -> float:
        questions = Questions()
        with questions.one():
            began = time.monotonic()
            await asyncio.wait_for(questions.wait(), 60)
            return time.monotonic() - began

    assert asyncio.run(run()) >= 0.09
