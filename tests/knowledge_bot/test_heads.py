"""Heads in a database that is locked: who waits for it, for how long, and who does not."""

import asyncio
import os
import sqlite3
import threading
from contextlib import closing, contextmanager

import pytest

from knowledge_bot.conversations import Heads, HeadsError

pytestmark = pytest.mark.timeout(60)

SERVICE = "https://service.test"


@pytest.fixture
def heads(tmp_path):
    heads = Heads(tmp_path / "heads.db")
    look(heads)
    return heads


@contextmanager
def locked(tmp_path):
    with closing(sqlite3.connect(tmp_path / "heads.db", isolation_level=None)) as lock:
        lock.execute("BEGIN IMMEDIATE")
        yield
        lock.execute("ROLLBACK")


def look(heads):
    return heads.change((SERVICE, "conv_1"), lambda head: head)


def test_calls_that_wait_for_a_locked_database_end_together_and_hold_up_nobody_else(
    heads, tmp_path
):
    ended = []

    async def ask():
        try:
            await heads.off_the_loop(look, heads)
        except HeadsError as error:
            ended.append(error)

    async def main():
        asking = [asyncio.create_task(ask()) for _ in range(40)]
        await asyncio.sleep(0.1)
        await asyncio.gather(*(asyncio.to_thread(int) for _ in range(40)))
        before = len(ended)
        # One after another, each with a patience of its own, would take two minutes.
        await asyncio.wait_for(asyncio.gather(*asking), 20)
        return before

    with locked(tmp_path):
        assert asyncio.run(main()) == 0
    assert len(ended) == 40


def test_who_comes_after_a_failure_waits_as_long_as_anybody(heads, tmp_path):
    with locked(tmp_path), pytest.raises(HeadsError):
        look(heads)
    free = threading.Event()

    def hold():
        with locked(tmp_path):
            held.set()
            free.wait(10)

    held, holder = threading.Event(), threading.Thread(target=hold)
    holder.start()
    held.wait(10)
    threading.Timer(1.0, free.set).start()
    assert look(heads) is None
    holder.join()


def test_a_child_of_a_fork_has_a_thread_of_its_own(heads):
    async def ask():
        return await heads.off_the_loop(os.getpid)

    assert asyncio.run(ask()) == os.getpid()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, str(asyncio.run(ask())).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reader, 20)) == child
    os.close(reader)
    os.close(writer)
