"""What a check adds to the messages that it sends: CPU for each question, and memory for many.

The anchor is `send_message` itself, as many at a time, to the same local server.
"""

import asyncio
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from answering_server import answering
from measuring import Cost, Figure, interleave, report, rows_of

from knowledge_bot import AsyncClient, Client
from knowledge_bot.checks import Question, acheck, check

QUESTIONS = 1000
IN_FLIGHT = 8
ROUNDS = 9
MANY = 10_000


def main() -> None:
    """Measure both functions beside the clients' own calls, and the memory of a long check."""
    questions = [
        Question(ask=f"How long is the loan period of tool {number}?", excludes="week of rain")
        for number in range(QUESTIONS)
    ]
    with answering() as url:
        blocking, awaiting = blocking_costs(url, questions), awaiting_costs(url, questions)
        memory = {count: peak_of(url, count) for count in (QUESTIONS, MANY)}
    growth = (memory[MANY] - memory[QUESTIONS]) / (MANY - QUESTIONS)
    figures = [
        Figure(
            "check, CPU against send_message", blocking["check"].cpu / blocking["calls"].cpu, 1.3
        ),
        Figure(
            "acheck, CPU against send_message", awaiting["acheck"].cpu / awaiting["calls"].cpu, 1.3
        ),
        Figure("check, memory for each further question, KiB", growth, 4),
    ]
    rows = [
        *rows_of(f"check, {IN_FLIGHT} in flight", blocking),
        *rows_of(f"acheck, {IN_FLIGHT} in flight", awaiting),
    ]
    report("What a check adds to its messages", figures, rows)


def blocking_costs(url: str, questions: list[Question]) -> dict[str, Cost]:
    with Client("key", url) as client, ThreadPoolExecutor(IN_FLIGHT) as pool:

        def call(question: Question) -> str:
            return client.send_message(bot_id="bot_1", content=question.ask).answer

        def calls() -> None:
            list(pool.map(call, questions))

        def checks() -> None:
            assert check(client, "bot_1", questions, concurrency=IN_FLIGHT).ok

        return interleave({"calls": calls, "check": checks}, calls=QUESTIONS, rounds=ROUNDS)


def awaiting_costs(url: str, questions: list[Question]) -> dict[str, Cost]:
    with asyncio.Runner() as runner:
        client = AsyncClient("key", url)

        async def calls() -> None:
            left = iter(questions)

            async def work() -> None:
                for question in left:
                    await client.send_message(bot_id="bot_1", content=question.ask)

            await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))

        async def checks() -> None:
            assert (await acheck(client, "bot_1", questions, concurrency=IN_FLIGHT)).ok

        found = interleave(
            {"calls": lambda: runner.run(calls()), "acheck": lambda: runner.run(checks())},
            calls=QUESTIONS,
            rounds=ROUNDS,
        )
        runner.run(client.aclose())
        return found


def peak_of(url: str, count: int) -> float:
    """Return the peak memory, in KiB, of a process that checks so many questions."""
    done = subprocess.run(
        [sys.executable, __file__, "peak", url, str(count)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def print_peak(url: str, count: int) -> None:
    questions = [Question(ask=f"Tool {number}?", excludes="rain") for number in range(count)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Client("key", url) as client:
        kept = check(client, "bot_1", questions, concurrency=IN_FLIGHT)
    assert kept.ok
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


if __name__ == "__main__":
    if sys.argv[1:2] == ["peak"]:
        print_peak(sys.argv[2], int(sys.argv[3]))
    else:
        main()
