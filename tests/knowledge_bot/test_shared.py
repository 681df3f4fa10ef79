"""Clients that are shared: who gets the same one, and what becomes of its connections."""

import asyncio
import gc
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from calls import KEY, MESSAGE, ask
from knowledge_bot import Client, ConfigurationError
from knowledge_bot.adapters.settings import async_twin, shared_client
from scripted_server import answer

ELSEWHERE = "https://service.example"


@pytest.fixture
def server(scripted):
    return scripted(reply_to=lambda _: answer(body=MESSAGE))


def test_the_same_key_address_and_settings_have_the_same_client():
    client = shared_client(KEY, ELSEWHERE)
    assert shared_client(KEY, f"{ELSEWHERE}/public/v1/") is client
    for other in (
        shared_client("another-key", ELSEWHERE),
        shared_client(KEY, "https://other.example"),
        shared_client(KEY, ELSEWHERE, timeout=3),
        shared_client(KEY, ELSEWHERE, max_retries=0),
    ):
        assert other is not client
    assert async_twin(client) is async_twin(client)


def test_what_is_left_out_is_what_the_environment_says_now(monkeypatch):
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", ELSEWHERE)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    client = shared_client()
    assert shared_client() is client
    assert shared_client(KEY, ELSEWHERE) is not client  # its errors advise an argument
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "another-key")
    assert shared_client() is not client
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert shared_client() is not client


def test_a_closed_client_is_not_given_out_again(server):
    client = shared_client(KEY, server.url)
    client.close()
    assert ask(shared_client(KEY, server.url)).answer == "At nine."


def test_threads_that_come_at_once_share_one_connection_pool():
    with ThreadPoolExecutor(16) as threads:
        clients = list(threads.map(lambda _: shared_client("key-of-many", ELSEWHERE), range(200)))
    assert len(set(map(id, clients))) == 1


def test_many_keys_leave_no_connection_open(server):
    for number in range(150):  # for which the clients are given up that other tests have left
        shared_client(f"another-{number}", server.url)
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        for number in range(150):
            ask(shared_client(f"key-{number}", server.url))
        gc.collect()
    assert [each for each in caught if each.category is ResourceWarning] == []
    assert server.connections == 150


def test_a_client_that_is_not_kept_any_more_serves_who_has_it(server):
    first = shared_client("key-of-the-first", server.url)
    derived = first.with_options(timeout=5)
    del first
    ask(derived)
    for number in range(100):
        shared_client(f"key-{number}", server.url)
    gc.collect()
    ask(derived)
    assert server.connections == 1


def test_there_is_no_twin_of_a_client_with_an_own_way_to_send():
    with httpx.Client() as http_client:
        client = Client(KEY, ELSEWHERE, http_client=http_client)
        with pytest.raises(ConfigurationError, match="async_client="):
            async_twin(client)


async def test_a_twin_serves_one_loop_after_another(server):
    client = shared_client(KEY, server.url)
    await async_twin(client).send_message(bot_id="bot_1", content="one")

    def in_another_loop():
        return asyncio.run(async_twin(client).send_message(bot_id="bot_1", content="two"))

    assert (await asyncio.to_thread(in_another_loop)).answer == "At nine."


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only Unix forks")
def test_a_fork_in_the_middle_of_it_blocks_nobody():
    done = subprocess.run(
        # Since 3.12 Python warns whoever forks beside threads, and that is what this test is about.
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", FORKING],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("0\n" * 20, "")


FORKING = r"""
import os, signal, threading
from knowledge_bot.adapters.settings import shared_client

shared_client("key-0", "https://service.example")  # Python itself may hang in a fork amid an import
ended = threading.Event()

def busy(number):
    while not ended.is_set():
        shared_client(f"key-{number}", "https://service.example")

threads = [threading.Thread(target=busy, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for _ in range(20):
    child = os.fork()
    if not child:
        signal.alarm(20)  # a child that is blocked would outlive the test
        shared_client("key-0", "https://service.example")
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
ended.set()
"""
