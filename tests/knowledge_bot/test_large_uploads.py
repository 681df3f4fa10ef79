"""Large and slow files: constant memory, off the event loop, and cancelled."""

import asyncio
import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from calls import KEY, SOURCE
from knowledge_bot import AsyncClient, Delivery
from scripted_server import answer

MIB = 1024 * 1024


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="only Linux resets peak memory"
)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_large_file_is_sent_in_constant_memory(kind, tmp_path):
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(96 * MIB)
    # The server discards what it reads; in a process of its own, since memory is what is measured.
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            LARGE_UPLOAD,
            kind,
            str(path),
            str(Path(__file__).parents[1] / "support"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 16 * MIB, done.stdout


LARGE_UPLOAD = """
import asyncio, sys
from pathlib import Path
kind, path, support = sys.argv[1:]
sys.path.insert(0, support)
from calls import SOURCE
from knowledge_bot import AsyncClient, Client
from scripted_server import ScriptedServer, answer

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024

server = ScriptedServer([answer(body=SOURCE)], keep_bodies=False)

def use(client, file):
    return client.upload_source(name="n", collections="col_1", file=file)

def measured():
    Path("/proc/self/clear_refs").write_text("5")
    return peak()

if kind == "sync":
    with Client("key", server.url) as client:
        use(client, b"warm")
        before = measured()
        use(client, path)
else:
    async def main():
        async with AsyncClient("key", server.url) as client:
            await use(client, b"warm")
            before = measured()
            await use(client, path)
            return before
    before = asyncio.run(main())
print(peak() - before)
"""


async def test_a_slow_file_does_not_hold_up_the_event_loop(scripted):
    server = scripted(answer(body=SOURCE))

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            assert threading.current_thread() is not threading.main_thread()
            time.sleep(0.05)
            return super().read(size)

    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.005)
            beats += 1

    beating = asyncio.create_task(heart())
    async with AsyncClient(KEY, server.url) as client:
        await client.upload_source(name="n", collections="col_1", file=Slow(b"x" * 2 * MIB))
    beating.cancel()
    assert beats > 10


async def test_a_cancelled_upload_leaves_the_file_closed_and_the_client_usable(scripted, tmp_path):
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(64 * MIB)
    server = scripted(answer(body=SOURCE))
    async with AsyncClient(KEY, server.url) as client:
        begun = asyncio.Event()
        task = asyncio.create_task(
            client.upload_source(
                name="n",
                collections="col_1",
                file=path,
                on_progress=lambda sent, total: begun.set(),
            )
        )
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert vars(caught.value)["delivery"] is Delivery.NOT_DELIVERED
        await client.upload_source(name="n", collections="col_1", file=b"x")
    assert str(path) not in [
        os.readlink(link.path) for link in os.scandir("/proc/self/fd") if os.path.islink(link.path)
    ]
