"""What a call costs: ours against bare HTTP clients and vendor SDKs, sync and async.

Every candidate sends one question as JSON and gets an answer of some 500 bytes from the same local
server; the clients with models return theirs, the bare ones the parsed JSON.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import anthropic
import httpx
import openai
from answering_server import answering
from measuring import Cost, Figure, interleave, one_by_one, report, rows_of

from knowledge_bot import AsyncClient, Client

QUESTION = "How long is the loan period for hand tools?"
BODY = {"value": {"bot_id": "bot_1", "content": QUESTION}}
MESSAGES: Any = [{"role": "user", "content": QUESTION}]
PATH = "/public/v1/messages"
HEADERS = {"X-API-KEY": "key"}
CALLS = 192
ROUNDS = 15
WIDTH = 64
SYNC, ASYNC = "sync, 1 in flight", f"async, {WIDTH} in flight"

Ask = Callable[[], object]
AsyncAsk = Callable[[], Awaitable[object]]


def main() -> None:
    """Measure the blocking client one call at a time, and the other at 64 in flight."""
    os.environ.pop("OPENAI_ORG_ID", None)
    with answering() as url:
        costs = {**sync_costs(url), **async_costs(url)}
    rows = [row for case, measured in costs.items() for row in rows_of(case, measured)]
    figures = [
        ratio(costs[SYNC], "httpx", 0.70),
        ratio(costs[SYNC], "openai", 0.35),
        ratio(costs[ASYNC], "openai on aiohttp", 0.15),
        ratio(costs[ASYNC], "aiohttp", 1.35),
    ]
    report("What a call costs", [*figures, construction(url)], rows)


def ratio(costs: dict[str, Cost], anchor: str, bound: float | None = None) -> Figure:
    kind = "async call at 64 in flight" if "aiohttp" in costs else "sync call"
    return Figure(f"{kind}, CPU against {anchor}", costs["ours"].cpu / costs[anchor].cpu, bound)


def sync_costs(url: str) -> dict[str, dict[str, Cost]]:
    with (
        Client("key", url) as ours,
        httpx.Client(base_url=url, headers=HEADERS) as bare,
        openai.OpenAI(api_key="key", base_url=url + "/v1") as openai_client,
        anthropic.Anthropic(api_key="key", base_url=url) as anthropic_client,
    ):
        asks: dict[str, Ask] = {
            "ours": lambda: ours.send_message(bot_id="bot_1", content=QUESTION),
            "httpx": lambda: bare.post(PATH, json=BODY).raise_for_status().json(),
            "openai": lambda: openai_client.chat.completions.create(model="m", messages=MESSAGES),
            "anthropic": lambda: anthropic_client.messages.create(
                model="m", max_tokens=9, messages=MESSAGES
            ),
        }
        blocks = {name: one_by_one(ask, CALLS) for name, ask in asks.items()}
        return {SYNC: interleave(blocks, calls=CALLS, rounds=ROUNDS)}


def async_costs(url: str) -> dict[str, dict[str, Cost]]:
    with asyncio.Runner() as runner:
        asks, close = runner.run(async_clients(url))
        try:
            blocks = {name: in_tasks(runner, ask) for name, ask in asks.items()}
            return {ASYNC: interleave(blocks, calls=CALLS, rounds=ROUNDS)}
        finally:
            runner.run(close())


async def async_clients(url: str) -> tuple[dict[str, AsyncAsk], Callable[[], Any]]:
    ours = AsyncClient("key", url)
    session = aiohttp.ClientSession(url, headers=HEADERS)
    bare = httpx.AsyncClient(base_url=url, headers=HEADERS)
    plain = openai.AsyncOpenAI(api_key="key", base_url=url + "/v1")
    on_aiohttp = openai.AsyncOpenAI(
        api_key="key", base_url=url + "/v1", http_client=openai.DefaultAioHttpClient()
    )
    anthropic_client = anthropic.AsyncAnthropic(api_key="key", base_url=url)

    async def ask_aiohttp() -> object:
        async with session.post(PATH, json=BODY) as response:
            response.raise_for_status()
            return await response.json()

    async def ask_bare() -> object:
        return (await bare.post(PATH, json=BODY)).raise_for_status().json()

    async def close() -> None:
        await ours.aclose()
        await session.close()
        await bare.aclose()
        for sdk in (plain, on_aiohttp, anthropic_client):
            await sdk.close()

    return {
        "ours": lambda: ours.send_message(bot_id="bot_1", content=QUESTION),
        "aiohttp": ask_aiohttp,
        "httpx": ask_bare,
        "openai": lambda: plain.chat.completions.create(model="m", messages=MESSAGES),
        "openai on aiohttp": lambda: on_aiohttp.chat.completions.create(
            model="m", messages=MESSAGES
        ),
        "anthropic": lambda: anthropic_client.messages.create(
            model="m", max_tokens=9, messages=MESSAGES
        ),
    }, close


def in_tasks(runner: asyncio.Runner, ask: AsyncAsk) -> Callable[[], None]:
    async def work() -> None:
        for _ in range(CALLS // WIDTH):
            await ask()

    async def block() -> None:
        await asyncio.gather(*(work() for _ in range(WIDTH)))

    return lambda: runner.run(block())


def construction(url: str) -> Figure:
    """Measure a further client; the first one of a process builds the TLS context."""
    cost = interleave({"ours": lambda: Client("key", url).close()}, calls=1, rounds=50)["ours"]
    return Figure("a second client, CPU ms", cost.cpu / 1000, 1.0)


if __name__ == "__main__":
    main()
