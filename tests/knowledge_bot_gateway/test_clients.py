"""One question is one message for the clients that people use, whatever becomes of its answer."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import venv
from pathlib import Path

import pytest

from gateways import KEY, asked
from waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ELSEWHERE = ("litellm", "llm", "llama-index-llms-openai-like")
SAID = "messages=[{'role': 'user', 'content': 'Who opens?'}]"
# Each asks once, with its own defaults for trying again; `url` and `key` are the gateway's.
CLIENTS = {
    "openai": f"""
import openai
openai.OpenAI(base_url=url, api_key=key, timeout=2).chat.completions.create(
    model='bot_guide', {SAID})""",
    "openai, responses": """
import openai
openai.OpenAI(base_url=url, api_key=key, timeout=2).responses.create(
    model='bot_guide', input='Who opens?')""",
    "ChatOpenAI": """
from langchain_openai import ChatOpenAI
ChatOpenAI(base_url=url, api_key=key, model='bot_guide', timeout=2).invoke('Who opens?')""",
    "pydantic-ai": """
import openai
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
client = openai.AsyncOpenAI(base_url=url, api_key=key, timeout=2)
model = OpenAIChatModel('bot_guide', provider=OpenAIProvider(openai_client=client))
Agent(model).run_sync('Who opens?')""",
    "MCP": """
import asyncio, httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
async def ask():
    async with (
        httpx2.AsyncClient(headers={'Authorization': f'Bearer {key}'}, timeout=2) as http,
        Client(streamable_http_client(url[:-3] + '/mcp', http_client=http)) as client,
    ):
        asked = {'bot': 'bot_guide', 'question': 'Who opens?'}
        await client.call_tool('ask_bot', asked, read_timeout_seconds=8)
asyncio.run(ask())""",
    "litellm": f"""
import litellm
litellm.completion(
    model='openai/bot_guide', api_base=url, api_key=key, timeout=2, num_retries=2, {SAID})""",
    "llm": """
from llm.default_plugins.openai_models import Chat
Chat('bot_guide', model_name='bot_guide', api_base=url, key=key).prompt(
    'Who opens?', key=key, stream=False).text()""",
    "OpenAILike": """
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike
OpenAILike(model='bot_guide', api_base=url, api_key=key, is_chat_model=True, timeout=2).chat(
    [ChatMessage(role='user', content='Who opens?')])""",
}
ASKS_AGAIN = ("openai", "openai, responses", "ChatOpenAI", "pydantic-ai", "OpenAILike")
IN_ANOTHER = ("litellm", "llm", "OpenAILike")


@pytest.fixture(scope="session")
def another(tmp_path_factory):
    """A Python with the clients that are no dependencies of ours."""
    if given := os.environ.get("KBOT_TEST_CLIENTS"):
        return Path(given)
    folder = tmp_path_factory.mktemp("clients")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", *ELSEWHERE], check=True)
    return python


@contextlib.contextmanager
def losing(address, answers):
    """An address before another one, where the first answers to questions are lost on the way."""
    host, port = address.removeprefix("http://").split(":")
    listener = socket.create_server(("127.0.0.1", 0))
    left, ends = [None] * answers, []

    def passed_on(source, target, is_answer, asked):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                asked.append(b"Who opens?" in data)
                if is_answer and any(asked) and left:
                    left.pop()
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accepted():
        with contextlib.suppress(OSError):
            while True:
                near = listener.accept()[0]
                far = socket.create_connection((host, int(port)))
                asked = []
                ends.extend((near, far))
                for one in ((near, far, False, asked), (far, near, True, asked)):
                    threading.Thread(target=passed_on, args=one, daemon=True).start()

    threading.Thread(target=accepted, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        for end in (listener, *ends):
            end.close()


@pytest.mark.parametrize("lost", ["at the service", "by a timeout", "on the way"])
@pytest.mark.parametrize("client", CLIENTS)
def test_one_question_is_one_message(address, service, request, client, lost):
    python = request.getfixturevalue("another") if client in IN_ANOTHER else sys.executable
    program = f"import sys\nurl, key = sys.argv[1:]\n{CLIENTS[client]}"
    with contextlib.ExitStack() as stack:
        if lost == "at the service":
            service.lose_next_answer()
        elif lost == "by a timeout":
            held = stack.enter_context(contextlib.ExitStack())
            held.enter_context(service.holding_answers())
            threading.Thread(target=answer_later, args=(service, held), daemon=True).start()
        else:
            address = stack.enter_context(losing(address, 1))
        done = subprocess.run(
            [python, "-c", program, f"{address}/v1", KEY],
            capture_output=True,
            check=False,
            timeout=240,
        )
    assert asked(service) == ["Who opens?"], done.stderr.decode()[-2000:]
    # Where the answer can come, it does: at the second time of asking.
    if lost != "at the service" and client in ASKS_AGAIN:
        assert done.returncode == 0, done.stderr.decode()[-2000:]


def answer_later(service, held):
    """Let the service answer when the client's time is up."""
    until(lambda: asked(service), 120)
    time.sleep(5)  # twice the client's time, and more
    held.close()
