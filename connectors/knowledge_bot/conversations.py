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
  is answered with messages that are not in it, with one exception: a list whose beginning was
  removed goes on in its conversation, which holds it still.
- `Heads` remembers the heads: in this process alone, or in a database that several workers share.
  It keeps them; what becomes of one is decided here.

No class of a framework is used here: adapters turn their messages into `Said`, and store
`Reply.kept()` with the answer, from which `Place.of` restores its place. Where nothing can be
stored with a message, as in a list that comes over OpenAI's API, `Heads` recognises an answer by
all that was said up to it.
"""

import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from knowledge_bot._client import AsyncClient, Client
from knowledge_bot._heads import Head, Heads, HeadsError
from knowledge_bot.errors import ConfigurationError, Delivery, KnowledgeBotError
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

History: TypeAlias = Literal["transcript", "latest", "error"]
"""What is sent where there is more than a question: all of it as one text, the newest question
alone, or nothing."""

OnFork: TypeAlias = Literal["new", "error"]
"""Where a fork is sent: into a new conversation, or nowhere."""

ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""Roles by the names that chat APIs have for them."""

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
        id: its message's, `msg_…`, where the framework kept that of an answer and lost its place.
        unreadable: what of it is not text, such as "message 2 holds an image", where its text has a
            `placeholder`; empty where all is text. Such a message may be history, but no question.
    """

    role: Role
    text: str
    name: str | None = None
    place: Place | None = None
    unreadable: str = ""
    id: str | None = None

    @property
    def digest(self) -> str:
        """A digest of role and text; frameworks and windows strip what they show and hand back."""
        said = f"{self.role}\0{self.text.strip()}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(said, digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and the list that it answers.

    Attributes:
        message: the service's answer.
        messages: the list.
        heard: how many of them its conversation held before.
        text: the answer as the list will hold it, cut before the first of `Conversations.stop`.
    """

    message: Message
    messages: Sequence[Said]
    heard: int
    text: str

    def kept(self) -> dict[str, Any]:
        """Return what to store with the answer, for `Place.of`, as plain JSON.

        Returns:
            `conversation_id`, `message_id` and `digests`.
        """
        answer = Said("assistant", self.text)
        system, turns = _digests(self.messages)
        heard = sum(message.role != "system" for message in self.messages[: self.heard])
        digests = {"system": system, "turns": [*turns[heard:], answer.digest]}
        return {
            "conversation_id": self.message.conversation_id,
            "message_id": self.message.id,
            "digests": digests,
        }


def placeholder(kind: str, name: object = None) -> str:
    """Return what stands in a text for what is not text, such as `[image]` and `[file a.csv]`.

    Args:
        kind: what it is, by any provider's name: `image_url`, `input_audio`.
        name: a file's name, if it has one.
    """
    kind = kind.removeprefix("input_").removesuffix("_url")
    words = " ".join(f"{kind[:40]} {name[:200] if isinstance(name, str) else ''}".split())
    return f" [{words}] "


def chosen_question(choose: Callable[[Any], object], messages: object) -> str:
    """Return the question of a framework's messages, by a function of the user's.

    Raises:
        ConfigurationError: it returns no text, or an empty one.
    """
    question = choose(messages)
    if not isinstance(question, str) or not question.strip():
        what = "an empty text" if isinstance(question, str) else type(question).__name__
        raise ConfigurationError.of(
            "question",
            f"the function that finds the question returned {what}; return what is asked. Nothing "
            "was sent",
        )
    return question


class ForkError(ConfigurationError):
    """The list goes on from an answer that is not its conversation's last. Nothing was sent."""


@dataclass(frozen=True)
class Conversations:
    """Asks a bot with lists of messages, each sent into the conversation that it continues.

    Attributes:
        heads: remember which answer is a conversation's last.
        history: what is sent where there is more than a question. "transcript": all of it, as one
            text (`knowledge_bot.transcripts`). "latest": what the user said last. "error": such a
            list is refused.
        on_fork: where a list is sent that continues from an answer which is not its conversation's
            last, or before which something was changed.
        recognise: for whom answers without a place are recognised by the whole list up to them: a
            name of the caller, such as a digest of a key. Only what was answered to the same caller
            is recognised, and a conversation that is known to be another's is not gone on in. None:
            nothing is recognised.
        stop: a text, or several, before the first of which answers are cut. The service sends whole
            answers, while the list goes on with what of them was shown.
    """

    heads: Heads
    history: History = "transcript"
    on_fork: OnFork = "new"
    recognise: str | None = None
    stop: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, choices in {"history": History, "on_fork": OnFork}.items():
            if (value := getattr(self, name)) not in (known := get_args(choices)):
                raise ConfigurationError.of(
                    name, f"expected one of {', '.join(known)}, not {value!r}"
                )

    def ask(
        self,
        client: Client,
        bot_id: str,
        messages: Sequence[Said],
        *,
        conversation_id: str | None = None,
        default: str | None = None,
        question: str | None = None,
    ) -> Reply:
        """Ask a bot with a list of messages, and wait for the answer.

        Args:
            client: what to ask with.
            bot_id: the bot, `bot_…`.
            messages: the list, oldest first.
            conversation_id: a conversation to go on in, `conv_…`; of the answers in the list, the
                newest one in it is then the anchor.
            default: the conversation of a list without an answer of the bot.
            question: what is sent in place of the user's last turn, such as the question alone
                where that turn is a whole prompt.

        Returns:
            The answer.

        Raises:
            ConfigurationError: there is nothing to send, or nowhere to send it; nothing was sent.
            ForkError: the same, where the list is a fork and `on_fork` is "error".
            HeadsError: shared heads cannot be read or written; nothing was sent.
            KnowledgeBotError: as `send_message`.
        """
        asking = self._begin(
            client.base_url, bot_id, messages, (conversation_id, default), question
        )
        while True:
            try:
                message = client.send_message(
                    bot_id=bot_id, content=asking.content, conversation_id=asking.continues
                )
            except BaseException as error:
                self._end(asking, error)
                if (fork := asking.instead(error)) is None:
                    raise
                asking = fork
            else:
                self._end(asking, message)
                return Reply(message, asking.messages, asking.heard, self._cut(message.answer))

    async def aask(
        self,
        client: AsyncClient,
        bot_id: str,
        messages: Sequence[Said],
        *,
        conversation_id: str | None = None,
        default: str | None = None,
        question: str | None = None,
    ) -> Reply:
        """Ask as `ask` does, without blocking; arguments, result and errors are the same."""
        asking = await self.heads.off_the_loop(
            self._begin, client.base_url, bot_id, messages, (conversation_id, default), question
        )
        while True:
            try:
                message = await client.send_message(
                    bot_id=bot_id, content=asking.content, conversation_id=asking.continues
                )
            except BaseException as error:
                await self.heads.off_the_loop(self._end, asking, error)
                if (fork := asking.instead(error)) is None:
                    raise
                asking = fork
            else:
                await self.heads.off_the_loop(self._end, asking, message)
                return Reply(message, asking.messages, asking.heard, self._cut(message.answer))

    def _begin(
        self,
        service: str,
        bot_id: str,
        messages: Sequence[Said],
        conversations: tuple[str | None, str | None],
        question: str | None,
    ) -> "_Asking":
        """Decide what is sent where, and take the turn there.

        Of the conversations the first is named, and the second goes for lists without an answer.
        """
        named, default = conversations
        given = messages
        if named is None:
            messages = self._recognised(service, bot_id, messages)
        at = _anchor(messages, named)
        content = self._content(messages[at + 1 :], question)
        place = messages[at].place if at >= 0 else None
        conversation_id = place.conversation_id if place is not None else named or default
        if conversation_id is None:  # a new one, whose turn nobody else can take
            if self.heads.shared:  # the answer will have to be recorded
                self.heads.check()
            return _Asking(service, bot_id, messages, 0, content)
        sender: dict[str, Any] = {
            "sender": secrets.token_hex(8),
            "content": Said("user", content).digest,
        }
        if place is None:
            self._join((service, conversation_id), sender)
        elif fork := self._fork(service, messages[: at + 1], place, sender):
            if self.on_fork == "error":
                raise ForkError.of(
                    "messages",
                    f'{fork}. Give the list as it was, or set on_fork="new" to send it '
                    "into a new conversation. Nothing was sent",
                )
            return _Asking(service, bot_id, messages, 0, self._content(messages, question))
        fork_ = None
        if messages is not given:  # nobody named it: where the service refuses it, it is a fork
            fork_ = _Asking(service, bot_id, given, 0, self._content(given, question))
        return _Asking(
            service, bot_id, messages, at + 1, content, conversation_id, sender["sender"], fork_
        )

    def _recognised(self, service: str, bot_id: str, messages: Sequence[Said]) -> Sequence[Said]:
        """Return a list with the place of its newest answer, if that is a head of the bot's.

        It is found by its message's id, where what others said before it is unchanged, or, where
        answers are recognised, by all that was said up to it.
        """
        at = len(messages) - 1
        while at >= 0 and messages[at].role != "assistant":
            at -= 1
        if at < 0 or messages[at].place is not None:
            return messages
        by_all = self.recognise and self._digest_of(bot_id, messages[: at + 1])
        for token in filter(None, (messages[at].id, by_all)):
            found = self.heads.find(service, token)
            if found is None:
                continue
            conversation_id, head = found
            if token != head.answer or head.asked == _asked_in(bot_id, messages[:at]):
                place = Place(conversation_id, head.answer)
                return [*messages[:at], replace(messages[at], place=place), *messages[at + 1 :]]
        return messages

    def _join(self, thread: tuple[str, str], sender: dict[str, Any]) -> None:
        """Take the next turn in a conversation, whatever came before."""

        def join(head: Head | None) -> Head:
            self._check_whose(head)
            if head is not None and head.lost and head.content == sender["content"]:
                raise ConfigurationError.of(
                    "messages",
                    "this very message was sent into the conversation before, and no answer came; "
                    "the service may have received it, so it is not sent there again. Send it "
                    "without the conversation's id, or something else first",
                )
            return (head or Head(None))._replace(lost=False, **sender)

        self.heads.change(thread, join)

    def _fork(
        self, service: str, before: Sequence[Said], place: Place, sender: dict[str, Any]
    ) -> str:
        """Take the turn after an answer; return why that failed, empty where it did not."""
        if not _is_unchanged(before, place):
            return "something before the bot's last answer in this list was changed since"
        free = Head(place.message_id)

        def take(head: Head | None) -> Head | None:
            self._check_whose(head)
            if head is None:
                head = None if self.heads.shared else free
            if head is None or (head.sender is not None or head.answer != free.answer):
                return head  # after a broken connection, its own claim may be written already
            return head._replace(**sender)

        taken = self.heads.change((service, place.conversation_id), take)
        if taken is not None and taken.sender == sender["sender"]:
            return ""
        reason = f"{place.conversation_id} has gone on since the bot's last answer in this list"
        return f"{reason}, or is not known to {self.heads}" if self.heads.shared else reason

    def _content(self, messages: Sequence[Said], asked: str | None) -> str:
        """Return what is sent of some messages; the last turn asks what it says, or `asked`."""
        spoken = [message for message in messages if message.text.strip()]
        # Without a message of the user's, another agent or a tool speaks to the bot.
        roles = {message.role for message in spoken}
        asking = {"user"} if "user" in roles else {"assistant", "tool"}
        end = len(spoken)
        while end and spoken[end - 1].role not in asking:
            end -= 1
        if not end:
            why = "there are system texts alone" if spoken else "there is no text to send"
            raise ConfigurationError.of(
                "messages", f"{why}. End the list with a question. Nothing was sent"
            )
        if asked is None and (unreadable := spoken[end - 1].unreadable):
            raise ConfigurationError.of(
                "messages",
                f"{unreadable}, and bots only read text (interface section 4). Put into words what "
                "it shows, or add the file to a collection of the bot and ask about it. Nothing "
                "was sent",
            )
        question = Turn("user", spoken[end - 1].text if asked is None else asked)
        # After the question may come instructions, and what tools and other models said to it;
        # before it what the user asked and nobody answered, such as a turn that failed.
        others = [*spoken[: end - 1], *spoken[end:]]
        if self.history == "latest" or not others:
            return render([question])
        if self.history == "error":
            found = sorted({message.role for message in others})
            raise ConfigurationError.of(
                "messages",
                f"besides the question there are messages of {', '.join(found)}, which "
                'the service has no place for. Leave them out, or set history="transcript" to send '
                "them as text. Nothing was sent",
            )
        return render([*map(_turn, others), question])

    def _end(self, asking: "_Asking", outcome: Message | BaseException) -> None:
        """Give the turn back."""
        message = outcome if isinstance(outcome, Message) else None
        conversation_id = (message and message.conversation_id) or asking.continues
        if conversation_id is None:
            return
        lost, answered = False, None
        if message is None:
            lost = getattr(outcome, "delivery", Delivery.UNKNOWN) is Delivery.UNKNOWN
        else:
            said = [*asking.messages, Said("assistant", self._cut(message.answer))]
            recognised = None if self.recognise is None else self._digest_of(asking.bot_id, said)
            asked = _asked_in(asking.bot_id, asking.messages)
            answered = Head(message.id, said=recognised, asked=asked)

        def end(head: Head | None) -> Head | None:
            if head is None or head.sender != asking.sender:  # nobody's, or another's turn
                return head or answered
            if lost:  # it may have been sent, and no answer will come
                return head._replace(lost=True)
            before = None if head.answer is None else head._replace(sender=None, content=None)
            return answered or before

        try:
            self.heads.change((asking.service, conversation_id), end)
        except HeadsError as failure:
            # The answer must not be lost over this. The turn stays taken, so whoever continues this
            # conversation is sent into a new one.
            _logger.warning("The turn in %s is not given back: %s", conversation_id, failure)

    def _cut(self, answer: str) -> str:
        stop = filter(None, [self.stop] if isinstance(self.stop, str) else self.stop)
        ends = (at for at in map(answer.find, stop) if at >= 0)
        return answer[: min(ends, default=len(answer))]

    def _digest_of(self, bot_id: str, messages: Sequence[Said]) -> str:
        """Return a digest of a bot's list that begins with one of the caller."""
        return self._whose + _digest_of(bot_id, messages)

    @property
    def _whose(self) -> str:
        return hashlib.blake2b((self.recognise or "").encode(), digest_size=8).hexdigest()

    def is_anothers(self, service: str, conversation_id: str) -> bool:
        """Return whether a conversation is known to be another caller's.

        Args:
            service: the service's address.
            conversation_id: the conversation there.

        Raises:
            HeadsError: shared heads cannot be read.
        """
        return self._is_anothers(self.heads.change((service, conversation_id), lambda head: head))

    def _is_anothers(self, head: Head | None) -> bool:
        said = None if head is None or self.recognise is None else head.said
        return said is not None and not said.startswith(self._whose)

    def _check_whose(self, head: Head | None) -> None:
        if self.recognise is not None and self._is_anothers(head):
            raise ConfigurationError.of(
                "conversation_id",
                "there is no such conversation of this caller's. Nothing was sent",
            )


@dataclass(frozen=True, slots=True)
class _Asking:
    """A list on its way to a bot.

    Attributes:
        service: the address that it is sent to.
        bot_id: the bot there.
        messages: the list.
        heard: how many of them the conversation holds.
        content: what is sent.
        continues: the conversation that it continues; None starts a new one.
        sender: who has the turn there; empty in a new one.
        fork: what is sent where the service refuses that conversation; None: nothing.
    """

    service: str
    bot_id: str
    messages: Sequence[Said]
    heard: int
    content: str
    continues: str | None = None
    sender: str = ""
    fork: "_Asking | None" = None

    def instead(self, error: BaseException) -> "_Asking | None":
        """Return what is sent after an error; None where it is raised."""
        refused = isinstance(error, KnowledgeBotError) and error.delivery is Delivery.REFUSED
        return self.fork if refused and not getattr(error, "may_pass", False) else None


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
    system = [message.digest for message in messages if message.role == "system"]
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


def _asked_in(bot_id: str, messages: Sequence[Said]) -> str:
    """Return a digest of what others than the bot said to it."""
    return _digest_of(bot_id, [message for message in messages if message.role != "assistant"])


def _digest_of(bot_id: str, messages: Sequence[Said]) -> str:
    text = "".join((bot_id, *(message.digest for message in messages)))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
