"""What the classes of LangChain and LlamaIndex add to a call: ours beside httpx and ChatOpenAI.

Every candidate sends the same question to the same local server, through its framework's events,
spans and callbacks.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx
from answering_server import answering
from imports import measure
from langchain_openai import ChatOpenAI
from llama_index.core.llms import ChatMessage
from measuring import Cost, Figure, interleave, report, rows_of

from knowledge_bot import AsyncClient, Client
from langchain_knowledge_bot import ChatKnowledgeBot
from langchain_knowledge_bot import KnowledgeBotRetriever as OfLangChain
from llama_index_knowledge_bot import (
    KnowledgeBotChatEngine,
    KnowledgeBotLLM,
    KnowledgeBotQueryEngine,
    KnowledgeBotRetriever,
)

QUESTION = "How long is the loan period for hand tools?"
CALLS, ROUNDS = 100, 15
TOGETHER, DELAY = 20, 0.2  # questions at once, and the seconds that a slow service takes
BOUND = 0.5  # milliseconds of CPU that LlamaIndex's classes may cost more than httpx
IMPORTS = {
    "langchain_core": "import langchain_core.language_models.chat_models",
    "ours": "from langchain_knowledge_bot import ChatKnowledgeBot",
}

Asks = Mapping[str, Callable[[], Any]]


def main() -> None:
    """Measure every class, blocking and awaited, one call at a time, and an import."""
    with answering() as url, Client("key", url) as client:
        chat = ChatKnowledgeBot(bot_id="bot_1", client=client)
        openai = ChatOpenAI(model="m", api_key="key", base_url=url + "/v1")
        retriever = OfLangChain(bot_id="bot_1", client=client)
        ours = llama_index(client)
        with httpx.Client(base_url=url, headers={"X-API-KEY": "key"}) as bare:
            sync = blocking(
                {
                    "httpx": lambda: bare.post(**REQUEST).raise_for_status().json(),
                    "knowledge_bot": lambda: client.send_message(bot_id="bot_1", content=QUESTION),
                    "chat model": lambda: chat.invoke(QUESTION),
                    "retriever of LangChain": lambda: retriever.invoke(QUESTION),
                    "ChatOpenAI": lambda: openai.invoke(QUESTION),
                    "llm": lambda: ours["llm"].chat([ChatMessage(QUESTION)]),
                    "retriever": lambda: ours["retriever"].retrieve(QUESTION),
                    "query engine": lambda: ours["query engine"].query(QUESTION),
                    "chat engine": lambda: ours["chat engine"]().chat(QUESTION),
                }
            )
        awaited = awaiting(url, ours)
    of_imports = {
        name: statistics.median(measure(statement)[0] for _ in range(9))
        for name, statement in IMPORTS.items()
    }
    figures = [
        Figure("chat model, CPU against httpx", sync["chat model"].cpu / sync["httpx"].cpu, 1.7),
        Figure(
            "LangChain's retriever, CPU against httpx",
            sync["retriever of LangChain"].cpu / sync["httpx"].cpu,
            1.3,
        ),
        Figure(
            "chat model, CPU against ChatOpenAI",
            sync["chat model"].cpu / sync["ChatOpenAI"].cpu,
            0.5,
        ),
        Figure(
            "import, CPU against langchain_core",
            of_imports["ours"] / of_imports["langchain_core"],
            1.25,
        ),
        *(
            Figure(f"{case} {name}, CPU ms over httpx", added(costs, name), BOUND)
            for case, costs in (("sync", sync), ("async", awaited))
            for name in ("knowledge_bot", *ours)
        ),
        Figure(f"{TOGETHER} aretrieve at once, each {DELAY} s, in seconds", at_once(), 0.5),
    ]
    rows = [*rows_of("blocking", sync), *rows_of("awaited", awaited)]
    report("What the adapters' classes add to a call", figures, rows)


REQUEST: Any = {
    "url": "/public/v1/messages",
    "json": {"value": {"bot_id": "bot_1", "content": QUESTION}},
}


def added(costs: Mapping[str, Cost], name: str) -> float:
    return (costs[name].cpu - costs["httpx"].cpu) / 1000


def llama_index(client: Client) -> dict[str, Any]:
    engine = KnowledgeBotChatEngine("bot_1", client=client)

    def in_conversation() -> KnowledgeBotChatEngine:
        """Return the engine, in a new conversation once there are ten turns in its last one."""
        if len(engine.chat_history) >= 20:
            engine.reset()
        return engine

    return {
        "llm": KnowledgeBotLLM("bot_1", client=client),
        "retriever": KnowledgeBotRetriever("bot_1", client=client),
        "query engine": KnowledgeBotQueryEngine("bot_1", client=client),
        "chat engine": in_conversation,
    }


def blocking(asks: Asks) -> dict[str, Cost]:
    def block(ask: Callable[[], Any]) -> Callable[[], None]:
        return lambda: [ask() for _ in range(CALLS)] and None

    return interleave({name: block(ask) for name, ask in asks.items()}, calls=CALLS, rounds=ROUNDS)


def awaiting(url: str, ours: dict[str, Any]) -> dict[str, Cost]:
    async def in_turn(ask: Callable[[], Awaitable[Any]]) -> None:
        for _ in range(CALLS):
            await ask()

    async def made() -> tuple[AsyncClient, httpx.AsyncClient]:
        bare = httpx.AsyncClient(base_url=url, headers={"X-API-KEY": "key"})
        return AsyncClient("key", url), bare

    with asyncio.Runner() as runner:
        client, bare = runner.run(made())
        asks: Asks = {
            "httpx": lambda: bare.post(**REQUEST),
            "knowledge_bot": lambda: client.send_message(bot_id="bot_1", content=QUESTION),
            "llm": lambda: ours["llm"].achat([ChatMessage(QUESTION)]),
            "retriever": lambda: ours["retriever"].aretrieve(QUESTION),
            "query engine": lambda: ours["query engine"].aquery(QUESTION),
            "chat engine": lambda: ours["chat engine"]().achat(QUESTION),
        }
        blocks = {name: lambda a=ask: runner.run(in_turn(a)) for name, ask in asks.items()}
        try:
            return interleave(blocks, calls=CALLS, rounds=ROUNDS)
        finally:
            runner.run(client.aclose())
            runner.run(bare.aclose())


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


if __name__ == "__main__":
    main()
