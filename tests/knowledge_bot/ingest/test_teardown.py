"""Event loops that are torn down under a run: it ends, whatever is under way."""

import asyncio
import subprocess
import sys
import time

import pytest

import torn_down_loop
from calls import KEY
from ingest_texts import texts
from knowledge_bot import AsyncClient
from knowledge_bot.ingest import Ledger, aingest
from scripted_server import silence
from waiting import until_awaited

pytestmark = pytest.mark.timeout(60)

# Seconds for a run to end; five of them are for recording what is under way.
LONGEST = 60  # seconds, on a machine that does much else


@pytest.fixture
def torn_down(service, tmp_path):
    """`torn_down(how, ledger)`: what a process said whose loop ended while two were in flight."""
    flag = tmp_path / "in flight"

    def answer_nothing(name, times):
        if len(service.arrived) == 2:
            flag.touch()
        return silence

    def run(how: str, ledger: str) -> str:
        service.judge = answer_nothing
        command = [sys.executable, torn_down_loop.__file__, how, service.url, ledger, flag]
        # It has to end by itself, interpreter and all.
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    return run


@pytest.mark.parametrize(
    ("how", "said"),
    [
        pytest.param("another_part_fails", "raised LookupError\n", marks=pytest.mark.slow),
        pytest.param("a_group_fails", "raised ExceptionGroup\n", marks=pytest.mark.slow),
        pytest.param("main_returns", "", marks=pytest.mark.slow),
        ("cancelled_twice", "raised CancelledError\n"),
        ("closed", "unknown here: 2\n"),  # the loop, and the process goes on
    ],
)
def test_a_torn_down_run_ends_and_calls_unknown_what_was_in_flight(torn_down, tmp_path, how, said):
    ledger = str(tmp_path / "ledger.db")
    assert torn_down(how, ledger) == said
    (holding,) = Ledger(ledger).status()
    assert (holding.claimed, holding.unknown) == (0, 2)


def test_the_next_run_in_the_same_process_does_what_a_torn_down_one_left(service, ledger, send):
    service.judge = lambda name, times: silence if len(service.created) >= 4 else None

    async def main() -> None:
        client = AsyncClient(KEY, service.url, timeout=600)
        options = {"collections": "col_1", "ledger": ledger, "concurrency": 2}
        task = asyncio.create_task(aingest(client, texts(20), **options))
        assert await until_awaited(lambda: len(service.arrived) >= 6)
        assert not task.done()
        raise LookupError

    began = time.monotonic()
    with pytest.raises(LookupError):
        asyncio.run(main())
    assert time.monotonic() - began < LONGEST
    service.judge = lambda name, times: None
    report = send(texts(20), ledger=ledger)
    assert (report.unknown, report.elsewhere) == (2, 0)
    assert report.created == 14
    assert len(service.arrived) == len(set(service.arrived)) == 20
