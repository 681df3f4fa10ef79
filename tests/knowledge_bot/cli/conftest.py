"""`kbot` as a process or within the test, and a service for it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from calls import KEY
from in_process import OnAPort
from knowledge_bot.cli import main
from knowledge_bot.testing import MemoryService


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the settings and the ledger of whoever runs it."""
    monkeypatch.setenv("KBOT_CONFIG", str(tmp_path / "settings" / "config.toml"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in (
        "KNOWLEDGE_BOT_COLLECTION",
        "KBOT_PROFILE",
        "NO_COLOR",
        "FORCE_COLOR",
        "PYTHONIOENCODING",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    return tmp_path / "settings" / "config.toml"


@pytest.fixture(scope="session")
def service() -> Iterator[OnAPort]:
    with OnAPort(
        collections={"col_handbook": "Handbook"}, bots={"bot_guide": ["col_handbook"]}, api_key=KEY
    ) as running:
        yield running


@pytest.fixture
def of_the_service(service: OnAPort, monkeypatch: pytest.MonkeyPatch) -> OnAPort:
    """The environment names the service, the key and the collection."""
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", service.base_url)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", service.api_key)
    monkeypatch.setenv("KNOWLEDGE_BOT_COLLECTION", "col_handbook")
    return service


@pytest.fixture
def program() -> Path:
    return Path(sys.executable).with_name("kbot")


@pytest.fixture
def kbot(program: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """`kbot("ask", …, stdin="…", NAME="value of the environment")` as a process of its own."""

    def run(
        *arguments: object, stdin: str | bytes = "", encoding: str = "utf-8", **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [program, *map(str, arguments)],
            env={**os.environ, **environment},
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            check=False,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding)
        )

    return run


@pytest.fixture
def run() -> Callable[..., Result]:
    """`run("ask", …, stdin="…")` within the test: quicker, for what needs no process."""

    def invoke(*arguments: object, stdin: str | bytes | None = None, **environment: str) -> Result:
        result = CliRunner().invoke(
            main, list(map(str, arguments)), input=stdin, env=environment, prog_name="kbot"
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def answering(
    scripted: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., object]:
    """A scripted server that the environment names, with a key."""

    def start(*replies: object, **options: object) -> object:
        server = scripted(*replies, **options)
        monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", server.url)  # type: ignore[attr-defined]
        monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
        return server

    return start


@pytest.fixture
def standing_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., MemoryService]]:
    """`standing_in(bots=…)`: a service in memory, which answers whatever the environment names."""
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", "https://service.test")
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    with ExitStack() as stack:

        def start(**options: object) -> MemoryService:
            return stack.enter_context(MemoryService(**options).standing_in())  # type: ignore[arg-type]

        yield start


@pytest.fixture
def handbook(handbook):
    (handbook / ".hidden").write_text("x")
    return handbook
