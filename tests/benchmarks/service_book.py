"""What it costs that the service keeps the book: `python tests/benchmarks/service_book.py`.

Ratios of CPU time, so that they mean the same on any machine: a second night over 30,000 files, and
one with 1 % of them changed, beside walking the folder and looking at each file; a first night
beside the same uploads without anybody who keeps a book. And the memory for a million keys. The
service answers from this process; what it costs there is measured apart and taken off.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from knowledge_bot import AsyncClient, Client
from knowledge_bot.ingest import ingest
from knowledge_bot.ingest._listings import Listing
from knowledge_bot.origins import Folder
from knowledge_bot.testing import MemoryService

FILES, SENT, KEYS = 30_000, 2_000, 1_000_000
ROUNDS = 5
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


def filled(folder: Path, count: int) -> Path:
    for number in range(count):
        path = folder / f"{number // 100:03}" / f"note {number}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"The code of locker {number} is {number * 7}.")
        os.utime(path, (1_700_000_000, 1_700_000_000 + number))
    return folder


def walk_and_stat(folder: Path) -> None:
    for path, _, names in os.walk(folder):
        for name in names:
            os.stat(f"{path}/{name}")


def cpu(work: Callable[[], object], service: Metered | None = None) -> float:
    before = service.spent if service else 0.0
    began = time.process_time()
    work()
    return time.process_time() - began - (service.spent - before if service else 0.0)


def best(work: Callable[[], object], service: Metered | None = None) -> float:
    return min(cpu(work, service) for _ in range(ROUNDS))


def nights(folder: Path) -> None:
    service = Metered(collections=[COLLECTION], extensions={"sources", "sync"})
    with Client(KEY, URL, transport=service.transport) as client:

        def night() -> object:
            return ingest(client, Folder(folder), collections=COLLECTION)

        night()
        time.sleep(2.1)  # until the times of all files are trusted
        night()
        walked = best(lambda: walk_and_stat(folder))
        same = best(night, service)
        print(f"second night: {same / walked:.2f} of walk and stat ({walked:.3f} s)")
        changed = []
        for round_ in range(ROUNDS):
            for number in range(0, FILES, 100):
                path = folder / f"{number // 100:03}" / f"note {number}.md"
                path.write_text(f"Changed {round_} times.")
                os.utime(path, (1_700_000_000, 1_800_000_000 + round_))
            time.sleep(2.1)
            changed.append(cpu(night, service))
        print(f"1 % changed: {min(changed) / walked:.2f}, the sending included")


def first_night(folder: Path) -> None:
    def with_book() -> float:
        service = Metered(collections=[COLLECTION], extensions={"sources", "sync"})

        async def go() -> None:
            from knowledge_bot.ingest import aingest

            async with AsyncClient(KEY, URL, transport=service.async_transport) as client:
                report = await aingest(client, Folder(folder), collections=COLLECTION)
                assert report.created == SENT

        return cpu(lambda: asyncio.run(go()), service)

    def without() -> float:
        service = Metered(collections=[COLLECTION])

        async def go() -> None:
            async with AsyncClient(KEY, URL, transport=service.async_transport) as client:
                paths: Iterator[Path] = iter(sorted(folder.rglob("*.md")))

                async def work() -> None:
                    for path in paths:
                        name = str(path.relative_to(folder))
                        await client.upload_source(name=name, collections=COLLECTION, file=path)

                await asyncio.gather(*(work() for _ in range(8)))

        return cpu(lambda: asyncio.run(go()), service)

    rate = min(without() for _ in range(ROUNDS)) / min(with_book() for _ in range(ROUNDS))
    print(f"first night: {rate:.2f} of the rate without any keeper")


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
    from knowledge_bot._sync import SUM_MODULUS, bucket_of, mark_of
    from knowledge_bot.ingest._service_keeper import _Wire

    tag, sums = _Wire((COLLECTION,)).of_listed, [0] * 256
    for listing in ManyKeys().listings():
        for key, version in zip(listing.keys, listing.versions, strict=True):
            bucket = bucket_of(key)
            sums[bucket] = (sums[bucket] + mark_of(key, version + tag)) % SUM_MODULUS
    said = {"known": True, "count": KEYS, "sums": [f"{one:016x}" for one in sums]}
    service = MemoryService(collections=[COLLECTION], extensions={"sources", "sync"})
    import json

    body = json.dumps({"value": said}).encode()
    service.answer_next(200, body, times=None, where=lambda one: one.path == "/sync")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak()
    with Client(KEY, URL, transport=service.transport) as client:
        spent = cpu(lambda: print(ingest(client, ManyKeys(), collections=COLLECTION)))
    print(f"a million keys: {peak():.0f} MiB, {before:.0f} before; {spent:.1f} s CPU")


def peak() -> float:
    """The most memory so far, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (high,) = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return int(high) / 1024


if __name__ == "__main__":
    if "keys" in sys.argv:
        a_million_keys()
    else:
        with tempfile.TemporaryDirectory() as place:
            nights(filled(Path(place), FILES))
        with tempfile.TemporaryDirectory() as place:
            first_night(filled(Path(place), SENT))
        subprocess.run([sys.executable, __file__, "keys"], check=True)
