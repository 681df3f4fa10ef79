"""What the gateway adds to a question, and what it keeps of many conversations.

The anchor is a bare FastAPI endpoint that reads the same body and forwards the question with httpx.
Both run in processes of their own before the same server; the load comes from here, over plain
sockets, with as many questions in flight. A server's CPU time is what counts.
"""

import asyncio
import contextlib
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from answering_server import answering
from measuring import Cost, Figure, cpu_seconds, report, resident, rows_of

from knowledge_bot_service import LocalService

IN_FLIGHT = 64
CALLS = 1024
ROUNDS = 9
CONVERSATIONS = 1000
TURNS = 3
BOT = "bot_default"
KEY = "key-of-the-gateway"
QUESTION = "How long is the loan period for hand tools?"

BARE = """
import sys, httpx, uvicorn
from fastapi import FastAPI

url = sys.argv[1]
client = httpx.AsyncClient(headers={"X-API-KEY": "key"}, limits=httpx.Limits(max_connections=64))
app = FastAPI()

@app.post("/v1/chat/completions")
async def ask(body: dict):
    value = {"bot_id": body["model"], "content": body["messages"][-1]["content"]}
    answer = await client.post(url + "/public/v1/messages", json={"value": value})
    return answer.json()
"""
OURS = """
import sys, uvicorn
from knowledge_bot_gateway import Admission, Upstream, create_app

upstream = Upstream(sys.argv[1], sys.argv[2])
app = create_app(upstream, Admission([sys.argv[3]], hosts=["127.0.0.1"]))
"""
SERVE = """
import socket
listener = socket.create_server(("127.0.0.1", 0), backlog=512)
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([listener])
"""


def main() -> None:
    """Measure the CPU of both servers in turn, and the gateway's memory after many chats."""
    with answering() as url, serving(BARE, url) as bare, serving(OURS, url) as ours:
        costs = interleaved({"FastAPI and httpx": bare, "gateway": ours})
    # Only a real service gives each conversation an id of its own.
    with LocalService() as service, serving(OURS, service.base_url, service.api_key) as ours:
        peaks = []
        for _ in range(2):
            asyncio.run(chats(ours, CONVERSATIONS))
            peaks.append(resident(ours[0]) / 1024)
    growth = (peaks[1] - peaks[0]) / CONVERSATIONS
    figures = [
        Figure(
            f"gateway, CPU against FastAPI and httpx, {IN_FLIGHT} in flight",
            costs["gateway"].cpu / costs["FastAPI and httpx"].cpu,
            2.0,
        ),
        Figure("gateway, memory for each further conversation, KiB", growth, 4),
    ]
    rows = rows_of(f"a question, {IN_FLIGHT} in flight", costs)
    report("What the gateway adds to a question", figures, rows)


@contextlib.contextmanager
def serving(program: str, url: str, key: str = "key") -> Iterator[tuple[int, int]]:
    """Run a server; gives its process id and its port."""
    with subprocess.Popen(
        [sys.executable, "-c", program + SERVE, url, key, KEY], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.terminate()


def interleaved(servers: dict[str, tuple[int, int]]) -> dict[str, Cost]:
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
    for number in range(ROUNDS + 1):
        for name in random.sample(list(servers), len(servers)):
            pid, port = servers[name]
            cpu, wall = cpu_seconds(pid), time.perf_counter()
            asyncio.run(questions(port))
            if number:  # the first warms up
                samples[name].append((cpu_seconds(pid) - cpu, time.perf_counter() - wall))
    return {
        name: Cost(*(statistics.median(column) / CALLS * 1e6 for column in zip(*rows, strict=True)))
        for name, rows in samples.items()
    }


async def questions(port: int) -> None:
    left = iter(range(CALLS))

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in left:
            await ask(reader, writer, [f"{QUESTION} {number}"])
        writer.close()

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


async def chats(server: tuple[int, int], count: int) -> None:
    left = iter(range(count))

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server[1])
        for number in left:
            said = []
            for turn in range(TURNS):
                said.append(f"{random.random()} {number}? {turn}")
                said.append(await ask(reader, writer, said))
        writer.close()

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: list[str]) -> str:
    messages = [
        {"role": "assistant" if index % 2 else "user", "content": text}
        for index, text in enumerate(said)
    ]
    body = json.dumps({"model": BOT, "messages": messages}).encode()
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (KEY.encode(), len(body), body)
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head.partition(b"\r\n")[0], head
    length = next(
        int(line.partition(b":")[2])
        for line in head.splitlines()
        if line.lower().startswith(b"content-length")
    )
    answer = json.loads(await reader.readexactly(length))
    return str(answer["choices"][0]["message"]["content"]) if "choices" in answer else ""


if __name__ == "__main__":
    main()
