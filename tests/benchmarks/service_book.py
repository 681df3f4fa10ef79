"""What it costs that the service keeps the book: a second night, and a million keys.

Ratios of CPU time to walking the folder and looking at each file, and the memory for the keys. The
service answers from this process; what it costs there is measured apart and taken off.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from measuring import Figure, peak_mebibytes, report

from knowledge_bot import Client
from knowledge_bot._sync import SUM_MODULUS, bucket_of, mark_of
from knowledge_bot.ingest import ingest
from knowledge_bot.ingest._listings import Listing
from knowledge_bot.ingest._service_keeper import _Wire
from knowledge_bot.origins import Folder
from knowledge_bot.testing import MemoryService

FILES, KEYS, ROUNDS = 30_000, 1_000_000, 5
KEY, URL, COLLECTION = "key-of-the-benchmark", "https://service.test", "col_1"


class Metered(MemoryService):
    """A service that notes how much CPU time its answers take."""

    spent = 0.0

    def _receive(self, *given):
        began = time.thread_time()
        try:
            return super()._receive(*given)
        finally:
            self.spent += time.thread_time() - began


def write(folder: Path, numbers: range, text: str, time_of: int) -> None:
    for number in numbers:
        path = folder / f"{number // 100:03}" / f"note {number}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text} {number}")
        os.utime(path, (1_700_000_000, time_of + number))


def walk_and_stat(folder: Path) -> None:
    for path, _, names in os.walk(folder):
        for name in names:
            os.stat(f"{path}/{name}")


def cpu(work: Callable[[], object], service: Metered) -> float:
    before, began = service.spent, time.process_time()
    work()
    return time.process_time() - began - (service.spent - before)


def nights(folder: Path) -> list[Figure]:
    write(folder, range(FILES), "The code of locker", 1_700_000_000)
    service = Metered(collections=[COLLECTION], extensions={"sources", "sync"})
    with Client(KEY, URL, transport=service.transport) as client:

        def night() -> object:
            return ingest(client, Folder(folder), collections=COLLECTION)

        night()
        time.sleep(2.1)  # until the times of all files are trusted
        night()
        walked = min(cpu(lambda: walk_and_stat(folder), service) for _ in range(ROUNDS))
        same = min(cpu(night, service) for _ in range(ROUNDS))
        changed = []
        for turn in range(ROUNDS):
            write(folder, range(0, FILES, 100), f"Changed {turn} times", 1_800_000_000 + turn)
            time.sleep(2.1)
            changed.append(cpu(night, service))
    return [
        Figure("second night with `sync` / os.walk and stat", same / walked),
        Figure("the same with 1 % changed, the sending included", min(changed) / walked),
    ]


class ManyKeys:
    """An origin of a million files that are as they were."""

    name = "many"

    def listings(self, memory: object = None) -> Iterator[Listing]:
        for start in range(0, KEYS, 500):
            keys = [f"{n // 1000:04}/a note of the year {n}.md" for n in range(start, start + 500)]
            versions = [f"12345 1700000000000000000 1700000000000000000 {key}" for key in keys]
            yield Listing(keys, versions, lambda place: None)

    items = listings


def a_million_keys() -> None:
    tag, sums = _Wire((COLLECTION,)).of_listed, [0] * 256
    for listing in ManyKeys().listings():
        for key, version in zip(listing.keys, listing.versions, strict=True):
            bucket = bucket_of(key)
            sums[bucket] = (sums[bucket] + mark_of(key, version + tag)) % SUM_MODULUS
    said = {"known": True, "count": KEYS, "sums": [f"{one:016x}" for one in sums]}
    service = MemoryService(collections=[COLLECTION], extensions={"sources", "sync"})
    body = json.dumps({"value": said}).encode()
    service.answer_next(200, body, times=None, where=lambda one: one.path == "/sync")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    with Client(KEY, URL, transport=service.transport) as client:
        assert ingest(client, ManyKeys(), collections=COLLECTION).unchanged == KEYS
    print(peak_mebibytes())


def main() -> None:
    """Measure both, and report."""
    with tempfile.TemporaryDirectory() as place:
        figures = nights(Path(place))
    command = [sys.executable, __file__, "keys"]
    peak = float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    report("The book in the service", [*figures, Figure("a million keys, peak MiB", peak)])


if __name__ == "__main__":
    a_million_keys() if sys.argv[1:] == ["keys"] else main()
