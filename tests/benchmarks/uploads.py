"""What an upload of 1 GiB costs: CPU, wall time and memory, against httpx.

Each upload runs in a process of its own, in turn, after one of some bytes, with which everything is
loaded; memory is the peak of that process over what it used before the large one. The server reads
every byte and answers.
"""

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from answering_server import answering
from measuring import Figure, report

SIZE = 1 << 30
ROUNDS = 5


def main() -> None:
    """Upload with every client in turn and report the medians."""
    with tempfile.TemporaryDirectory() as folder, answering() as url:
        file = Path(folder, "video.bin")
        with file.open("wb") as sparse:
            sparse.truncate(SIZE)
        samples: dict[str, list[tuple[float, float, float]]] = {name: [] for name in UPLOADS}
        for _ in range(ROUNDS):
            for name in UPLOADS:
                samples[name].append(measure(name, file, url))
    medians = {
        name: [statistics.median(column) for column in zip(*rows, strict=True)]
        for name, rows in samples.items()
    }
    figures = [
        Figure("upload of 1 GiB, CPU against httpx files= (sync)", cpu(medians, "httpx"), 1.0),
        Figure("upload of 1 GiB, peak memory, MiB (sync)", medians["ours"][2], 16),
        Figure("upload of 1 GiB, peak memory, MiB (async)", medians["ours, async"][2], 16),
    ]
    rows = [
        {
            "client": name,
            "CPU s": round(row[0], 2),
            "wall s": round(row[1], 2),
            "peak MiB": round(row[2], 1),
        }
        for name, row in medians.items()
    ]
    report("An upload of 1 GiB", figures, rows)


def cpu(medians: dict[str, list[float]], anchor: str) -> float:
    return medians["ours"][0] / medians[anchor][0]


def measure(name: str, file: Path, url: str) -> tuple[float, float, float]:
    """Return CPU seconds, wall seconds and MiB of one upload in a fresh process."""
    command = [sys.executable, __file__, name, str(file), url]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds_cpu, seconds_wall, mebibytes = json.loads(output)
    return seconds_cpu, seconds_wall, mebibytes


def ours(file: Path, url: str) -> Callable[[], object]:
    from knowledge_bot import Client

    client = Client("key", url)
    return lambda: client.upload_source(name="video", collections="col_1", file=file)


def ours_async(file: Path, url: str) -> Callable[[], Coroutine[Any, Any, object]]:
    from knowledge_bot import AsyncClient

    client = AsyncClient("key", url)
    return lambda: client.upload_source(name="video", collections="col_1", file=file)


def with_httpx(file: Path, url: str) -> Callable[[], object]:
    import httpx

    client = httpx.Client(timeout=60)
    data = {"value": json.dumps({"name": "video", "collections": ["col_1"]})}

    def upload() -> object:
        with file.open("rb") as opened:
            answer = client.post(
                url + "/public/v1/sources/upload", data=data, files={"file": opened}
            )
        return answer.raise_for_status().json()

    return upload


UPLOADS: dict[str, Callable[[Path, str], Callable[[], Any]]] = {
    "ours": ours,
    "ours, async": ours_async,
    "httpx": with_httpx,
}


def upload_here(name: str, file: Path, url: str) -> None:
    """Make one upload in this process and print what it cost."""
    run(UPLOADS[name](Path(__file__), url))
    upload = UPLOADS[name](file, url)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    used, started = time.process_time(), time.perf_counter()
    run(upload)
    wall, used = time.perf_counter() - started, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([used, wall, (peak - base) / 1024]))


def run(upload: Callable[[], Any]) -> None:
    result = upload()
    if asyncio.iscoroutine(result):
        asyncio.run(result)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in UPLOADS:
        upload_here(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    else:
        main()
