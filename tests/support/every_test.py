"""Fixtures that every package's tests share."""

import signal
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from calls import KEY
from knowledge_bot import Client
from knowledge_bot._extensions import announced_by
from knowledge_bot.conversations import Heads
from knowledge_bot.testing import MemoryService
from scripted_server import Reply, ScriptedServer

# Under `nohup`, or in the background of a script, both are ignored, and so they would be by every
# process that a test starts and signals.
for _number, _default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _default)

# How long an example takes, or its making, is the machine's affair; examples may share a fixture.
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def _no_service_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds the service, the key or the proxy of whoever runs it."""
    for name in ("KNOWLEDGE_BOT_BASE_URL", "KNOWLEDGE_BOT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(autouse=True)
def _no_measuring_of_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pytest that a test starts is no worker of the run whose coverage is measured."""
    monkeypatch.delenv("SLIPCOVER_ENABLED", raising=False)


@pytest.fixture
def service() -> MemoryService:
    """A service in memory, with bots and collections that the tests' calls name."""
    return MemoryService(
        bots={"bot_1": {"When do you open?": "At nine."}, "bot_2": {}},
        collections={"col_1": "House", "col_2": "Garden"},
    )


@pytest.fixture
def client(service: MemoryService) -> Iterator[Client]:
    """A client of `service`."""
    with Client(KEY, "https://service.test", transport=service.transport) as client:
        yield client


@pytest.fixture
def fields(service: MemoryService) -> Iterator[dict[str, str]]:
    """How a class finds `service`: by a key and an address, the same in all tests."""
    with service.standing_in():
        yield {"api_key": KEY, "base_url": "https://service.test/public/v1"}


@pytest.fixture(autouse=True)
def another_service_at_the_same_port() -> None:
    """What one test's service announced is not believed of the next one that has its port."""
    announced_by.cache_clear()
    Heads.of_process.cache_clear()


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedServer]]:
    """Start servers that answer with the given replies; they stop with the test."""
    servers: list[ScriptedServer] = []

    def start(*replies: Reply, **options: object) -> ScriptedServer:
        server = ScriptedServer(list(replies), **options)  # type: ignore[arg-type] # passed through
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()
