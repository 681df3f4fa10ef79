"""How long a question waits for sources."""

import asyncio
import time

import pytest

from knowledge_bot_service.work.knowledge_base import Backlog


@pytest.mark.parametrize(("unfinished", "waits"), [(1, True), (5000, False)])
def test_a_question_waits_for_what_can_be_read_in_that_time(unfinished, waits):
    async def run():
        backlog = Backlog()
        for number in range(unfinished):
            backlog.add(f"src_{number}", [1])
        began = time.monotonic()
        await backlog.wait([1], 1.0)
        return time.monotonic() - began

    assert (asyncio.run(run()) > 0.5) == waits
