"""What LangChain's classes add to a call, ours against bare httpx and ChatOpenAI, and to an import.

Every candidate sends the same question to the same local server.
"""

import asyncio
import statistics
from collections.abc import Awaitable, Callable

import httpx
from answering_server import answering
from imports import measure
from langchain_openai import ChatOpenAI
from measuring import Cost, Figure, interleave, one_by_one, report, rows_of

from knowledge_bot import Client
from langchain_knowledge_bot import ChatKnowledgeBot, KnowledgeBotRetriever, KnowledgeBotTool

QUESTION = "How long is the loan period for hand tools?"
BODY = {"value": {"bot_id": "bot_1", "content": QUESTION}}
PATH = "/public/v1/messages"
HEADERS = {"X-API-KEY": "key"}
CALLS = 96
ROUNDS = 15
WIDTH = 16
IMPORT_ROUNDS = 9
FRAMEWORK = "import langchain_core.language_models.chat_models"
CHAT = "from langchain_knowledge_bot import ChatKnowledgeBot"
ALL = "from langchain_knowledge_bot import *"
OPENAI = "from langchain_openai import ChatOpenAI"

Ask = Callable[[], object]
AsyncAsk = Callable[[], Awaitable[object]]


def main() -> None:
    """Measure calls one at a time and many at once, blocking and awaited, and the import."""
    with answering() as url:
        one, many, awaited = costs(url)
    imports = import_costs()
    chat, retriever = one["chat model"], one["retriever"]
    figures = [
        Figure("chat model, CPU against httpx", chat.cpu / one["httpx"].cpu, 1.7),
        Figure("retriever, CPU against httpx", retriever.cpu / one["httpx"].cpu, 1.3),
        Figure("chat model, CPU against ChatOpenAI", chat.cpu / one["ChatOpenAI"].cpu, 0.5),
        Figure("batch, CPU against ChatOpenAI", many["chat model"].cpu / many["ChatOpenAI"].cpu),
        Figure(
            "abatch, CPU against ChatOpenAI", awaited["chat model"].cpu / awaited["ChatOpenAI"].cpu
        ),
        Figure("import, CPU against langchain_core", imports[CHAT] / imports[FRAMEWORK], 1.25),
        Figure("import of all, CPU against langchain_core", imports[ALL] / imports[FRAMEWORK]),
        Figure("import, CPU against ChatOpenAI's", imports[CHAT] / imports[OPENAI]),
    ]
    rows = [
        *rows_of("invoke", one),
        *rows_of(f"batch, {WIDTH} in flight", many),
        *rows_of(f"abatch, {WIDTH} in flight", awaited),
        *(
            {"case": "import", "client": name, "CPU µs": round(cpu * 1000), "wall µs": ""}
            for name, cpu in imports.items()
        ),
    ]
    report("What LangChain's classes add to a call", figures, rows)


def costs(url: str) -> tuple[dict[str, Cost], dict[str, Cost], dict[str, Cost]]:
    with Client("key", url) as client, httpx.Client(base_url=url, headers=HEADERS) as bare:
        chat = ChatKnowledgeBot(bot_id="bot_1", client=client)
        retriever = KnowledgeBotRetriever(bot_id="bot_1", client=client)
        tool = KnowledgeBotTool(bot_id="bot_1", client=client)
        openai = ChatOpenAI(model="m", api_key="key", base_url=url + "/v1")
        asks: dict[str, Ask] = {
            "httpx": lambda: bare.post(PATH, json=BODY).raise_for_status().json(),
            "knowledge_bot": lambda: client.send_message(bot_id="bot_1", content=QUESTION),
            "chat model": lambda: chat.invoke(QUESTION),
            "retriever": lambda: retriever.invoke(QUESTION),
            "tool": lambda: tool.invoke({"question": QUESTION}),
            "ChatOpenAI": lambda: openai.invoke(QUESTION),
        }
        one = interleave(
            {name: one_by_one(ask, CALLS) for name, ask in asks.items()}, calls=CALLS, rounds=ROUNDS
        )
        models = {"chat model": chat, "ChatOpenAI": openai}
        questions, config = [QUESTION] * CALLS, {"max_concurrency": WIDTH}
        many = interleave(
            {name: lambda m=model: m.batch(questions, config) for name, model in models.items()},
            calls=CALLS,
            rounds=ROUNDS,
        )
        with asyncio.Runner() as runner:
            awaited = interleave(
                {
                    name: lambda m=model: runner.run(m.abatch(questions, config))
                    for name, model in models.items()
                },
                calls=CALLS,
                rounds=ROUNDS,
            )
        return one, many, awaited


def import_costs() -> dict[str, float]:
    """Return the CPU milliseconds of each import in a fresh interpreter: medians, taken in turn."""
    samples: dict[str, list[float]] = {name: [] for name in (FRAMEWORK, CHAT, ALL, OPENAI)}
    for _ in range(IMPORT_ROUNDS):
        for statement, measured in samples.items():
            measured.append(measure(statement)[0])
    return {statement: statistics.median(measured) for statement, measured in samples.items()}


if __name__ == "__main__":
    main()
