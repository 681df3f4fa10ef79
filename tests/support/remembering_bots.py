"""A service of bots that remember what they were told, to tell who heard what."""

import threading
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from calls import KEY
from scripted_server import Received, Reply, ScriptedServer, answer


@dataclass
class Bots:
    """A service of bots that remember what they were told.

    Attributes:
        threads: for each conversation, what was said in it.
        refuse_next: what the next messages meet instead of being received; None lets one pass.
        lose_next: what the next messages that are received meet instead of their answer.
        hold: holds the answers back until it is set.
        answered: how many messages were answered.
    """

    threads: dict[str, list[str]] = field(default_factory=dict)
    refuse_next: list[Reply | None] = field(default_factory=list)
    lose_next: list[Reply] = field(default_factory=list)
    hold: threading.Event | None = None
    answered: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._answers = 0
        # Other tests' servers may have had this port: no conversation of theirs is met again.
        self._mark = uuid.uuid4().hex[:8]
        self.server = ScriptedServer(reply_to=self._reply)

    @property
    def fields(self) -> dict[str, Any]:
        """What an object needs to find this service."""
        return {"api_key": KEY, "base_url": self.server.url}

    @property
    def received(self) -> list[dict[str, Any]]:
        """Every message, in its order."""
        return [request.json()["value"] for request in self.server.requests]

    @property
    def contents(self) -> list[str]:
        return [message["content"] for message in self.received]

    def conversation(self, name: str) -> str:
        """The id of a conversation that no other service has."""
        return f"conv_{self._mark}_{name}"

    def times_sent(self, text: str) -> Counter[str]:
        """How often each conversation was told a text; none where it never was."""
        told = {name: sum(s.count(text) for s in said) for name, said in self.threads.items()}
        return +Counter(told)

    def _reply(self, request: Received) -> Reply:
        reply = self._reply_to(request)
        if self.hold is not None:
            self.hold.wait(60)
        self.answered += 1
        return reply

    def _reply_to(self, request: Received) -> Reply:
        message = request.json()["value"]
        with self._lock:
            if self.refuse_next and (refused := self.refuse_next.pop(0)) is not None:
                return refused
            conversation = message.get("conversation_id") or self._name("conv")
            self.threads.setdefault(conversation, []).append(message["content"])
            self._answers += 1
            body = {
                "id": self._name("msg"),
                "answer": f"<answer {self._answers}> of {message['bot_id']}",
                "conversation_id": conversation,
                "created_at": 1_700_000_000_000 + self._answers,
            }
            return self.lose_next.pop(0) if self.lose_next else answer(body={"value": body})

    def _name(self, kind: str) -> str:
        return f"{kind}_{self._mark}{len(self.threads)}x{self._answers}"
