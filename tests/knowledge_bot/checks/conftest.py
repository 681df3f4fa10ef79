"""Bots in memory that note when they are asked, and files of questions."""

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from knowledge_bot import AsyncClient, Client
from knowledge_bot.checks import CheckReport, acheck, check
from knowledge_bot.testing import Answers, MemoryService

URL = "https://service.test"


class NotingService(MemoryService):
    """A service that notes when it was asked what."""

    def __init__(self, extensions: Iterable[str] = (), **bots: Answers) -> None:
        super().__init__(bots=bots, extensions=extensions)
        self.asked: list[tuple[float, str]] = []

    def _message(self, value: Any) -> object:
        self.asked.append((time.monotonic(), value["content"]))
        return super()._message(value)

    def times(self, question: str) -> list[float]:
        """When a question was asked."""
        return [at for at, asked in self.asked if asked == question]


@pytest.fixture
def serve() -> type[NotingService]:
    """`serve(bot_1={"When?": "At nine."})`: bots that answer from a mapping or by a function."""
    return NotingService


def checked(service: MemoryService, bot: Any, questions: Any, **how: Any) -> CheckReport:
    options = {"max_retries": 0, **how.pop("client", {})}
    with Client("key", URL, transport=service.transport, **options) as client:
        return check(client, bot, questions, **how)


async def achecked(service: MemoryService, bot: Any, questions: Any, **how: Any) -> CheckReport:
    options = {"max_retries": 0, **how.pop("client", {})}
    async with AsyncClient("key", URL, transport=service.async_transport, **options) as client:
        return await acheck(client, bot, questions, **how)


@pytest.fixture(params=["check", "acheck"])
def run(request: pytest.FixtureRequest) -> Callable[..., CheckReport]:
    """`run(service, bot, questions, …)`: either function, with a client of its own."""
    if request.param == "check":
        return checked
    return lambda *given, **how: asyncio.run(achecked(*given, **how))


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, str], Path]:
    """`written("questions.toml", "…")` is a file."""

    def write(name: str, text: str | bytes) -> Path:
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return write
