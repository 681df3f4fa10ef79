"""What LlamaIndex's classes add to a call: ours against bare httpx and our own client.

Every candidate sends the same question to the same local server. Ours do so through the framework's
events, spans and callbacks.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from answering_server import answering
from llama_index.core.llms import ChatMessage
from measuring import Cost, Figure, interleave, one_by_one, report, rows_of

from knowledge_bot import AsyncClient, Client
from llama_index_knowledge_bot import (
    KnowledgeBotChatEngine,
    KnowledgeBotLLM,
    KnowledgeBotQueryEngine,
    KnowledgeBotRetriever,
)

QUESTION = "How long is the loan period for hand tools?"
BODY = {"value": {"bot_id": "bot_1", "content": QUESTION}}
PATH = "/public/v1/messages"
HEADERS = {"X-API-KEY": "key"}
CALLS = 100
ROUNDS = 15
TURNS = 10
"""How many turns a conversation of the chat engine has; each passes on the ones before it."""

BOUND = 0.5
"""Milliseconds of CPU that a call may cost more than with bare httpx."""

TOGETHER = 20
DELAY = 0.2
"""Seconds that the slow service takes."""

Ask = Callable[[], object]
AsyncAsk = Callable[[], Awaitable[object]]


def main() -> None:
    """Measure every class, blocking and awaited, one call at a time."""
    with answering() as url:
        costs = {"sync": sync_costs(url), "async": async_costs(url)}
    rows = [row for case, measured in costs.items() for row in rows_of(case, measured)]
    figures = [
        Figure(f"{case} {name}, CPU ms over httpx", added(measured, name), BOUND)
        for case, measured in costs.items()
        for name in measured
        if name != "httpx"
    ]
    together = Figure(f"{TOGETHER} aretrieve at once, each {DELAY} s, in seconds", at_once(), 0.5)
    report("What LlamaIndex's classes add to a call", [*figures, together], rows)


def added(costs: dict[str, Cost], name: str) -> float:
    return (costs[name].cpu - costs["httpx"].cpu) / 1000


def at_once() -> float:
    """Return the median time in seconds of several questions at once to a slow service."""

    async def rounds(retriever: KnowledgeBotRetriever) -> list[float]:
        taken = []
        for _ in range(5):
            started = time.perf_counter()
            await asyncio.gather(*(retriever.aretrieve(QUESTION) for _ in range(TOGETHER)))
            taken.append(time.perf_counter() - started)
        return taken

    with answering(DELAY) as url, Client("key", url) as client:
        return statistics.median(asyncio.run(rounds(KnowledgeBotRetriever("bot_1", client=client))))


def ours(client: Client) -> dict[str, Any]:
    return {
        "llm": KnowledgeBotLLM("bot_1", client=client),
        "retriever": KnowledgeBotRetriever("bot_1", client=client),
        "query engine": KnowledgeBotQueryEngine("bot_1", client=client),
        "chat engine": KnowledgeBotChatEngine("bot_1", client=client),
    }


def sync_costs(url: str) -> dict[str, Cost]:
    with Client("key", url) as client, httpx.Client(base_url=url, headers=HEADERS) as bare:
        made = ours(client)
        asks: dict[str, Ask] = {
            "httpx": lambda: bare.post(PATH, json=BODY).raise_for_status().json(),
            "knowledge_bot": lambda: client.send_message(bot_id="bot_1", content=QUESTION),
            "llm.complete": lambda: made["llm"].complete(QUESTION),
            "llm.chat": lambda: made["llm"].chat([ChatMessage(QUESTION)]),
            "retriever": lambda: made["retriever"].retrieve(QUESTION),
            "query engine": lambda: made["query engine"].query(QUESTION),
            "chat engine": lambda: in_conversation(made["chat engine"]).chat(QUESTION),
        }
        blocks = {name: one_by_one(ask, CALLS) for name, ask in asks.items()}
        return interleave(blocks, calls=CALLS, rounds=ROUNDS)


def in_conversation(engine: KnowledgeBotChatEngine) -> KnowledgeBotChatEngine:
    """Return the engine, in a new conversation once there are enough turns in its last one."""
    if len(engine.chat_history) >= 2 * TURNS:
        engine.reset()
    return engine


def async_costs(url: str) -> dict[str, Cost]:
    with asyncio.Runner() as runner, Client("key", url) as client:
        awaiting, bare = runner.run(clients(url))
        made = ours(client)
        asks: dict[str, AsyncAsk] = {
            "httpx": lambda: posted(bare),
            "knowledge_bot": lambda: awaiting.send_message(bot_id="bot_1", content=QUESTION),
            "llm.complete": lambda: made["llm"].acomplete(QUESTION),
            "llm.chat": lambda: made["llm"].achat([ChatMessage(QUESTION)]),
            "retriever": lambda: made["retriever"].aretrieve(QUESTION),
            "query engine": lambda: made["query engine"].aquery(QUESTION),
            "chat engine": lambda: in_conversation(made["chat engine"]).achat(QUESTION),
        }
        try:
            blocks = {name: in_turn(runner, ask) for name, ask in asks.items()}
            return interleave(blocks, calls=CALLS, rounds=ROUNDS)
        finally:
            runner.run(closed(awaiting, bare))


async def clients(url: str) -> tuple[AsyncClient, httpx.AsyncClient]:
    return AsyncClient("key", url), httpx.AsyncClient(base_url=url, headers=HEADERS)


async def closed(awaiting: AsyncClient, bare: httpx.AsyncClient) -> None:
    await awaiting.aclose()
    await bare.aclose()


async def posted(bare: httpx.AsyncClient) -> object:
    return (await bare.post(PATH, json=BODY)).raise_for_status().json()


def in_turn(runner: asyncio.Runner, ask: AsyncAsk) -> Callable[[], None]:
    async def block() -> None:
        for _ in range(CALLS):
            await ask()

    return lambda: runner.run(block())


if __name__ == "__main__":
    main()
