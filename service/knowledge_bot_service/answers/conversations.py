"""Conversations that the service stores, and the question of a message in one."""

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from knowledge_bot.transcripts import Turn, read
from knowledge_bot_service.answers.prompts import question_in, refines, told_in
from knowledge_bot_service.config.refusals import UnknownError
from knowledge_bot_service.config.storage import StorageError
from knowledge_bot_service.store.database import ServiceDatabase
from knowledge_bot_service.store.idempotency import Done

# How many earlier exchanges a question is understood with, of how many turns at most: those of an
# agent have a question, a call, its result and an answer.
CONTEXT_EXCHANGES: Final = 4
_CONTEXT_TURNS: Final = 4 * CONTEXT_EXCHANGES

# How much of an earlier question or reply counts, in characters: the result of a tool may be a
# whole book.
_CONTEXT_CHARACTERS: Final = 4000

# Most messages kept in memory because they could not be stored; each may be a long transcript.
_MOST_UNSTORED: Final = 200

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


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it is stored, with the answer to it.

    Attributes:
        id: its id.
        bot: whom it asks.
        conversation: the id of its conversation.
        name: what the conversation is called, if this is its first.
        content: the message as it came.
        answer: the answer's text.
        sources: those that the answer names, as JSON.
        created_at: in milliseconds since 1970.
        done: what was done for the key of the request.
    """

    id: str
    bot: str
    conversation: str
    name: str
    content: str
    answer: str
    sources: str
    created_at: int
    done: Done | None = None

    def insert(self, connection: sqlite3.Connection) -> None:
        """Store it, in the caller's transaction, and its conversation if it is the first."""
        connection.execute(
            "INSERT INTO conversation (public_id, bot, name, created_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (self.conversation, self.bot, self.name, self.created_at),
        )
        connection.execute(
            "INSERT INTO message (public_id, conversation, question, answer, sources, created_at)"
            " VALUES (?, (SELECT id FROM conversation WHERE public_id = ?), ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (
                self.id,
                self.conversation,
                self.content,
                self.answer,
                self.sources,
                self.created_at,
            ),
        )
        if self.done is not None:
            self.done.store(connection, self.created_at)


class ConversationStore:
    """The conversations of a service, on its database. Times are integer milliseconds since 1970.

    Args:
        database: where everything is kept.
    """

    def __init__(self, database: ServiceDatabase) -> None:
        self._database = database
        self._unstored: dict[str, StoredMessage] = {}

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
        rows = self._database.reader().execute(
            "SELECT id AS number, public_id AS id, name, created_at FROM conversation"
            " WHERE bot = ? AND (? IS NULL OR conversation.id < ?)"
            " ORDER BY conversation.id DESC LIMIT ?",
            (bot, before, before, limit + 1),
        )
        return _page(rows.fetchall(), limit)

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
        rows = self._database.reader().execute(
            "SELECT id AS number, public_id AS id, question, answer, sources, created_at"
            " FROM message WHERE conversation = (SELECT id FROM conversation WHERE public_id = ?)"
            " AND (? IS NULL OR message.id < ?) ORDER BY message.id DESC LIMIT ?",
            (conversation, before, before, limit + 1),
        )
        page = _page(rows.fetchall(), limit)
        for message in page.rows:
            message["question"] = read(message["question"]).question
            message["sources"] = json.loads(message["sources"] or "null")
        return page

    def exists(self, bot: str, conversation: str) -> bool:
        """Whether the conversation exists and is this bot's."""
        row = self._database.reader().execute(
            "SELECT 1 FROM conversation WHERE public_id = ? AND bot = ?", (conversation, bot)
        )
        return row.fetchone() is not None or any(
            (one.bot, one.conversation) == (bot, conversation) for one in self._kept()
        )

    def turns(self, conversation: str) -> list[Turn]:
        """What was said last in a conversation, oldest first, as far as questions need it.

        A message that is a transcript gives its turns.
        """
        rows = self._database.reader().execute(
            "SELECT question, answer FROM message WHERE conversation ="
            " (SELECT id FROM conversation WHERE public_id = ?) ORDER BY id DESC LIMIT ?",
            (conversation, CONTEXT_EXCHANGES),
        )
        said = [(row["question"], row["answer"]) for row in rows.fetchall()[::-1]]
        said += [
            (one.content, one.answer) for one in self._kept() if one.conversation == conversation
        ]
        return [
            turn
            for question, answer in said[-CONTEXT_EXCHANGES:]
            for turn in (*read(question).turns, Turn("assistant", answer))
        ]

    def done_for(self, key: str) -> Done | None:
        """What was done for a request's key, if that could not be stored."""
        kept = (one.done for one in self._kept())
        return next((done for done in kept if done is not None and done.key == key), None)

    def _kept(self) -> list[StoredMessage]:
        # In one step, since the writer's thread changes it.
        return list(self._unstored.values())

    def add(self, message: StoredMessage) -> Future[None]:
        """Store a message.

        Where the disk or the database takes nothing, an answer is still better than none: the
        message is kept in memory, where its conversation goes on, and stored with a later one.
        """
        answered: Future[None] = Future()

        def settle(done: Future[None]) -> None:
            error = done.exception()
            if error is None or isinstance(error, StorageError):
                answered.set_result(None)
            else:
                answered.set_exception(error)

        self._store([message]).add_done_callback(settle)
        return answered

    def store_kept(self) -> None:
        """Try to store the messages that could not be stored so far."""
        if self._unstored:
            with contextlib.suppress(StorageError):
                self._store([]).result()

    def _store(self, messages: Sequence[StoredMessage]) -> Future[None]:
        waiting = [*self._kept(), *messages]

        def insert(connection: sqlite3.Connection) -> None:
            for one in waiting:
                one.insert(connection)

        def settle(done: Future[None]) -> None:
            if isinstance(done.exception(), StorageError):
                self._unstored.update((one.id, one) for one in messages)
                while len(self._unstored) > _MOST_UNSTORED:
                    del self._unstored[next(iter(self._unstored))]
            else:
                for one in waiting:
                    self._unstored.pop(one.id, None)

        stored = self._database.write(insert)
        stored.add_done_callback(settle)
        return stored


def _page(rows: Sequence[sqlite3.Row], limit: int) -> RowPage:
    following = rows[limit - 1]["number"] if len(rows) > limit else None
    shown = [dict(row) for row in rows[:limit]]
    for row in shown:
        del row["number"]
    return RowPage(shown, following)
