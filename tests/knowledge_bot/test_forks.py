"""A client that was used before its process forks: each process has connections of its own."""

import os
import subprocess
import sys

import pytest

from calls import MESSAGE
from scripted_server import answer

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="only Unix forks"),
]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_no_process_gets_the_answer_of_another_one(scripted, kind):
    def echo(received):
        return answer(body={**MESSAGE, "answer": received.json()["value"]["content"]})

    server = scripted(reply_to=echo)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKING, kind, server.url],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout.split(), done.stderr) == (["0"] * 5, "")
    # The parent goes on with its own connection; every child has opened at least one.
    assert server.connections >= 5


FORKING = r"""
import asyncio, gc, os, sys
kind, url = sys.argv[1:]
from knowledge_bot import AsyncClient, Client

CALLS = 40
if kind == "sync":
    client = Client("key", url, max_retries=0)

    def asked(text):
        return client.send_message(bot_id="bot_1", content=text).answer

    def wrong(me):
        return sum(asked(f"{me} {n}") != f"{me} {n}" for n in range(CALLS))
else:
    aclient = AsyncClient("key", url, max_retries=0)
    loop = asyncio.new_event_loop()

    async def several(me):
        async def one(text):
            return (await aclient.send_message(bot_id="bot_1", content=text)).answer != text
        return sum(await asyncio.gather(*(one(f"{me} {n}") for n in range(CALLS))))

    def wrong(me):
        if me == "parent":
            return loop.run_until_complete(several(me))  # the loop that was there before
        return asyncio.run(several(me))

assert wrong("parent") == 0
children = []
for number in range(4):
    pid = os.fork()
    if pid == 0:
        found = wrong(f"child {number}")
        gc.collect()
        os.write(1, f"{found}\n".encode())
        os._exit(0)
    children.append(pid)
found = wrong("parent")
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
assert wrong("parent") == 0
os.write(1, f"{found}\n".encode())
if kind == "sync":
    client.close()
else:
    loop.run_until_complete(aclient.aclose())
    loop.close()
"""
