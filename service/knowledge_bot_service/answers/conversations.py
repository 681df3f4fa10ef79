"""Conversations that the service stores, and the question of a message in one."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from knowledge_bot.models import Message
from knowledge_bot.transcripts import Turn, read
from knowledge_bot_service.answers.prompts import question_in, refines, told_in
from knowledge_bot_service.config.refusals import UnknownError
from knowledge_bot_service.store.database import ServiceDatabase, now
from knowledge_bot_service.store.idempotency import Done

# How many earlier exchanges a question is understood with, of how many turns at most: those of an
# agent have a question, a call, its result and an answer.
CONTEXT_EXCHANGES: Final = 4
_CONTEXT_TURNS: Final = 4 * CONTEXT_EXCHANGES

# How much of an earlier question or reply counts, in characters: the result of a tool may be a
# whole book.
_CONTEXT_CHARACTERS: Final = 4000

# What stands between an answer's text and the names of its sources.
SOURCES: Final = "\n\nSources: "


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and the reply to it; either may be empty."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """What a message asks, and what it is understood with.

    Attributes:
        question: what is asked, without the prompt around it.
        message: the prompt as a whole; the same where it is a bare question.
        before: what was said before it, oldest first, without the names of the replies' sources.
        instructions: what system turns say, oldest first. Whoever may send a message can write
            them, so they are trusted no more than the question is.
    """

    question: str
    message: str
    before: Sequence[Exchange] = ()
    instructions: Sequence[str] = ()


def asked_in(content: str, said: Sequence[Turn] = ()) -> AskedQuestion:
    """What a message asks: the question of the prompt or of the transcript that it is.

    Args:
        content: the message.
        said: the turns of its conversation so far, oldest first; those of a transcript follow them.

    Returns:
        The question, with as much of what was said before it as it is understood with.
    """
    transcript = read(content)
    turns: Sequence[Turn] = (*said, *transcript.history)
    message = transcript.question
    asked = question_in(message)
    if refines(message):
        turns, said_since = _unrefined(turns)
        if said_since:
            asked = question_in(said_since[0])
            message = "\n\n".join([*said_since, message])
    instructions = dict.fromkeys(turn.text for turn in turns if turn.role == "system")
    spoken = [turn for turn in turns if turn.role != "system" and turn.text.strip()]
    exchanges = [*_exchanges(spoken[-_CONTEXT_TURNS:])]
    told, question = told_in(asked)
    if told:
        exchanges.append(Exchange(told, ""))
    return AskedQuestion(
        question=question,
        message=message,
        before=tuple(exchanges[-CONTEXT_EXCHANGES:]),
        instructions=tuple(instructions),
    )


def _unrefined(turns: Sequence[Turn]) -> tuple[Sequence[Turn], Sequence[str]]:
    """The turns before the last question that asks for itself, and what was said from that on."""
    for place in reversed(range(len(turns))):
        if turns[place].role == "user" and not refines(turns[place].text):
            return turns[:place], [turn.text for turn in turns[place:]]
    return turns, ()


def _exchanges(turns: Iterable[Turn]) -> Iterator[Exchange]:
    """Attach replies, including those of tools, to the question before them."""
    questions: list[str] = []
    replies: list[str] = []
    for turn in turns:
        if turn.role != "user":
            replies.append(turn.text.partition(SOURCES)[0])
            continue
        if replies:
            yield _exchange(questions, replies)
            questions, replies = [], []
        questions.append(question_in(turn.text))
    if questions or replies:
        yield _exchange(questions, replies)


def _exchange(questions: Iterable[str], replies: Iterable[str]) -> Exchange:
    said = ("\n\n".join(texts)[:_CONTEXT_CHARACTERS] for texts in (questions, replies))
    return Exchange(*said)


@dataclass(frozen=True, slots=True)
class RowPage:
    """Some rows of a longer list; `next` is the `before` of those that follow, None at the end."""

    rows: list[dict[str, Any]]
    next: int | None


class ConversationStore:
    """The conversations of a service, on its database. Times are integer milliseconds since 1970.

    Args:
        database: where everything is kept.
    """

    def __init__(self, database: ServiceDatabase) -> None:
        self._database = database

    def of_bot(self, bot: str) -> list[tuple[str, str]]:
        """The ids and names of a bot's conversations, oldest first."""
        rows = self._database.reader().execute(
            "SELECT public_id, name FROM conversation WHERE bot = ? ORDER BY id", (bot,)
        )
        return [(row["public_id"], row["name"]) for row in rows]

    def page_of_bot(self, bot: str, before: int | None, limit: int) -> RowPage:
        """Some of a bot's conversations, newest first: `id`, `name` and `created_at`.

        Args:
            bot: the bot's id.
            before: read what comes after this place, the `next` of an earlier page.
            limit: how many to read at most.
        """
        return self._page(
            "public_id AS id, name, created_at FROM conversation WHERE bot = ?", bot, before, limit
        )

    def page_of_messages(
        self, bot: str, conversation: str, before: int | None, limit: int
    ) -> RowPage:
        """Some of a conversation's messages, newest first.

        Of each its `id`, `question`, `answer`, `sources` (None where they are unknown) and
        `created_at`. The question of a transcript stands for it. Arguments are those of
        `page_of_bot`.

        Raises:
            UnknownError: the bot has no such conversation.
        """
        if not self.exists(bot, conversation):
            raise UnknownError("conversation", conversation)
        page = self._page(
            "public_id AS id, question, answer, sources, created_at FROM message"
            " WHERE conversation = (SELECT id FROM conversation WHERE public_id = ?)",
            conversation,
            before,
            limit,
        )
        for message in page.rows:
            message["question"] = read(message["question"]).question
            message["sources"] = json.loads(message["sources"] or "null")
        return page

    def _page(self, columns: str, of: str, before: int | None, limit: int) -> RowPage:
        rows = (
            self._database.reader()
            .execute(
                f"SELECT id AS number, {columns} AND (? IS NULL OR number < ?)"
                " ORDER BY number DESC LIMIT ?",
                (of, before, before, limit + 1),
            )
            .fetchall()
        )
        shown = [dict(row) for row in rows[:limit]]
        places = [row.pop("number") for row in shown]
        return RowPage(shown, places[-1] if len(rows) > limit else None)

    def exists(self, bot: str, conversation: str) -> bool:
        """Whether the conversation exists and is this bot's."""
        row = self._database.reader().execute(
            "SELECT 1 FROM conversation WHERE public_id = ? AND bot = ?", (conversation, bot)
        )
        return row.fetchone() is not None

    def turns(self, conversation: str) -> list[Turn]:
        """What was said last in a conversation, oldest first, as far as questions need it.

        A message that is a transcript gives its turns.
        """
        rows = self._database.reader().execute(
            "SELECT question, answer FROM message WHERE conversation ="
            " (SELECT id FROM conversation WHERE public_id = ?) ORDER BY id DESC LIMIT ?",
            (conversation, CONTEXT_EXCHANGES),
        )
        return [
            turn
            for row in rows.fetchall()[::-1]
            for turn in (*read(row["question"]).turns, Turn("assistant", row["answer"]))
        ]

    def add(
        self,
        message: Message,
        *,
        bot: str,
        name: str,
        content: str,
        sources: str,
        done: Done | None,
    ) -> Future[None]:
        """Store a message, and its conversation if it is the first.

        Args:
            message: its answer.
            bot: whom it asks.
            name: what the conversation is called, if this is its first message.
            content: the message as it came.
            sources: those that the answer names, as JSON.
            done: what was done for the key of the request.
        """
        created_at = now()

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO conversation (public_id, bot, name, created_at) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (message.conversation_id, bot, name, created_at),
            )
            connection.execute(
                "INSERT INTO message (public_id, conversation, question, answer, sources,"
                " created_at) SELECT ?, id, ?, ?, ?, ? FROM conversation WHERE public_id = ?",
                (message.id, content, message.answer, sources, created_at, message.conversation_id),
            )
            if done is not None:
                done.store(connection, created_at)

        return self._database.write(insert)
