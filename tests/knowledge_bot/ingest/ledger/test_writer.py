"""What the writer's thread makes of what a loop hands over."""

import asyncio
import contextlib
import sqlite3
import time

import pytest

from knowledge_bot.ingest import Ledger
from knowledge_bot.ingest.ledger.owners import Owner
from knowledge_bot.ingest.ledger.rows import Row
from knowledge_bot.ingest.ledger.writer import Writer

pytestmark = pytest.mark.timeout(60)

OWNER = Owner.of_this_process()


def claim_of(number: int) -> Row:
    name = f"t{number}"
    return Row(
        id=f"{number:032}",
        service="http://h.example",
        collections="col_1",
        key=name,
        name=name,
        kind="text",
        state="claimed",
        digest="d1",
        source_id=None,
        source_name=None,
        source_digest=None,
        signature=None,
        owner=OWNER.id,
        version=1,
        attempts=1,
        error="",
        updated_at=time.time(),
    )


def result_of(claim: Row) -> Row:
    return claim._replace(state="created", version=3, source_id=f"src_{claim.name}")


@pytest.fixture
def written(tmp_path):
    """`written(work, concurrency=…)`: await `work(writer)`, end the writer, return the states."""

    def go(work, concurrency=8):
        async def main():
            ledger = Ledger(tmp_path / "ledger.db")
            ledger.prepare()
            loop = asyncio.get_running_loop()
            writer = Writer(ledger.database(), ledger.store(), OWNER, loop, concurrency)
            writer.start()
            try:
                await work(writer)
            finally:
                writer.end()
                await asyncio.to_thread(writer.join)
            assert writer.unrecorded == []

        asyncio.run(main())
        return states(tmp_path)

    return go


def states(folder):
    with contextlib.closing(sqlite3.connect(folder / "ledger.db")) as connection:
        return dict(connection.execute("select name, state from kbot_sources"))


@pytest.mark.parametrize("concurrency", [1, 3, 8, 200])
def test_a_claim_is_in_the_database_when_it_is_told_to_be(written, tmp_path, concurrency):
    async def work(writer):
        claims = [claim_of(number) for number in range(concurrency)]
        for told in asyncio.as_completed([writer.claim(claim) for claim in claims]):
            assert await told
        assert states(tmp_path) == {claim.name: "claimed" for claim in claims}
        for claim in claims:
            writer.record(result_of(claim))

    assert set(written(work, concurrency).values()) == {"created"}


def test_a_result_is_never_written_after_the_next_claim(written, tmp_path):
    most = []

    async def one_after_the_other(writer, worker):
        for turn in range(20):
            claim = claim_of(worker * 100 + turn)
            assert await writer.claim(claim)
            most.append(list(states(tmp_path).values()).count("claimed"))
            writer.record(result_of(claim))

    async def work(writer):
        await asyncio.gather(*(one_after_the_other(writer, worker) for worker in range(8)))

    assert list(written(work).values()) == ["created"] * 160
    assert max(most) <= 8


def test_a_claim_that_is_withdrawn_at_once_leaves_nothing(written):
    async def work(writer):
        for number in range(40):
            writer.claim(claim_of(number))
        for number in range(40):
            writer.withdraw(claim_of(number))

    assert written(work) == {}


def test_what_is_handed_over_last_is_written(written):
    async def work(writer):
        claim = claim_of(1)
        assert await writer.claim(claim)
        writer.record(result_of(claim))

    assert written(work) == {"t1": "created"}


@pytest.mark.parametrize("concurrency", [8, 400])  # groups of one statement, and of several
def test_what_another_worker_has_is_not_won(written, concurrency):
    async def work(writer):
        taken = claim_of(3)._replace(owner="somebody else")
        assert await writer.claim(taken)
        won = await asyncio.gather(*(writer.claim(claim_of(number)) for number in range(100)))
        assert [number for number, is_won in enumerate(won) if not is_won] == [3]
        for number in set(range(100)) - {3}:
            writer.record(result_of(claim_of(number)))

    # Its owner is not among those that live, so it ends as one that nobody knows.
    assert written(work, concurrency).pop("t3") == "unknown"


def test_after_a_slow_transaction_all_that_waits_goes_into_the_next(written, tmp_path):
    async def work(writer):
        with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            claims = [writer.claim(claim_of(number)) for number in range(8)]
            await asyncio.sleep(0.5)
            other.rollback()
        await claims[2]
        assert all(claim.done() for claim in claims)

    written(work)
