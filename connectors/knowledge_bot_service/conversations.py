"""What the service remembers of conversations: their turns, and which bot's they are."""

import sqlite3
from concurrent.futures import Future
from dataclasses import dataclass

from knowledge_bot_service.database import Database


@dataclass(frozen=True, slots=True)
class Turn:
    """One question of a conversation and the bot's answer."""

    question: str
    answer: str


class Conversations:
    """The conversations of a service, on its database. Times are integer milliseconds since 1970.

    Args:
        database: where everything is kept.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_bot(self, bot: str) -> list[tuple[str, str]]:
        """The ids and names of a bot's conversations, oldest first."""
        rows = self._database.reader().execute(
            "SELECT public_id, name FROM conversation WHERE bot = ? ORDER BY id", (bot,)
        )
        return [(row["public_id"], row["name"]) for row in rows]

    def exists(self, bot: str, conversation: str) -> bool:
        """Whether the conversation exists and is this bot's."""
        row = self._database.reader().execute(
            "SELECT 1 FROM conversation WHERE public_id = ? AND bot = ?", (conversation, bot)
        )
        return row.fetchone() is not None

    def turns(self, conversation: str, last: int) -> list[Turn]:
        """The last turns of a conversation, oldest first."""
        rows = self._database.reader().execute(
            "SELECT question, answer FROM message WHERE conversation ="
            " (SELECT id FROM conversation WHERE public_id = ?) ORDER BY id DESC LIMIT ?",
            (conversation, last),
        )
        return [Turn(row["question"], row["answer"]) for row in rows][::-1]

    def add_turn(
        self, *, message: str, bot: str, conversation: str, name: str, turn: Turn, created_at: int
    ) -> Future[None]:
        """Store a turn, and its conversation under `name` when it is the first."""

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO conversation (public_id, bot, name, created_at) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (conversation, bot, name, created_at),
            )
            connection.execute(
                "INSERT INTO message (public_id, conversation, question, answer, created_at)"
                " VALUES (?, (SELECT id FROM conversation WHERE public_id = ?), ?, ?, ?)",
                (message, conversation, turn.question, turn.answer, created_at),
            )

        return self._database.write(insert)
