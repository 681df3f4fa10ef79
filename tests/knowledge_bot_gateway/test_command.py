"""`kbot gateway`, `kbot mcp --http` and what `kbot serve` has beside its interface."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai
import pytest
import uvicorn
from click.testing import CliRunner
from starlette.testclient import TestClient

from calls import KEY as SERVICE_KEY
from gateways import openai_of
from knowledge_bot.cli import main
from knowledge_bot_gateway._app import mount_mcp, mount_openai
from served import served
from waiting import until

KBOT = Path(sys.executable).with_name("kbot")
URL = "https://service-of-the-command.test"
QUESTION = {"role": "user", "content": "When do you open?"}


@pytest.fixture
def run(service, tmp_path, monkeypatch):
    """`run(*arguments)`: the result of a command in this process, and the application it served."""
    served_apps = []
    kept = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(
        uvicorn.Server, "run", lambda self, sockets: served_apps.append(self.config.app)
    )
    environment = {
        "KNOWLEDGE_BOT_BASE_URL": URL,
        "KNOWLEDGE_BOT_API_KEY": SERVICE_KEY,
        "KBOT_CONFIG": str(tmp_path / "config.toml"),
    }

    def ran(*arguments, **more):
        result = CliRunner().invoke(main, arguments, env=environment | more)
        return result, served_apps.pop() if served_apps else None

    yield ran
    signal.signal(signal.SIGTERM, kept)


def ask(http, key):
    client = openai_of(http, key, max_retries=0)
    return client.chat.completions.create(model="bot_host", messages=[QUESTION])


def asking(app):
    return TestClient(app, "http://127.0.0.1")


def test_the_gateway_asks_with_kbots_key_for_those_who_have_its_own(run, service, tmp_path):
    heads = tmp_path / "heads.db"
    options = ("gateway", "--port", "0", "--heads", str(heads))
    result, app = run(*options, KBOT_GATEWAY_KEY="of-the-gateway")
    assert re.search(r"OpenAI: +http://127.0.0.1:\d+/v1\nMCP: ", result.stdout)
    assert "of-the-gateway" not in result.output
    with asking(app) as http:
        assert ask(http, "of-the-gateway").choices[0].message.content == "At ten."
        with pytest.raises(openai.AuthenticationError):
            ask(http, SERVICE_KEY)
    assert service.requests[-1].headers["x-api-key"] == SERVICE_KEY
    assert heads.is_file()


def test_the_gateway_passes_keys_through_when_it_has_none(run, service):
    _, app = run("gateway", "--port", "0")
    with asking(app) as http:
        ask(http, "of-ada")
    assert service.requests[-1].headers["x-api-key"] == "of-ada"


def test_mcp_over_http_is_mcp_alone_and_open_without_keys_if_asked(run):
    result, app = run("mcp", "--http", "127.0.0.1:0", "--no-key")
    assert "OpenAI" not in result.stdout
    with asking(app) as http:
        assert http.post("/mcp", json={}).status_code != 401
        assert http.get("/v1/models").status_code == 404


@pytest.mark.parametrize(
    "options",
    [
        ("mcp", "--http", "8711"),
        ("mcp", "--http", "host:port"),
        ("mcp", "--http", "127.0.0.1:99999"),
        ("mcp", "--no-key"),
        ("mcp", "--key", "x"),
        ("gateway", "--no-key", "--key", "x"),
        ("gateway", "--no-key", "--host", "0.0.0.0"),
        ("gateway", "--parallel", "0"),
        ("gateway", "--describe", "bot_guide"),
    ],
)
def test_options_that_make_no_sense_are_refused(run, options):
    done, app = run(*options)
    assert done.exit_code == 2
    assert app is None


def test_without_a_service_it_says_how_to_name_one(run):
    done, _ = run("mcp", KNOWLEDGE_BOT_BASE_URL="", KNOWLEDGE_BOT_API_KEY="")
    assert done.exit_code == 2
    assert "kbot login" in done.stderr
    assert done.stdout == ""


def test_a_taken_port_is_a_sentence(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done, _ = run("gateway", "--port", str(port))
    assert done.exit_code == 1
    assert f"cannot listen on 127.0.0.1, port {port}" in done.stderr


def test_heads_that_cannot_be_used_are_a_sentence_at_the_start(run, tmp_path):
    (tmp_path / "file").touch()
    done, _ = run("gateway", "--port", "0", "--heads", str(tmp_path / "file" / "heads.db"))
    assert done.exit_code == 1
    assert "heads" in done.stderr


def test_a_description_of_a_bot_that_is_not_there_is_said_at_the_start(run, service):
    described = ("--describe", "bot_guide=House rules", "--describe", "bot_gide=Typing error")
    done, app = run("gateway", "--no-key", "--port", "0", *described)
    assert "bot_gide" in done.stderr
    assert "there are bot_guide" in done.stderr
    assert "House rules" not in done.stderr
    assert app is not None
    service.reachable = False
    done, app = run("gateway", "--no-key", "--port", "0", *described)
    assert "the bots are not known yet" in done.stderr
    assert app is not None


@contextmanager
def running(folder, *arguments, **environment):
    """Run a `kbot` that listens, until it is told to stop; gives what it printed."""
    log = folder / "printed.txt"
    given = {"HOME": str(folder), "PATH": os.environ["PATH"], **environment}
    with (
        log.open("wb") as printed,
        subprocess.Popen(
            [KBOT, *arguments], cwd=folder, env=given, stdout=printed, stderr=printed
        ) as process,
    ):
        try:
            assert until(lambda: "Stop with" in log.read_text(), 200), log.read_text()
            yield log.read_text()
            # Being stopped is not a failure.
            process.terminate()
            assert process.wait(60) == 0
            assert "Traceback" not in log.read_text()
        finally:
            process.kill()


def test_a_gateway_answers_at_its_port_until_it_is_stopped(service, tmp_path):
    with served(service) as url:
        told = {"KNOWLEDGE_BOT_BASE_URL": url, "KNOWLEDGE_BOT_API_KEY": SERVICE_KEY}
        with running(tmp_path, "gateway", "--port", "0", "--no-key", **told) as printed:
            base_url = re.search(r"OpenAI: +(\S+)", printed)[1]
            assert httpx.get(f"{base_url}/models").json()["data"][0]["id"] == "bot_guide"


async def test_beside_a_service_both_are_mounted_and_chats_are_known_after_a_restart(
    service, tmp_path
):
    said, conversations = [QUESTION], set()
    for _ in range(2):
        async with mount_openai(URL, tmp_path) as app:
            client = openai_of(TestClient(app), SERVICE_KEY)
            done = client.chat.completions.create(model="bot_host", messages=said)
        said += [done.choices[0].message.model_dump(), QUESTION]
        conversations.add(done.conversation["id"])
    assert len(conversations) == 1
    (heads,) = tmp_path.glob("heads.sqlite3")
    assert heads.stat().st_mode & 0o777 == 0o600
    async with mount_mcp(URL, tmp_path) as app:
        paths = {route.path for route in app.routes}
        assert "/mcp" in paths
        assert "/v1/models" not in paths


@pytest.mark.slow
def test_kbot_serve_offers_both_to_those_who_have_its_key(tmp_path):
    with running(tmp_path, "serve", "--port", "0") as printed:
        base_url = re.search(r"Base URL: +(\S+)/public/v1", printed)[1]
        key = re.search(r"API key: +(\S+)", printed)[1]
        client = openai.OpenAI(base_url=f"{base_url}/v1", api_key=key)
        assert client.chat.completions.create(model="bot_default", messages=[QUESTION]).choices
        # A key that is not the service's gets no session, which would take memory.
        for path in ("v1/models", "mcp"):
            wrong = httpx.post(f"{base_url}/{path}", headers={"Authorization": "Bearer nope"})
            assert wrong.status_code == 401
        # The service's own paths are as they were.
        assert httpx.get(f"{base_url}/public/v1/ping").json() == "pong"
        assert httpx.get(f"{base_url}/v2").json()["code"] == "not_found"
