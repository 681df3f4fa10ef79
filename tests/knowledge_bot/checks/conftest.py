"""Bots over a real socket whose answers a test gives, and files of questions."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from calls import KEY
from knowledge_bot import Client
from scripted_server import Received, Reply, ScriptedServer, answer

Answering = Callable[[str], "str | Reply"]


@dataclass
class Bots:
    """A service with bots, each a function from a question to an answer or to a reply."""

    bots: dict[str, Answering]
    asked: list[tuple[float, str, str]] = field(default_factory=list)
    """When what was asked of whom, in order."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    listed: int = 0

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self.server = ScriptedServer(reply_to=self._reply)
        self.url = self.server.url

    def _reply(self, request: Received) -> Reply:
        if request.method == "GET":
            self.listed += 1
            return answer(body={"data": [{"id": bot, "name": bot} for bot in self.bots]})
        value = json.loads(request.body)["value"]
        self.bodies.append(value)
        self.asked.append((time.monotonic(), value["bot_id"], value["content"]))
        if value["bot_id"] not in self.bots:
            return answer(400, {"code": "unknown_bot", "message": "There is no such bot"})
        said = self.bots[value["bot_id"]](value["content"])
        return message(said, next(self._numbers)) if isinstance(said, str) else said

    def times(self, question: str) -> list[float]:
        """When a question was asked."""
        return [at for at, _, asked in self.asked if asked == question]


def message(text: str, number: int = 1, **more: object) -> Reply:
    return answer(
        body={
            "id": f"msg_{number}",
            "answer": text,
            "conversation_id": f"conv_{number}",
            "created_at": 1_700_000_000_456,
            **more,
        }
    )


@pytest.fixture
def serve() -> Iterator[Callable[..., Bots]]:
    """`serve(bot_1={"When?": "At nine."})`: bots that answer from a mapping or by a function."""
    started: list[Bots] = []

    def start(**bots: Any) -> Bots:
        made = Bots(
            {
                name: given if callable(given) else lambda asked, given=given: given[asked]
                for name, given in bots.items()
            }
        )
        started.append(made)
        return made

    yield start
    for one in started:
        one.server.stop()


@pytest.fixture
def client_of() -> Iterator[Callable[..., Client]]:
    opened: list[Client] = []

    def make(bots: Bots, **options: Any) -> Client:
        opened.append(Client(KEY, bots.url, **{"max_retries": 0, "timeout": 5.0, **options}))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, str], Path]:
    """`written("questions.toml", "…")` is a file."""

    def write(name: str, text: str | bytes) -> Path:
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return write
