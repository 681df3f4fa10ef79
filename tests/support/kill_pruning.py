"""Kills ingestions that prune with SIGKILL, over a folder that changes, and looks at the service.

Files are changed, moved, deleted, brought back and added, and the folder is ingested with
`prune=True`; at a random moment the run is killed, and more is changed. After some kills a run
comes to its end. With an outage, the service is killed or the ledger's database restarted as well,
while the run goes on or is killed. Then the passages that the service answers from are compared
with the files:

- twice: documents with more than one source. Must be 0.
- lost: files without a source. Must be 0. Looked for after each kill as well, since a source that
  is deleted though its file is there would be sent again by the next run.
- stale: sources of files that are gone, or with an older text. Must be 0.
- unknown: items whose outcome the ledger does not know. Must be 0.
"""

import contextlib
import os
import random
import signal
import sqlite3
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, ingest
from knowledge_bot.origins import Folder
from knowledge_bot_service import LocalService
from postgresql_server import PostgreSQL

FILES = 40

# How many keys may vanish between two complete runs: more than five are only removed by the second.
VANISHING = 5

Outage = Callable[[], AbstractContextManager[None]]
"""Something is away inside."""


@dataclass
class Documents:
    """A folder of documents, each with a name of its own in its text.

    Attributes:
        root: where it is.
        files: the text of each file, by its path.
        steady: the documents that were there all the time since the last comparison.
    """

    root: Path
    files: dict[str, str] = field(default_factory=dict)
    steady: set[str] = field(default_factory=set)
    count: int = 0
    _vanished: list[tuple[str, str]] = field(default_factory=list)
    _edited: set[str] = field(default_factory=set)
    _moved: set[str] = field(default_factory=set)

    def compared(self) -> None:
        """Begin a night."""
        self.steady = self.documents
        self._vanished, self._edited, self._moved = [], set(), set()

    def change(self) -> None:
        """Add, change, move, delete and bring back some files."""
        for _ in range(FILES if not self.files else random.randint(0, 3)):
            self.count += 1
            self.write(f"{random.choice('abc')}/{self.count}.md", f"doc{self.count}x", 0)
        some = random.sample(sorted(self.files), 10)
        if (newest := next(reversed(self.files))) not in some:
            some[9] = newest  # it may have been on its way when the run was killed
        for path in some[: random.randint(0, 5)]:
            document, _, version = self.files[path].split()[:3]
            if document not in self._moved:
                self._edited.add(document)
                self.write(path, document, int(version.removeprefix("version")) + 1)
        for path in some[5 : random.randint(5, 8)]:
            if (document := self.files[path].split()[0]) not in self._edited:
                self._moved.add(document)
                self._move(path, f"{random.choice('def')}/{random.getrandbits(40):x}.md")
        self._delete(some[random.randint(8, 10) :])
        self._bring_back()
        self.steady &= self.documents

    def _delete(self, some: Sequence[str]) -> None:
        for path in some:
            if len(self._vanished) < VANISHING and not path.startswith(tuple("def")):
                self._vanished.append((path, self.files.pop(path)))
                (self.root / path).unlink()

    def _bring_back(self) -> None:
        for path, text in self._vanished:
            if text.split()[0] not in self.documents and random.random() < 0.3:
                self._put(path, text)

    def write(self, path: str, document: str, version: int) -> None:
        self._put(path, f"{document} has version{version} saying {random.getrandbits(60):x}.")

    def _put(self, path: str, text: str) -> None:
        self.files[path] = text
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def _move(self, path: str, moved: str) -> None:
        (self.root / moved).parent.mkdir(exist_ok=True)
        (self.root / path).rename(self.root / moved)
        self.files[moved] = self.files.pop(path)

    @property
    def documents(self) -> set[str]:
        return {text.split()[0] for text in self.files.values()}


@dataclass
class Counts:
    """What was seen over all nights."""

    kills: int = 0
    outages: int = 0
    nights: int = 0
    twice: int = 0
    lost: int = 0
    stale: int = 0
    unknown: int = 0

    @property
    def right(self) -> bool:
        """Whether the service was as the folder every time."""
        return (self.twice, self.lost, self.stale, self.unknown) == (0, 0, 0, 0)


def kill_pruning(
    kills: int,
    longest: float = 0.8,
    ledger_of: Callable[[Path], str] = str,
    outages: Callable[[LocalService], Sequence[Outage]] = lambda service: (),
) -> Counts:
    """Kill so many runs, in as many nights as it takes.

    Args:
        kills: how many runs are killed, or have an outage.
        longest: seconds after which a run is killed at the latest.
        ledger_of: the ledger's address, given a path where nothing is yet.
        outages: what is away for a moment of each run that is not left alone.
    """
    counts = Counts()
    with tempfile.TemporaryDirectory() as place, LocalService(data=Path(place, "data")) as service:
        folder, ledger = Documents(Path(place, "docs")), ledger_of(Path(place, "ledger.db"))
        folder.root.mkdir()
        away = outages(service)
        while counts.kills < kills:
            folder.compared()
            for _ in range(min(random.randint(1, 4), kills - counts.kills)):
                folder.change()
                with run(service, folder, ledger) as child:
                    interrupt(counts, child, longest, away)
                counts.lost += len(folder.steady - {text.split()[0] for text in texts(service)})
            folder.change()
            with run(service, folder, ledger) as child:
                _, status = os.waitpid(child, 0)
                if status != 0:
                    raise RuntimeError("a run failed that was left alone")
            service.wait_until_ready()
            counts.nights += 1
            compare(counts, folder, texts(service))
            counts.unknown += len(list(Ledger(ledger).unknown()))
    return counts


@contextlib.contextmanager
def run(service: LocalService, folder: Documents, ledger: str) -> Iterator[int]:
    """Ingest in a child process, which ends by itself or is killed inside."""
    child = os.fork()
    if child != 0:
        yield child
        return
    status = 1
    try:
        with Client(service.api_key, service.base_url) as client:
            report = ingest(
                client,
                Folder(folder.root, name="docs"),
                collections="col_default",
                ledger=Ledger(ledger),
                prune=True,
                wait_ready=random.choice((0, 5)),
            )
        if not report.ok:
            print(report, report.failures, flush=True)  # noqa: T201 - a script's result
        status = 0 if report.ok else 1
    except BaseException:  # noqa: BLE001 - nobody else would tell
        traceback.print_exc()
    finally:
        os._exit(status)


def interrupt(counts: Counts, child: int, longest: float, outages: Sequence[Outage]) -> None:
    """Kill a run at a random moment, or let something be away, or both; and wait for its end."""
    time.sleep(random.uniform(0, longest))
    killed = not outages or random.random() < 0.5
    with contextlib.ExitStack() as ending:
        for outage in outages:
            ending.enter_context(outage())
            counts.outages += 1
        if outages:
            time.sleep(random.uniform(0, longest / 2))
        if killed:
            os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    counts.kills += 1


def texts(service: LocalService) -> list[str]:
    """Return the texts that the service answers from."""
    query = "SELECT text FROM passage WHERE source NOT IN (SELECT source FROM removal)"
    database = service.data / "knowledge.sqlite3"
    with contextlib.closing(sqlite3.connect(database, timeout=30)) as connection:
        return [text.strip() for (text,) in connection.execute(query)]


def compare(counts: Counts, folder: Documents, there: Iterable[str]) -> None:
    found, wanted = list(there), set(folder.files.values())
    documents = Counter(text.split()[0] for text in found)
    counts.twice += sum(count > 1 for count in documents.values())
    counts.lost += len(folder.documents - documents.keys())
    counts.stale += len(set(found) - wanted)


@contextlib.contextmanager
def service_away(service: LocalService) -> Iterator[None]:
    """The service is killed, and started again."""
    service.kill()
    try:
        yield
    finally:
        service.start()


@contextlib.contextmanager
def database_away(server: PostgreSQL) -> Iterator[None]:
    """The database is stopped, and started again."""
    server.stop()
    try:
        yield
    finally:
        server.start()
