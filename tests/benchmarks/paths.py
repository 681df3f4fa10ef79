"""How much of our code a question passes through, and a file from the disk to the ledger.

    python tests/benchmarks/paths.py [--json FILE]

`sys.setprofile` sees every call. A coroutine or generator that goes on is the same frame again, so
a frame counts when it is first seen. Modules count where something of them is called; bodies of
classes, modules and comprehensions are no calls.
"""

import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from answering_server import answering
from measuring import Figure, report

from knowledge_bot import AsyncClient, Client
from knowledge_bot.ingest import Ledger, ingest
from knowledge_bot.origins import Folder

OURS = Path(__file__).parents[2] / "connectors"
ENGINE = OURS / "knowledge_bot" / "ingest"
NO_CALLS = {"<module>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"}


class Seen:
    """What was called while it watched.

    Attributes:
        calls: how many calls each function of ours got, by module and name.
        threads: the names of the threads that anything ran in.
        moves: how often a call is one of another module than the call before it in its thread.
    """

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.moves = 0
        self._last: dict[str, Path] = {}
        self.threads: set[str] = set()
        # Held, so that no later frame gets the identity of one that is gone.
        self._frames: dict[int, FrameType] = {}

    def watch(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Note a call, as a function for `sys.setprofile`."""
        if event != "call" or id(frame) in self._frames:
            return
        self._frames[id(frame)] = frame
        self.threads.add(threading.current_thread().name)
        file = Path(frame.f_code.co_filename)
        name = frame.f_code.co_name
        if file.is_relative_to(OURS) and name not in NO_CALLS:
            thread = threading.current_thread().name
            self.moves += self._last.get(thread, file) != file
            self._last[thread] = file
            self.calls[str(file.relative_to(OURS)), name] += 1

    @property
    def modules(self) -> dict[str, Counter[str]]:
        """The calls of each function, by module."""
        modules: dict[str, Counter[str]] = {}
        for (module, name), calls in self.calls.items():
            modules.setdefault(module, Counter())[name] += calls
        return modules


def watched(work: Callable[[], object]) -> Seen:
    """Let it happen twice, and watch the second time: what is imported is no part of it."""
    work()
    seen = Seen()
    threading.setprofile(seen.watch)
    sys.setprofile(seen.watch)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type] # as its documentation says
    return seen


def main() -> None:
    """Watch a question, to either client, and one file being ingested, and report."""
    with tempfile.TemporaryDirectory() as folder, answering() as url, Client("key", url) as client:
        asked = watched(lambda: ask(client))
        with asyncio.Runner() as runner:
            aclient = AsyncClient("key", url)
            awaited = watched(lambda: runner.run(aask(aclient)))
            runner.run(aclient.aclose())
        names = iter(("first", "second"))
        seen = watched(lambda: one_file(client, Path(folder), next(names)))
    # The executor's own, the second one of which ends the first.
    executors = ("ThreadPoolExecutor", "asyncio_", "_do_shutdown")
    threads = {name for name in seen.threads if not any(part in name for part in executors)}
    threads.discard(threading.current_thread().name)
    modules = seen.modules
    sources = sorted(ENGINE.glob("*.py"))
    rows = [
        {
            "module": module,
            "calls": calls.total(),
            "most called": ", ".join(f"{name} {times}" for name, times in calls.most_common(4)),
        }
        for module, calls in sorted(modules.items(), key=lambda item: -item[1].total())
    ]
    figures = [
        Figure("modules that one question passes through", len(asked.modules), 8),
        Figure("calls of ours for one question", asked.calls.total(), 50),
        Figure("moves between modules for one question", asked.moves, 14),
        Figure("modules that one awaited question passes through", len(awaited.modules), 8),
        Figure("modules that one file passes through", len(modules), 16),
        Figure("calls of ours for one file", seen.calls.total(), 200),
        Figure("threads besides the caller's and asyncio's executor", len(threads), 3),
        Figure("modules of engine and ledger", len(sources), 14),
        Figure("lines of engine and ledger", sum(map(lines_of, sources)), 2400),
    ]
    report(f"One file from the disk to the ledger; threads: {', '.join(threads)}", figures, rows)


def ask(client: Client) -> None:
    """Ask one question."""
    client.send_message(bot_id="bot_1", content="When do you open?")


async def aask(client: AsyncClient) -> None:
    """Ask one question, awaiting."""
    await client.send_message(bot_id="bot_1", content="When do you open?")


def one_file(client: Client, folder: Path, name: str) -> None:
    """Ingest a folder with one new file."""
    files = folder / name
    files.mkdir()
    (files / "a.txt").write_text(f"The {name} file.")
    ledger = Ledger(folder / "ledger.db")
    assert ingest(client, Folder(files), collections="col_1", ledger=ledger).created == 1


def lines_of(file: Path) -> int:
    """Return a file's lines, as `wc -l` counts them."""
    return file.read_bytes().count(b"\n")


if __name__ == "__main__":
    main()
