"""Several bots asked at once: every answer in its place, every failure reported, nothing unseen."""

import asyncio
import threading
from contextvars import ContextVar

import pytest

from calls import KEY, MESSAGE
from knowledge_bot import AsyncClient, BadRequestError, Client
from knowledge_bot.adapters.retrieval import aask_bots, ask_bots
from scripted_server import answer, silence, then
from waiting import until_awaited

BOTS = ["bot_1", "bot_2", "bot_3"]


def ask(client, bots=BOTS):
    """The same question on either client."""
    function = aask_bots if isinstance(client, AsyncClient) else ask_bots
    return function(client, bots, "When do you open?")


def by_bot(**replies):
    """Each bot's reply, held until all were asked: one after the other would wait for ever."""
    everyone = threading.Barrier(len(replies))

    def reply_to(received):
        reply = replies[received.json()["value"]["bot_id"]]
        return then(lambda _: everyone.wait(20), reply)

    return {"reply_to": reply_to}


def says(text):
    return answer(body={**MESSAGE, "answer": text})


def refuses(text):
    return answer(400, {"code": "c", "message": text})


@pytest.mark.timeout(60)
def test_all_bots_are_asked_at_once_and_answer_in_the_order_given(call, scripted):
    server = scripted(**by_bot(bot_3=says("three"), bot_1=says("one"), bot_2=says("two")))
    assert [message.answer for message in call(ask, server.url)] == ["one", "two", "three"]


@pytest.mark.timeout(60)
def test_the_first_failure_in_order_is_raised_and_reports_every_bot(call, scripted):
    server = scripted(
        **by_bot(bot_1=refuses("not one"), bot_2=says("two"), bot_3=refuses("not three"))
    )
    with pytest.raises(BadRequestError, match="not one") as caught:
        call(ask, server.url)
    first, second = caught.value.__notes__
    assert first == "This was bot_1. Of 3 bots asked, 1 answered."
    assert second.startswith("bot_3 failed as well: ")
    assert "not three" in second


@pytest.mark.timeout(60)
def test_a_failure_is_raised_when_every_bot_has_answered(call, scripted):
    answered = threading.Event()
    others = then(lambda _: answered.wait(20), says("late"))
    refusal = then(refuses("at once"), lambda _: answered.set())
    server = scripted(**by_bot(bot_1=refusal, bot_2=others, bot_3=others))
    with pytest.raises(BadRequestError) as caught:
        call(ask, server.url)
    assert "2 answered" in caught.value.__notes__[0]


def test_one_bot_needs_no_note_and_none_is_not_asked(call, scripted):
    server = scripted(refuses("no"))
    with pytest.raises(BadRequestError) as caught:
        call(lambda client: ask(client, ["bot_1"]), server.url)
    assert not hasattr(caught.value, "__notes__")
    assert call(lambda client: ask(client, []), server.url) == []
    assert len(server.requests) == 1


def test_a_thread_that_asks_sees_the_context_of_the_caller(scripted):
    run = ContextVar("run", default="lost")
    run.set("kept")
    seen = []

    class Traced(Client):
        def send_message(self, **arguments):
            seen.append(run.get())
            return super().send_message(**arguments)

    server = scripted(says("yes"))
    with Traced(KEY, server.url) as client:
        ask_bots(client, BOTS, "When do you open?")
    assert seen == ["kept"] * 3


@pytest.mark.timeout(60)
async def test_cancelling_the_question_leaves_nobody_asking(scripted):
    server = scripted(silence, silence, silence, says("again"))
    async with AsyncClient(KEY, server.url) as client:
        asking = asyncio.create_task(aask_bots(client, BOTS, "When do you open?"))
        assert await until_awaited(lambda: len(server.requests) >= len(BOTS))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert [message.answer for message in await aask_bots(client, BOTS[:1], "?")] == ["again"]
