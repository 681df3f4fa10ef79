"""Conversations with a bot, turn by turn."""

import asyncio
import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from knowledge_bot._endpoints import identifier

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from knowledge_bot.models import Message


class Chat:
    """A conversation with a bot, one turn after another; made by `Client.chat`.

    Attributes:
        conversation_id: the conversation's id; None until the first answer.
    """

    def __init__(
        self, send_message: "Callable[..., Message]", bot_id: str, conversation_id: str | None
    ) -> None:
        self._send_message, self._bot_id = send_message, identifier("bot_id", bot_id, "bot_")
        self.conversation_id = conversation_id
        self._turn = threading.Lock()

    def __repr__(self) -> str:
        return f"Chat({self._bot_id!r}, conversation_id={self.conversation_id!r})"

    def ask(self, content: str) -> "Message":
        """Send a message in this conversation; returns and raises what `send_message` does."""
        with self._turn:
            message = self._send_message(
                bot_id=self._bot_id, content=content, conversation_id=self.conversation_id
            )
            self.conversation_id = message.conversation_id
        return message


class AsyncChat:
    """A conversation with a bot, one turn after another; made by `AsyncClient.chat`.

    Turns of several event loops at once do not wait for each other.

    Attributes:
        conversation_id: the conversation's id; None until the first answer.
    """

    def __init__(
        self,
        send_message: "Callable[..., Awaitable[Message]]",
        bot_id: str,
        conversation_id: str | None,
    ) -> None:
        self._send_message, self._bot_id = send_message, identifier("bot_id", bot_id, "bot_")
        self.conversation_id = conversation_id
        # A lock belongs to the first event loop in which a task had to wait for it.
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"AsyncChat({self._bot_id!r}, conversation_id={self.conversation_id!r})"

    async def ask(self, content: str) -> "Message":
        """Send a message in this conversation; returns and raises what `send_message` does."""
        async with self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            message = await self._send_message(
                bot_id=self._bot_id, content=content, conversation_id=self.conversation_id
            )
            self.conversation_id = message.conversation_id
        return message
