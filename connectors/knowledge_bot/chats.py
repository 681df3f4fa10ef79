"""Conversations with a bot: each turn continues the thread that the service keeps."""

import asyncio
import threading
from typing import TYPE_CHECKING

from knowledge_bot.models import Message

if TYPE_CHECKING:
    from knowledge_bot.client import AsyncClient, Client


class Chat:
    """A conversation with a bot, one turn after another; made by `Client.chat`.

    Attributes:
        conversation_id: the conversation's id; None until the first answer.
    """

    def __init__(self, client: "Client", bot_id: str, conversation_id: str | None) -> None:
        self._client, self._bot_id = client, bot_id
        self.conversation_id = conversation_id
        self._turn = threading.Lock()

    def ask(self, content: str) -> Message:
        """Send a message in this conversation; returns and raises what `send_message` does."""
        with self._turn:
            message = self._client.send_message(
                bot_id=self._bot_id, content=content, conversation_id=self.conversation_id
            )
            self.conversation_id = message.conversation_id
        return message


class AsyncChat:
    """A conversation with a bot, one turn after another; made by `AsyncClient.chat`.

    Attributes:
        conversation_id: the conversation's id; None until the first answer.
    """

    def __init__(self, client: "AsyncClient", bot_id: str, conversation_id: str | None) -> None:
        self._client, self._bot_id = client, bot_id
        self.conversation_id = conversation_id
        self._turn = asyncio.Lock()

    async def ask(self, content: str) -> Message:
        """Send a message in this conversation; returns and raises what `send_message` does."""
        async with self._turn:
            message = await self._client.send_message(
                bot_id=self._bot_id, content=content, conversation_id=self.conversation_id
            )
            self.conversation_id = message.conversation_id
        return message
