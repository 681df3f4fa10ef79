"""Tears an event loop down under `aingest`: `python torn_down_loop.py HOW URL LEDGER FLAG`.

It is done when the file FLAG is there. What the process says on standard output is for the test.
"""

import asyncio
import gc
import sys
import threading
from pathlib import Path

from knowledge_bot import AsyncClient
from knowledge_bot.ingest import Ledger, Text, aingest
from waiting import until, until_awaited


def items():
    """Yield more than is sent, and then wait for ever, as a queue's consumer does."""
    for number in range(600):
        yield Text(name=f"item {number}", content=f"Text {number}.")
    threading.Event().wait()


async def ingesting(url: str, ledger: str, timeout: float = 600) -> None:
    client = AsyncClient("key", url, timeout=timeout)
    await aingest(
        client,
        items(),
        collections="col_1",
        ledger=Ledger(ledger),
        concurrency=2,
    )


async def under_way(flag: str) -> None:
    """Wait until the service has what is sent, and answers nothing."""
    await until_awaited(Path(flag).exists)


async def another_part_fails(url: str, ledger: str, flag: str) -> None:
    task = asyncio.create_task(ingesting(url, ledger))
    await under_way(flag)
    assert not task.done()
    raise LookupError("another part of the program failed")


async def a_group_fails(url: str, ledger: str, flag: str) -> None:
    async with asyncio.TaskGroup() as group:  # it cancels once: what is in flight is waited for
        group.create_task(ingesting(url, ledger, timeout=1))
        await under_way(flag)
        raise LookupError("another part of the program failed")


async def main_returns(url: str, ledger: str, flag: str) -> None:
    task = asyncio.create_task(ingesting(url, ledger))
    await under_way(flag)
    assert not task.done()


async def cancelled_twice(url: str, ledger: str, flag: str) -> None:
    task = asyncio.create_task(ingesting(url, ledger))
    await under_way(flag)
    task.cancel()
    await asyncio.sleep(0.2)
    task.cancel()
    await task


def run(how: str, url: str, ledger: str, flag: str) -> None:
    if how != "closed":
        asyncio.run(globals()[how](url, ledger, flag))
        return
    loop = asyncio.new_event_loop()
    task = loop.create_task(ingesting(url, ledger))
    loop.run_until_complete(under_way(flag))
    loop.close()
    del task, loop
    gc.collect()
    # This process goes on, and so may its other runs.
    until(lambda: list(Ledger(ledger).unknown()), 10)
    say(f"unknown here: {len(list(Ledger(ledger).unknown()))}")


def say(words: str) -> None:
    print(words, flush=True)  # noqa: T201 - read by the test


if __name__ == "__main__":
    try:
        run(*sys.argv[1:])
    except BaseException as error:  # noqa: BLE001 - what it raises is what is tested
        say(f"raised {type(error).__name__}")
        raise SystemExit(0) from None
