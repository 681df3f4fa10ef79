"""Which of the service's conversations a list of messages goes on in, and what of it is sent.

A conversation is a thread on the server that every message changes (interface section 4, POST
/messages), and there is no way to look at it or to go back in it. A framework hands over a whole
list of messages instead, and continues, edits, cuts or forks it at will. `Conversations` brings the
two together:

- The newest answer of the bot in a list is its anchor. What stands before it was sent already, so
  only what follows is sent, into the anchor's conversation.
- A conversation's last answer is its head. Of several lists that continue from the same answer only
  one gets the conversation; the others are forks, as is a list in which something before the
  anchor was changed. By default a fork is sent as a whole into a new conversation, so that no list
  is answered with messages that are not in it.
- `Heads` remembers the heads: in this process alone, or in a database that several workers share.

No class of a framework is used here: adapters turn their messages into `Said`, and store
`Reply.kept()` with the answer, from which `Place.of` restores its place. Where nothing can be
stored with a message, as in a list that comes over OpenAI's API, `Heads` recognises an answer by
all that was said up to it.
"""

import asyncio
import hashlib
import logging
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from knowledge_bot._client import AsyncClient, Client
from knowledge_bot._database import Connection, Database, DatabaseError, Session
from knowledge_bot._endpoints import check_number
from knowledge_bot.errors import ConfigurationError, Delivery
from knowledge_bot.models import Message
from knowledge_bot.transcripts import Role, Turn, render

__all__ = [
    "Conversations",
    "ForkError",
    "Heads",
    "HeadsError",
    "History",
    "OnFork",
    "Place",
    "Reply",
    "Said",
]

History: TypeAlias = Literal["transcript", "latest", "replay", "error"]
"""What is sent where there is more than a question: all of it as one text, the newest question
alone, the user's turns one by one, or nothing."""

OnFork: TypeAlias = Literal["new", "continue", "error"]
"""Where a fork is sent: into a new conversation, into the old one all the same, or nowhere."""

T = TypeVar("T")

ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""Roles by the names that chat APIs have for them."""

_DAY: Final = 86_400  # seconds

_logger = logging.getLogger("knowledge_bot.conversations")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a bot gave an answer.

    Attributes:
        conversation_id: the conversation, `conv_…`.
        message_id: the answer's message, `msg_…`; None where it was not stored.
        system: digests of the system's turns before it.
        turns: digests of the others since the answer before it in this conversation, and its own;
            None where they were not stored, so that changes go unnoticed.
    """

    conversation_id: str
    message_id: str | None = None
    system: tuple[str, ...] = ()
    turns: tuple[str, ...] | None = None

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Self | None:
        """Restore a place from what `Reply.kept` returned; None where it names no conversation.

        Args:
            kept: that mapping, perhaps with other keys, read from JSON, or altered.
        """
        conversation_id, message_id = kept.get("conversation_id"), kept.get("message_id")
        if not isinstance(conversation_id, str) or not conversation_id:
            return None
        digests = kept.get("digests")
        digests = digests if isinstance(digests, Mapping) else {}
        system, turns = (digests.get(name) for name in ("system", "turns"))
        return cls(
            conversation_id,
            message_id if isinstance(message_id, str) else None,
            tuple(map(str, system)) if isinstance(system, list | tuple) else (),
            tuple(map(str, turns)) if isinstance(turns, list | tuple) else None,
        )


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a list.

    Attributes:
        role: who said it.
        text: what was said; may be empty.
        name: the speaker's name, which a transcript shows beside the role.
        place: where the bot that is asked said it; None for everyone else's messages.
    """

    role: Role
    text: str
    name: str | None = None
    place: Place | None = None

    @property
    def digest(self) -> str:
        """A digest of role and text."""
        return _digest(f"{self.role}\0{self.text}")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and the list that it answers.

    Attributes:
        message: the service's answer.
        messages: the list.
        heard: how many of them its conversation held before.
    """

    message: Message
    messages: Sequence[Said]
    heard: int

    def kept(self, text: str | None = None) -> dict[str, Any]:
        """Return what to store with the answer, for `Place.of`, as plain JSON.

        Args:
            text: the answer as the list will hold it, where that is not the whole one.

        Returns:
            `conversation_id`, `message_id` and `digests`.
        """
        answer = Said("assistant", self.message.answer if text is None else text)
        system, _ = _digests(self.messages)
        _, turns = _digests(self.messages[self.heard :])
        return {
            "conversation_id": self.message.conversation_id,
            "message_id": self.message.id,
            "digests": {"system": system, "turns": [*turns, answer.digest]},
        }


class HeadsError(DatabaseError):
    """The heads of conversations cannot be read or written. Nothing was sent."""


class ForkError(ConfigurationError):
    """The list goes on from an answer that is not its conversation's last. Nothing was sent."""


class Heads:
    """The last answer of each conversation, as far as it is known here.

    The service cannot be asked for it. Without an address, an object knows what went through it,
    and takes the list's word for conversations it has not seen. With an address, all that have the
    same one share what they know: workers, machines, and the same process after a restart. There, a
    list that continues an unknown conversation is a fork, so no list is ever answered with messages
    that are not in it.

    May be shared between threads and event loops, and used in children of `os.fork`. A pickle of it
    holds the address, and with it perhaps a password.

    Args:
        address: `sqlite:///file`, `postgresql://…`, or the path of a SQLite file; a ledger may be
            in the same database. None: in this object alone.
        remembered: without an address, how many conversations are remembered; the least recently
            used is forgotten first.
        days: with an address, after how many days without a message a conversation is forgotten.

    Raises:
        HeadsError: the address cannot be used. From a call: the database cannot be read or written.
        ConfigurationError: a number cannot be used, or the address is neither text nor a path.
    """

    def __init__(
        self,
        address: str | os.PathLike[str] | None = None,
        *,
        remembered: int = 10_000,
        days: int = 400,
    ) -> None:
        if not isinstance(address, str | os.PathLike | None):
            raise ConfigurationError(
                "heads: expected Heads, their address (sqlite:///file or postgresql://…) or the "
                f"path of a SQLite file, not {type(address).__name__}"
            )
        check_number("remembered", remembered, 1, whole=True)
        check_number("days", days, 1, whole=True)
        self._made_of = (address, remembered, days)
        self._store: _Store = (
            _MemoryStore(remembered)
            if address is None
            else _DatabaseStore(_HeadsDatabase.of(address), days)
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _heads, self._made_of

    @classmethod
    def of(cls, client: Client) -> "Heads":
        """Return the heads of a client's conversations in this process.

        Args:
            client: each has heads of its own, which are dropped with it.
        """
        with _of_clients_lock:
            heads = _of_clients.get(client)
            if heads is None:
                heads = _of_clients[client] = cls()
            return heads

    @property
    def shared(self) -> bool:
        """Whether a database holds them, so that calls may take some milliseconds."""
        return self._store.shared

    def check(self) -> None:
        """Check that they can be read.

        Raises:
            HeadsError: they cannot.
        """
        self._store.find("", "")

    def _take(self, thread: "_Thread", after: str | None, message: "_Sending") -> bool:
        """Take the turn after an answer; False where the conversation has gone on from it."""
        taken = False

        def take(head: _Head | None) -> _Head | None:
            nonlocal taken
            head = head if head is not None or self.shared else _Head(after)
            # After a broken connection, it may meet its own claim, already written.
            taken = head is not None and (
                head.sender == message.sender or (head.answer == after and head.sender is None)
            )
            return head._replace(**message._asdict()) if head is not None and taken else head

        self._store.change(thread, take)
        return taken

    def _join(self, thread: "_Thread", message: "_Sending") -> None:
        """Take the next turn, whatever came before."""

        def join(head: _Head | None) -> _Head:
            if head is not None and head.lost and head.content == message.content:
                raise ConfigurationError(
                    "messages: this very message was sent into the conversation before, and no "
                    "answer came; the service may have received it, so it is not sent there again. "
                    "Send it without the conversation's id, or something else first"
                )
            before = _Head(None) if head is None else head
            return before._replace(lost=False, **message._asdict())

        self._store.change(thread, join)

    def _find(self, service: str, said: str) -> Place | None:
        """Return the place of the head with this digest of all that was said; of several, any."""
        return self._store.find(service, said)

    def _answered(
        self, thread: "_Thread", sender: str, answer: str, said: str | None = None
    ) -> None:
        """Give the turn back after an answer, unless somebody else has taken it meanwhile."""
        head = _Head(answer, said=said)
        self._settle(thread, sender, lambda _: head, else_=head)

    def _refused(self, thread: "_Thread", sender: str) -> None:
        """Give the turn back, as if nothing had been sent."""

        def before(head: _Head) -> _Head | None:
            return None if head.answer is None else _Head(head.answer, said=head.said)

        self._settle(thread, sender, before)

    def _lost(self, thread: "_Thread", sender: str) -> None:
        """Note that a message may have been sent, and that no answer will come."""
        self._settle(thread, sender, lambda head: head._replace(lost=True))

    def _settle(
        self,
        thread: "_Thread",
        sender: str,
        settled: "Callable[[_Head], _Head | None]",
        *,
        else_: "_Head | None" = None,
    ) -> None:
        """Change a head whose turn is still the sender's; `else_` where there is none."""

        def settle(head: _Head | None) -> _Head | None:
            if head is None:
                return else_
            return settled(head) if head.sender == sender else head

        self._store.change(thread, settle)


def _heads(address: Any, remembered: int, days: int) -> Heads:
    return Heads(address, remembered=remembered, days=days)


_of_clients: "WeakKeyDictionary[Client, Heads]" = WeakKeyDictionary()
_of_clients_lock = threading.Lock()


@dataclass(frozen=True)
class Conversations:
    """Asks a bot with lists of messages, each sent into the conversation that it continues.

    Attributes:
        heads: remember which answer is a conversation's last.
        history: what is sent where there is more than a question. "transcript": all of it, as one
            text (`knowledge_bot.transcripts`). "latest": what the user said last. "replay": the
            user's turns one by one, each a message of its own; the last one's answer counts.
            "error": such a list is refused.
        on_fork: where a list is sent that continues from an answer which is not its conversation's
            last, or before which something was changed.
        recognise: whether answers without a place are recognised by the whole list up to them.
    """

    heads: Heads
    history: History = "transcript"
    on_fork: OnFork = "new"
    recognise: bool = False

    def ask(
        self,
        client: Client,
        bot_id: str,
        messages: Sequence[Said],
        *,
        conversation_id: str | None = None,
        default: str | None = None,
    ) -> Reply:
        """Ask a bot with a list of messages, and wait for the answer.

        Args:
            client: what to ask with.
            bot_id: the bot, `bot_…`.
            messages: the list, oldest first.
            conversation_id: a conversation to go on in, `conv_…`; of the answers in the list, the
                newest one in it is then the anchor.
            default: the conversation of a list without an answer of the bot.

        Returns:
            The answer.

        Raises:
            ConfigurationError: there is nothing to send, or nowhere to send it; nothing was sent.
            ForkError: the same, where the list is a fork and `on_fork` is "error".
            HeadsError: shared heads cannot be read or written; nothing was sent.
            KnowledgeBotError: as `send_message`. Where `history` is "replay", messages before the
                one that failed are in the conversation.
        """
        service = client.base_url
        exchange = self._begin(service, bot_id, messages, conversation_id, default)
        try:
            for content in exchange.contents:
                exchange.message = client.send_message(
                    bot_id=bot_id, content=content, conversation_id=exchange.conversation_id
                )
        except BaseException as error:
            self._end(service, exchange, error)
            raise
        self._end(service, exchange)
        return exchange.reply

    async def aask(
        self,
        client: AsyncClient,
        bot_id: str,
        messages: Sequence[Said],
        *,
        conversation_id: str | None = None,
        default: str | None = None,
    ) -> Reply:
        """Ask as `ask` does, without blocking; arguments, result and errors are the same."""
        service = client.base_url
        exchange = await self._off_the_loop(
            self._begin, service, bot_id, messages, conversation_id, default
        )
        try:
            for content in exchange.contents:
                exchange.message = await client.send_message(
                    bot_id=bot_id, content=content, conversation_id=exchange.conversation_id
                )
        except BaseException as error:
            await self._off_the_loop(self._end, service, exchange, error)
            raise
        await self._off_the_loop(self._end, service, exchange)
        return exchange.reply

    async def _off_the_loop(self, work: Callable[..., T], *arguments: Any) -> T:
        if not self.heads.shared:  # takes microseconds
            return work(*arguments)
        return await asyncio.to_thread(work, *arguments)

    def _begin(
        self,
        service: str,
        bot_id: str,
        messages: Sequence[Said],
        named: str | None,
        default: str | None,
    ) -> "_Exchange":
        """Decide what is sent where, and take the turn there."""
        if self.recognise and named is None:
            messages = self._recognised(service, bot_id, messages)
        at = _anchor(messages, named)
        contents = self._contents(messages[at + 1 :])
        place = messages[at].place if at >= 0 else None
        conversation_id = place.conversation_id if place is not None else named or default
        if conversation_id is None:  # a new one, whose turn nobody else can take
            if self.heads.shared:  # the answer will have to be recorded
                self.heads.check()
            return _Exchange(bot_id, messages, 0, contents)
        sending = _Sending(secrets.token_hex(8), _digest("\n".join(contents)))
        if place is None:
            self.heads._join((service, conversation_id), sending)  # noqa: SLF001 - its only user
        elif fork := self._fork(service, messages[: at + 1], place, sending):
            if self.on_fork == "error":
                raise ForkError(
                    f'messages: {fork}. Give the list as it was, or set on_fork="new" to send it '
                    "into a new conversation. Nothing was sent"
                )
            if self.on_fork == "new":
                return _Exchange(bot_id, messages, 0, self._contents(messages))
            self.heads._join((service, conversation_id), sending)  # noqa: SLF001
        return _Exchange(bot_id, messages, at + 1, contents, conversation_id, sending.sender)

    def _recognised(self, service: str, bot_id: str, messages: Sequence[Said]) -> Sequence[Said]:
        """Return a list with the place of its newest answer, if that is a head of the bot's."""
        at = len(messages) - 1
        while at >= 0 and messages[at].role != "assistant":
            at -= 1
        if at < 0 or messages[at].place is not None:
            return messages
        found = self.heads._find(service, _digest_of(bot_id, messages[: at + 1]))  # noqa: SLF001
        if found is None:
            return messages
        return [*messages[:at], replace(messages[at], place=found), *messages[at + 1 :]]

    def _fork(self, service: str, before: Sequence[Said], place: Place, sending: "_Sending") -> str:
        """Take the turn after an answer; return why that failed, empty where it did not."""
        if not _is_unchanged(before, place):
            return "something before the bot's last answer in this list was changed since"
        thread = (service, place.conversation_id)
        if self.heads._take(thread, place.message_id, sending):  # noqa: SLF001 - its only user
            return ""
        reason = f"{place.conversation_id} has gone on since the bot's last answer in this list"
        return f"{reason}, or is not known to {self.heads}" if self.heads.shared else reason

    def _contents(self, messages: Sequence[Said]) -> list[str]:
        """Return what is sent of some messages."""
        spoken = [message for message in messages if message.text.strip()]
        # Without a message of the user's, another agent or a tool speaks to the bot.
        roles = {message.role for message in spoken}
        asking = {"user"} if "user" in roles else {"assistant", "tool"}
        end = len(spoken)
        while end and spoken[end - 1].role not in asking:
            end -= 1
        if not end:
            raise ConfigurationError(
                "messages: there is nothing to send after the bot's last answer. End the list with "
                "a question. Nothing was sent"
            )
        start = end - 1
        while start and asking == {"user"} == {spoken[start - 1].role}:
            start -= 1
        question = [Turn("user", message.text) for message in spoken[start:end]]
        # After the question may come instructions, and what tools and other models said to it.
        others = [*spoken[:start], *spoken[end:]]
        if self.history == "latest" or not others:
            return [render(question)]
        if self.history == "error":
            found = sorted({message.role for message in others})
            raise ConfigurationError(
                f"messages: besides the question there are messages of {', '.join(found)}, which "
                'the service has no place for. Leave them out, or set history="transcript" to send '
                "them as text. Nothing was sent"
            )
        if self.history == "replay":
            groups = groupby(spoken, key=lambda message: message.role == "user")
            return [
                render(Turn("user", message.text) for message in group)
                for is_user, group in groups
                if is_user
            ]
        return [render([*map(_turn, others), *question])]

    def _end(self, service: str, exchange: "_Exchange", error: BaseException | None = None) -> None:
        """Give the turn back."""
        conversation_id = exchange.conversation_id
        if conversation_id is None:
            return
        if exchange.continues is None and not self.recognise and not self.heads.shared:
            return  # for an unknown conversation the list's word is taken
        thread, sender = (service, conversation_id), exchange.sender
        unknown = getattr(error, "delivery", Delivery.UNKNOWN) is Delivery.UNKNOWN
        try:
            if error is not None and unknown:
                self.heads._lost(thread, sender)  # noqa: SLF001 - its only user
            elif exchange.message is not None:
                said = exchange.said if self.recognise else None
                self.heads._answered(thread, sender, exchange.message.id, said)  # noqa: SLF001
            else:
                self.heads._refused(thread, sender)  # noqa: SLF001
        except HeadsError as failure:
            # The answer must not be lost over this. The turn stays taken, so whoever continues this
            # conversation is sent into a new one.
            _logger.warning("The turn in %s is not given back: %s", conversation_id, failure)


@dataclass(slots=True)
class _Exchange:
    """A list that is being sent.

    Attributes:
        bot_id: the bot that it goes to.
        messages: the list.
        heard: how many of them the conversation holds.
        contents: what is sent.
        continues: the conversation that it continues; None starts a new one.
        sender: who has the turn there; empty in a new one.
        message: the last answer so far.
    """

    bot_id: str
    messages: Sequence[Said]
    heard: int
    contents: list[str]
    continues: str | None = None
    sender: str = ""
    message: Message | None = None

    @property
    def conversation_id(self) -> str | None:
        return self.continues if self.message is None else self.message.conversation_id

    @property
    def said(self) -> str | None:
        """A digest of all that was said up to the answer."""
        if self.message is None:
            return None
        return _digest_of(self.bot_id, [*self.messages, Said("assistant", self.message.answer)])

    @property
    def reply(self) -> Reply:
        assert self.message is not None  # noqa: S101 - there is something to send
        return Reply(self.message, self.messages, self.heard)


def _turn(message: Said) -> Turn:
    name = f"{message.name}: " if message.name else ""
    return Turn(message.role, f"{name}{message.text}")


def _anchor(messages: Sequence[Said], named: str | None) -> int:
    """Return where the bot's newest answer stands, in a conversation that is named; or -1."""
    for index in range(len(messages) - 1, -1, -1):
        place = messages[index].place
        if place is not None and named in (None, place.conversation_id):
            return index
    return -1


def _is_unchanged(messages: Sequence[Said], anchor: Place) -> bool:
    """Return whether messages up to the anchor are what was said, or the end of it."""
    system, _ = _digests(messages)
    rest = iter(anchor.system)
    if anchor.turns is not None and not all(one in rest for one in system):
        return False  # not even a subsequence
    since: list[str] = []
    is_cut = True  # frameworks cut the beginning off long lists
    for message in messages:
        if message.role != "system":
            since.append(message.digest)
        place = message.place
        if place is not None and place.conversation_id == anchor.conversation_id:
            said = None if place.turns is None else list(place.turns)
            if said is not None and since != (said[-len(since) :] if is_cut else said):
                return False
            since, is_cut = [], False
    return True


def _digests(messages: Sequence[Said]) -> tuple[list[str], list[str]]:
    """Return the digests of the system's turns, and those of the others."""
    system = [message.digest for message in messages if message.role == "system"]
    return system, [message.digest for message in messages if message.role != "system"]


def _digest_of(bot_id: str, messages: Sequence[Said]) -> str:
    """Return a digest of a bot's list."""
    text = "".join((bot_id, *(message.digest for message in messages)))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


_Thread: TypeAlias = tuple[str, str]
"""A service's address and the id of a conversation there."""


class _Sending(NamedTuple):
    """Who sends, and a digest of what."""

    sender: str
    content: str


class _Head(NamedTuple):
    """What is known of a conversation.

    Attributes:
        answer: the id of its last answer; None where that is not known.
        sender: who has the turn after it; None where nobody has.
        content: a digest of what is being sent.
        lost: whether it may have been sent, and no answer will come.
        said: a digest of all that was said up to the answer, where answers are recognised by it.
    """

    answer: str | None
    sender: str | None = None
    content: str | None = None
    lost: bool = False
    said: str | None = None


class _Store(Protocol):
    """Where heads are kept."""

    shared: bool
    name: str

    def change(self, thread: _Thread, change: Callable[[_Head | None], _Head | None]) -> None:
        """Replace a head in one step by what `change` makes of it; None stands for no head."""

    def find(self, service: str, said: str) -> Place | None:
        """Return the place of a head after which no message is under way."""


class _MemoryStore:
    shared = False
    name = ""

    def __init__(self, remembered: int) -> None:
        self._heads: OrderedDict[_Thread, _Head] = OrderedDict()
        self._of_said: dict[tuple[str, str], _Thread] = {}
        self._remembered = remembered
        self._lock = threading.Lock()

    def find(self, service: str, said: str) -> Place | None:
        with self._lock:
            thread = self._of_said.get((service, said))
            head = self._heads.get(thread) if thread is not None else None
        if thread is None or head is None or head.said != said or head.sender is not None:
            return None
        return Place(thread[1], head.answer)

    def change(self, thread: _Thread, change: Callable[[_Head | None], _Head | None]) -> None:
        with self._lock:
            before = self._heads.get(thread)
            head = change(before)
            self._forget(thread, before)
            if head is None:
                return
            self._heads[thread] = head  # as the newest
            if head.said is not None:
                self._of_said[thread[0], head.said] = thread
            if len(self._heads) > self._remembered:
                self._forget(*next(iter(self._heads.items())))

    def _forget(self, thread: _Thread, head: _Head | None) -> None:
        self._heads.pop(thread, None)
        if head is not None and head.said is not None:
            of_said = (thread[0], head.said)
            if self._of_said.get(of_said) == thread:
                del self._of_said[of_said]


class _HeadsDatabase(Database):
    """The database of shared heads."""

    noun = "store of heads"
    error = HeadsError
    busy = 0.5
    tables = """
CREATE TABLE kbot_heads (
    service TEXT NOT NULL,
    conversation TEXT NOT NULL,
    answer TEXT,                  -- the id of the last one
    sender TEXT,                  -- who has the turn after it
    content TEXT,                 -- a digest of what is being sent
    lost INTEGER NOT NULL,        -- 1: no answer to that will come
    said TEXT,                    -- a digest of all that was said up to the answer
    updated_at INTEGER NOT NULL,  -- Unix seconds
    PRIMARY KEY (service, conversation)
);
CREATE INDEX kbot_heads_updated ON kbot_heads (updated_at);
CREATE INDEX kbot_heads_said ON kbot_heads (said) WHERE said IS NOT NULL;
"""

    def version_of(self, connection: Connection) -> int:
        """Return 1 where a database has the table; what else is in it does not matter."""
        return int("kbot_heads" in connection.names())

    def check_replaced(self, *, there: bool) -> None:
        """Allow a new file: what it does not know is a fork."""


class _DatabaseStore:
    shared = True

    def __init__(self, database: _HeadsDatabase, days: int) -> None:
        self._session = Session(database, patience=3.0)  # a user is waiting for an answer
        self.name = repr(database.name)
        self._seconds = days * _DAY
        self._tidied = 0.0

    def change(self, thread: _Thread, change: Callable[[_Head | None], _Head | None]) -> None:
        def write(connection: Connection) -> None:
            with connection.transaction():
                found = connection.rows(_FIND if connection.sqlite else _FIND_AND_LOCK, *thread)
                before = None
                for answer, sender, content, lost, said in found:
                    before = _Head(answer, sender, content, bool(lost), said)
                after = change(before)
                if after is None:
                    connection.run(_REMOVE, *thread)
                elif after != before:
                    values = (after.answer, after.sender, after.content, int(after.lost))
                    connection.run(_WRITE, *thread, *values, after.said, int(time.time()))
                self._tidy(connection)

        self._session.do("used", write)

    def find(self, service: str, said: str) -> Place | None:
        def look(connection: Connection) -> list[Any]:
            return connection.rows(_FIND_SAID, service, said)

        found = self._session.do("used", look)
        return Place(*found[0]) if found else None

    def _tidy(self, connection: Connection) -> None:
        now = time.time()
        if now - self._tidied > _DAY:
            connection.run("DELETE FROM kbot_heads WHERE updated_at < ?", int(now - self._seconds))
            self._tidied = now


_FIND = (
    "SELECT answer, sender, content, lost, said FROM kbot_heads "
    "WHERE service = ? AND conversation = ?"
)
_FIND_SAID = (
    "SELECT conversation, answer FROM kbot_heads "
    "WHERE service = ? AND said = ? AND sender IS NULL ORDER BY updated_at DESC LIMIT 1"
)
_FIND_AND_LOCK = f"{_FIND} FOR UPDATE"
_REMOVE = "DELETE FROM kbot_heads WHERE service = ? AND conversation = ?"
_WRITE = (
    "INSERT INTO kbot_heads "
    "(service, conversation, answer, sender, content, lost, said, updated_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (service, conversation) DO UPDATE SET "
    "answer = excluded.answer, sender = excluded.sender, content = excluded.content, "
    "lost = excluded.lost, said = excluded.said, updated_at = excluded.updated_at"
)
