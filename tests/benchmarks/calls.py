"""What a call costs: ours against bare HTTP clients and vendor SDKs, sync and async.

Every candidate sends one question as JSON and gets an answer of some 500 bytes from the same local
server; the clients with models return theirs, the bare ones the parsed JSON.
"""

import asyncio
import http.client
import json
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import anthropic
import httpx
import httpx2
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

Ask = Callable[[], object]
AsyncAsk = Callable[[], Awaitable[object]]


def main() -> None:
    """Measure both kinds of clients at 1, 16 and 64 calls in flight."""
    os.environ.pop("OPENAI_ORG_ID", None)
    with answering() as url:
        costs = {**sync_costs(url), **async_costs(url)}
    rows = [row for case, measured in costs.items() for row in rows_of(case, measured)]
    figures = [
        ratio(costs["sync, 1 in flight"], "httpx", 0.70),
        ratio(costs["sync, 1 in flight"], "openai", 0.35),
        ratio(costs["async, 64 in flight"], "openai on aiohttp", 0.15),
        ratio(costs["async, 64 in flight"], "aiohttp", 1.35),
        ratio(costs["sync, 1 in flight"], "anthropic"),
        ratio(costs["sync, 1 in flight"], "raw socket"),
        ratio(costs["async, 64 in flight"], "httpx"),
    ]
    report("What a call costs", [*figures, construction(url)], rows)


def ratio(costs: dict[str, Cost], anchor: str, bound: float | None = None) -> Figure:
    kind = "async call at 64 in flight" if "aiohttp" in costs else "sync call"
    return Figure(f"{kind}, CPU against {anchor}", costs["ours"].cpu / costs[anchor].cpu, bound)


def sync_costs(url: str) -> dict[str, dict[str, Cost]]:
    with (
        Client("key", url) as ours,
        httpx.Client(base_url=url, headers=HEADERS) as bare,
        httpx2.Client(base_url=url, headers=HEADERS) as bare2,
        openai.OpenAI(api_key="key", base_url=url + "/v1") as openai_client,
        anthropic.Anthropic(api_key="key", base_url=url) as anthropic_client,
    ):
        asks: dict[str, Ask] = {
            "ours": lambda: ours.send_message(bot_id="bot_1", content=QUESTION),
            "raw socket": raw_socket(url),
            "httpx": lambda: bare.post(PATH, json=BODY).raise_for_status().json(),
            "httpx2": lambda: bare2.post(PATH, json=BODY).raise_for_status().json(),
            "openai": lambda: openai_client.chat.completions.create(model="m", messages=MESSAGES),
            "anthropic": lambda: anthropic_client.messages.create(
                model="m", max_tokens=9, messages=MESSAGES
            ),
        }
        costs = {
            "sync, 1 in flight": interleave(
                {name: one_by_one(ask, CALLS) for name, ask in asks.items()},
                calls=CALLS,
                rounds=ROUNDS,
            )
        }
        del asks["raw socket"]  # one connection, so one call at a time
        for width in (16, 64):
            with ThreadPoolExecutor(width) as pool:
                blocks = {name: by_threads(pool, ask) for name, ask in asks.items()}
                case = f"sync, {width} in flight"
                costs[case] = interleave(blocks, calls=CALLS, rounds=ROUNDS)
        return costs


def by_threads(pool: ThreadPoolExecutor, ask: Ask) -> Callable[[], None]:
    return lambda: [future.result() for future in [pool.submit(ask) for _ in range(CALLS)]] and None


def raw_socket(url: str) -> Ask:
    """Return the least that Python can do with one kept connection and its own `http.client`."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    headers = {**HEADERS, "content-type": "application/json"}

    def ask() -> object:
        connection.request("POST", PATH, json.dumps(BODY), headers)
        return json.loads(connection.getresponse().read())

    return ask


def async_costs(url: str) -> dict[str, dict[str, Cost]]:
    with asyncio.Runner() as runner:
        asks, close = runner.run(async_clients(url))
        try:
            return {
                f"async, {width} in flight": interleave(
                    {name: in_tasks(runner, ask, width) for name, ask in asks.items()},
                    calls=CALLS,
                    rounds=ROUNDS,
                )
                for width in (1, 16, 64)
            }
        finally:
            runner.run(close())


async def async_clients(url: str) -> tuple[dict[str, AsyncAsk], Callable[[], Any]]:
    ours = AsyncClient("key", url)
    session = aiohttp.ClientSession(url, headers=HEADERS)
    bare = httpx.AsyncClient(base_url=url, headers=HEADERS)
    bare2 = httpx2.AsyncClient(base_url=url, headers=HEADERS)
    plain = openai.AsyncOpenAI(api_key="key", base_url=url + "/v1")
    on_aiohttp = openai.AsyncOpenAI(
        api_key="key", base_url=url + "/v1", http_client=openai.DefaultAioHttpClient()
    )
    anthropic_client = anthropic.AsyncAnthropic(api_key="key", base_url=url)

    async def ask_aiohttp() -> object:
        async with session.post(PATH, json=BODY) as response:
            response.raise_for_status()
            return await response.json()

    async def ask_bare(client: Any) -> object:
        return (await client.post(PATH, json=BODY)).raise_for_status().json()

    async def close() -> None:
        await ours.aclose()
        await session.close()
        await bare.aclose()
        await bare2.aclose()
        for sdk in (plain, on_aiohttp, anthropic_client):
            await sdk.close()

    return {
        "ours": lambda: ours.send_message(bot_id="bot_1", content=QUESTION),
        "aiohttp": ask_aiohttp,
        "httpx": lambda: ask_bare(bare),
        "httpx2": lambda: ask_bare(bare2),
        "openai": lambda: plain.chat.completions.create(model="m", messages=MESSAGES),
        "openai on aiohttp": lambda: on_aiohttp.chat.completions.create(
            model="m", messages=MESSAGES
        ),
        "anthropic": lambda: anthropic_client.messages.create(
            model="m", max_tokens=9, messages=MESSAGES
        ),
    }, close


def in_tasks(runner: asyncio.Runner, ask: AsyncAsk, width: int) -> Callable[[], None]:
    async def work() -> None:
        for _ in range(CALLS // width):
            await ask()

    async def block() -> None:
        await asyncio.gather(*(work() for _ in range(width)))

    return lambda: runner.run(block())


def construction(url: str) -> Figure:
    """Measure a further client; the first one of a process builds the TLS context."""
    cost = interleave({"ours": lambda: Client("key", url).close()}, calls=1, rounds=50)["ours"]
    return Figure("a second client, CPU ms", cost.cpu / 1000, 1.0)


if __name__ == "__main__":
    main()
