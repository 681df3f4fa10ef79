"""`kbot gateway`, `kbot mcp --http` and what `kbot serve` has beside its interface."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import httpx2
import openai
import pytest
from click.testing import CliRunner
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from answering_bot import Bots
from calls import KEY as SERVICE_KEY
from knowledge_bot.cli import main
from waiting import until

pytestmark = pytest.mark.integration

KBOT = Path(sys.executable).with_name("kbot")
QUESTION = {"role": "user", "content": "When do you open?"}


@pytest.fixture
def bots():
    service = Bots(bot_guide={})
    yield service
    service.stop()


@contextmanager
def running(folder, *arguments, **environment):
    """Run a `kbot` that listens, until it is told to stop; gives what it printed."""
    log = folder / "printed.txt"
    given = {"HOME": str(folder), "PATH": os.environ["PATH"], **environment}
    if "PYTHONPATH" in os.environ:
        given["PYTHONPATH"] = os.environ["PYTHONPATH"]
    with (
        log.open("wb") as printed,
        subprocess.Popen(
            [KBOT, *arguments], cwd=folder, env=given, stdout=printed, stderr=printed
        ) as process,
    ):
        try:
            assert until(lambda: "Stop with" in log.read_text(), 60), log.read_text()
            yield log.read_text()
            # Being stopped is not a failure.
            process.terminate()
            assert process.wait(60) == 0
            assert "Traceback" not in log.read_text()
        finally:
            process.kill()


def of(bots, **more):
    return {"KNOWLEDGE_BOT_BASE_URL": bots.url, "KNOWLEDGE_BOT_API_KEY": SERVICE_KEY, **more}


@pytest.fixture
def ended(bots, tmp_path):
    """`ended(*arguments)`: the result of a command that ends by itself, in this process."""
    kept = signal.getsignal(signal.SIGTERM)
    environment = of(bots, KBOT_CONFIG=str(tmp_path / "config.toml"))
    yield lambda *arguments: CliRunner().invoke(main, arguments, env=environment)
    signal.signal(signal.SIGTERM, kept)


def address(printed, what):
    return re.search(rf"{what}: +(\S+)", printed)[1]


def asked(base_url, key):
    client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0)
    completion = client.chat.completions.create(model="bot_guide", messages=[QUESTION])
    return completion.choices[0].message.content


def test_the_gateway_asks_with_kbots_key_for_those_who_have_its_own(bots, tmp_path):
    options = ("gateway", "--port", "0", "--heads", "heads.db")
    with running(tmp_path, *options, **of(bots, KBOT_GATEWAY_KEY="of-the-gateway")) as printed:
        base_url = address(printed, "OpenAI")
        assert asked(base_url, "of-the-gateway") == "At nine."
        with pytest.raises(openai.AuthenticationError):
            asked(base_url, SERVICE_KEY)
        assert "of-the-gateway" not in printed
    assert bots.requests[-1].headers["x-api-key"] == SERVICE_KEY
    assert (tmp_path / "heads.db").is_file()


def test_the_gateway_passes_keys_through_when_it_has_none(bots, tmp_path):
    with running(tmp_path, "gateway", "--port", "0", KNOWLEDGE_BOT_BASE_URL=bots.url) as printed:
        assert asked(address(printed, "OpenAI"), "of-ada") == "At nine."
        assert bots.requests[-1].headers["x-api-key"] == "of-ada"


def test_no_key_is_for_this_machine_alone(ended):
    refused = ended("gateway", "--no-key", "--host", "0.0.0.0")
    assert refused.exit_code == 2
    assert "loopback" in refused.stderr


async def test_mcp_over_http_is_mcp_alone_and_open_without_keys_if_asked(bots, tmp_path):
    options = ("mcp", "--http", "127.0.0.1:0", "--no-key")
    with running(tmp_path, *options, **of(bots)) as printed:
        url = address(printed, "MCP")
        async with Client(streamable_http_client(url)) as client:
            question = {"bot": "bot_guide", "question": QUESTION["content"]}
            result = await client.call_tool("ask_bot", question)
            assert result.structured_content["answer"] == "At nine."
        assert httpx.get(url.replace("/mcp", "/v1/models")).status_code == 404


@pytest.mark.parametrize(
    "options",
    [
        ("mcp", "--http", "8711"),
        ("mcp", "--http", "host:port"),
        ("mcp", "--http", "127.0.0.1:99999"),
        ("mcp", "--no-key"),
        ("mcp", "--key", "x"),
        ("gateway", "--no-key", "--key", "x"),
        ("gateway", "--parallel", "0"),
    ],
)
def test_options_that_make_no_sense_are_refused(ended, options):
    done = ended(*options)
    assert done.exit_code == 2
    assert isinstance(done.exception, SystemExit)


def test_a_taken_port_is_a_sentence(bots, ended):
    done = ended("gateway", "--port", str(bots.port))
    assert done.exit_code == 1
    assert f"cannot listen on 127.0.0.1, port {bots.port}" in done.stderr


def test_heads_that_cannot_be_used_are_a_sentence_at_the_start(ended, tmp_path):
    (tmp_path / "file").touch()
    done = ended("gateway", "--port", "0", "--heads", str(tmp_path / "file" / "heads.db"))
    assert done.exit_code == 1
    assert "heads" in done.stderr
    assert isinstance(done.exception, SystemExit)


def test_a_description_of_a_bot_that_is_not_there_is_said_at_the_start(bots, ended):
    described = ("--describe", "bot_guide=House rules", "--describe", "bot_gide=Typing error")
    done = ended("gateway", "--no-key", "--port", str(bots.port), *described)
    assert "bot_gide" in done.stderr
    assert "there are bot_guide" in done.stderr
    assert "House rules" not in done.stderr
    bots.stop()
    done = ended("gateway", "--no-key", "--heads", "/", *described)
    assert "the bots are not known yet" in done.stderr


def test_being_stopped_is_not_a_failure_of_a_server_on_pipes(bots):
    with subprocess.Popen(
        [KBOT, "mcp"],
        env={**os.environ, **of(bots)},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        hello["clientInfo"] = {"name": "test", "version": "1"}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        assert "knowledge-bot" in process.stdout.readline()
        process.terminate()
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()


async def test_kbot_serve_speaks_both_with_its_own_key_and_knows_its_chats_later(
    tmp_path,
):
    with running(tmp_path, "serve", "--port", "0") as printed:
        base_url = address(printed, "Base URL").removesuffix("/public/v1")
        key = address(printed, "API key")
        client = openai.OpenAI(base_url=f"{base_url}/v1", api_key=key)
        first = client.chat.completions.create(model="bot_default", messages=[QUESTION])
        said = [QUESTION, first.choices[0].message.model_dump(), QUESTION]
        second = client.chat.completions.create(model="bot_default", messages=said)
        assert second.conversation == first.conversation
        assert httpx.get(f"{base_url}/v1/models").json()["error"]["code"] == "invalid_api_key"
        # A key that is not the service's gets no session, which would take memory.
        for path in ("v1/models", "mcp"):
            wrong = httpx.post(f"{base_url}/{path}", headers={"Authorization": "Bearer nope"})
            assert wrong.status_code == 401
        # The service's own paths are as they were.
        assert httpx.get(f"{base_url}/public/v1/ping").json() == "pong"
        assert httpx.get(f"{base_url}/v2").json()["code"] == "not_found"
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http,
            Client(streamable_http_client(f"{base_url}/mcp", http_client=http)) as agent,
        ):
            names = {tool.name for tool in (await agent.list_tools()).tools}
            assert {"ask_bot", "ask_assistant"} <= names
    (heads,) = (tmp_path / "kbot-data").glob("heads.sqlite3")
    assert heads.stat().st_mode & 0o777 == 0o600
    said += [second.choices[0].message.model_dump(), QUESTION]
    with running(tmp_path, "serve", "--port", base_url.rpartition(":")[2]):
        third = client.chat.completions.create(model="bot_default", messages=said)
        assert third.conversation == first.conversation
