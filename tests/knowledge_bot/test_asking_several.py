"""Several bots asked at once: every answer in its place, every failure reported, nothing unseen."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from calls import KEY
from knowledge_bot import AsyncClient, BadRequestError, Client
from knowledge_bot.adapters.retrieval import Retrieval
from knowledge_bot.testing import MemoryService
from waiting import until, until_awaited

pytestmark = pytest.mark.timeout(60)

URL = "https://service.test"
BOTS = ["bot_1", "bot_2", "bot_3"]


def ask(client, bots=BOTS):
    """The same question on either client."""
    retrieval = Retrieval(bots)
    ask = retrieval.aget if isinstance(client, AsyncClient) else retrieval.get
    return ask(client, "When?")


@pytest.fixture
def service():
    return MemoryService(bots={bot: {"When?": f"Says {bot}."} for bot in BOTS})


def refuse(service, bot):
    service.fail_next(
        400, message=f"not {bot}", where=lambda request: request.value.get("bot_id") == bot
    )


@pytest.fixture
def asked(call, service):
    """`asked()`: the answers, which are held until all bots were asked."""

    def run():
        with ThreadPoolExecutor(1) as thread:
            with service.holding_answers():
                asking = thread.submit(call, ask, service)
                # One after the other would wait for ever.
                assert until(lambda: len(service.requests) == len(BOTS))
            return asking.result()

    return run


def test_all_bots_are_asked_at_once_and_answer_in_the_order_given(asked):
    assert [found.text for found in asked()] == [f"Says {bot}." for bot in BOTS]


def test_the_first_failure_in_order_is_raised_and_reports_every_bot(asked, service):
    for bot in ("bot_3", "bot_1"):
        refuse(service, bot)
    with pytest.raises(BadRequestError, match="not bot_1") as caught:
        asked()
    first, second = caught.value.__notes__
    assert first == "This was bot_1. Of 3 bots asked, 1 answered."
    assert second.startswith("bot_3 failed as well: ")
    assert "not bot_3" in second


def test_one_bot_needs_no_note_and_none_is_not_asked(call, service):
    refuse(service, "bot_1")
    with pytest.raises(BadRequestError) as caught:
        call(lambda client: ask(client, ["bot_1"]), service)
    assert not hasattr(caught.value, "__notes__")
    assert call(lambda client: ask(client, []), service) == []
    assert len(service.requests) == 1


def test_a_thread_that_asks_sees_the_context_of_the_caller(service):
    run = ContextVar("run", default="lost")
    run.set("kept")
    seen = []

    class Traced(Client):
        def send_message(self, **arguments):
            seen.append(run.get())
            return super().send_message(**arguments)

    with Traced(KEY, URL, transport=service.transport) as client:
        ask(client)
    assert seen == ["kept"] * 3


async def test_cancelling_the_question_leaves_nobody_asking(service):
    async with AsyncClient(KEY, URL, transport=service.async_transport) as client:
        with service.holding_answers():
            asking = asyncio.create_task(ask(client))
            assert await until_awaited(lambda: len(service.requests) >= len(BOTS))
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert [found.text for found in await ask(client, BOTS[:1])] == ["Says bot_1."]
