"""Every failure means the same everywhere: may the service have acted, and may it pass?

A face tries again by itself, or leaves it to its framework, where the same call may succeed later
(`may_pass`), and, of what is no mere reading, where it cannot have been acted on (`delivery`).
What sockets do, `faults.py` has.
"""

import asyncio

import httpx
import pytest

from failures import FAILURES, failing, tries
from knowledge_bot import AsyncClient, Client, KnowledgeBotError
from knowledge_bot.checks import Question, check
from knowledge_bot.testing import MemoryService, no_waiting

KEY, URL = "key-of-the-tests", "https://service.test"


def client(service: MemoryService, max_retries: int = 0) -> Client:
    return Client(KEY, URL, transport=service.transport, max_retries=max_retries)


def ask(service: MemoryService, max_retries: int = 0) -> object:
    return client(service, max_retries).send_message(bot_id="bot_1", content="When?")


def by_the_client(service: MemoryService) -> object:
    return ask(service, max_retries=1)


def by_the_asynchronous_client(service: MemoryService) -> object:
    made = AsyncClient(KEY, URL, transport=service.async_transport, max_retries=1)
    return asyncio.run(made.send_message(bot_id="bot_1", content="When?"))


def by_a_reading_client(service: MemoryService) -> object:
    return client(service, max_retries=1).list_bots()


def by_a_check(service: MemoryService) -> object:
    questions = [Question(ask="When?", contains="nine")]
    return check(client(service), "bot_1", questions, wait=5, interval=0.1, messages=2)


def by_langchain(service: MemoryService) -> object:
    from langchain_knowledge_bot import ChatKnowledgeBot

    bot = ChatKnowledgeBot(bot_id="bot_1", client=client(service))
    return bot.with_retry(stop_after_attempt=2, wait_exponential_jitter=False).invoke("When?")


def by_a_client_of_the_gateway(service: MemoryService) -> object:
    """OpenAI's clients send again what `x-should-retry` says."""
    from knowledge_bot_gateway import Admission, Upstream, create_app

    body = {"model": "bot_1", "messages": [{"role": "user", "content": "When?"}]}

    async def post() -> None:
        with service.standing_in():
            app = create_app(Upstream(URL, KEY), Admission((KEY,), hosts=("gateway",)))
            transport = httpx.ASGITransport(app)
            headers = {"Authorization": f"Bearer {KEY}"}
            async with httpx.AsyncClient(transport=transport, headers=headers) as web:
                answer = await web.post("http://gateway/v1/chat/completions", json=body)
                if answer.headers.get("x-should-retry") == "true":
                    await web.post("http://gateway/v1/chat/completions", json=body)

    return asyncio.run(post())


WRITING = (
    by_the_client,
    by_the_asynchronous_client,
    by_langchain,
    by_a_client_of_the_gateway,
)
READING = (by_a_reading_client, by_a_check)
"""Asking a bot once more what it was asked creates nothing but a message."""


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_says_whether_it_may_pass_and_whether_the_service_acted(name):
    failure = FAILURES[name]
    with pytest.raises(KnowledgeBotError) as caught:
        ask(failing(failure))
    assert (caught.value.may_pass, caught.value.delivery) == (failure.may_pass, failure.delivery)


@pytest.mark.parametrize("face", [*WRITING, *READING])
@pytest.mark.parametrize("name", FAILURES)
def test_every_face_tries_again_what_may_pass_and_nothing_else(name, face):
    failure = FAILURES[name]
    again = failure.may_pass if face in READING else failure.may_be_asked_again
    with no_waiting():
        service = failing(failure)
        assert tries(failure, service, lambda: face(service)) == 1 + again
