"""A service in a process of its own that remembers on disk each source it created.

It outlives the processes that send to it, however they end, so that after a crash it can be asked
what really arrived. `counting(folder, delay)` runs it; it writes one JSON line per source to
`created.jsonl` in the folder before it answers.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CountingServer:
    """A running server.

    Attributes:
        url: its address.
        journal: the file that it writes to.
    """

    url: str
    journal: Path

    def created(self) -> Counter[str]:
        """Return how many sources were created under each name."""
        *lines, _half = self.journal.read_bytes().split(b"\n")  # the last may be being written
        return Counter(json.loads(line)["name"] for line in lines)


@contextlib.contextmanager
def counting(folder: Path, delay: float = 0.0) -> Iterator[CountingServer]:
    """Run the server; it answers after about `delay` seconds."""
    journal = folder / "created.jsonl"
    journal.touch()
    command = [sys.executable, __file__, str(journal), str(delay)]
    # A group of its own: a test's Ctrl-C is not meant for it.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            yield CountingServer(f"http://127.0.0.1:{port}", journal)
        finally:
            process.terminate()


_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


class _Connection(asyncio.Protocol):
    def __init__(self, journal: int, delay: float) -> None:
        self._journal, self._delay = journal, delay
        self._received = b""
        self._count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, rest = self._received.partition(b"\r\n\r\n")
        if not blank:
            return
        if head.startswith(b"GET "):  # a sign of life, which creates nothing
            self._received = rest
            self._transport.write(_HEAD % len(b"pong") + b"pong")
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(rest) < length:
            return
        self._received = rest[length:]
        body = rest[:length]
        fields = json.loads(_value_of(body))
        fields = fields.get("value", fields)
        # Both before and after the creation: a client may die in either.
        asyncio.get_running_loop().call_later(
            random.uniform(0, self._delay), self._create, fields["name"], fields["collections"]
        )

    def _create(self, name: str, collections: list[str]) -> None:
        identifier = f"src_{os.urandom(8).hex()}"
        os.write(self._journal, json.dumps({"id": identifier, "name": name}).encode() + b"\n")
        source = {
            "id": identifier,
            "name": name,
            "collections": [{"id": one, "name": one} for one in collections],
            "status": "pending",
            "created_at": 1_700_000_000_000,
        }
        content = json.dumps({"value": source}).encode()
        asyncio.get_running_loop().call_later(
            random.uniform(0, self._delay), self._transport.write, _HEAD % len(content) + content
        )


def _value_of(body: bytes) -> bytes:
    """Return the JSON of a body, which for uploads is the form field `value`."""
    if body.startswith(b"{"):
        return body
    return body.partition(b'name="value"\r\n\r\n')[2].partition(b"\r\n--")[0]


async def _serve(journal: str, delay: float) -> None:
    descriptor = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Connection(descriptor, delay), "127.0.0.1", 0, backlog=512
    )
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - told to whoever started it
    await server.serve_forever()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_serve(sys.argv[1], float(sys.argv[2])))
