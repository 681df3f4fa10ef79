"""Which part of a message list is sent, and into which of the service's conversations.

A conversation is a thread on the server that every message changes (interface section 4, POST
/messages), and there is no way to look at it or to go back in it. A framework hands over a whole
list of messages instead, and continues, cuts or forks it at will. No class of a framework is used
here: `messages` makes `Turn`s of theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from knowledge_bot import ConfigurationError

History: TypeAlias = Literal["transcript", "latest", "error"]
"""What is sent of more than a person's messages: all of it, the newest question alone, or none."""

OnFork: TypeAlias = Literal["new", "continue", "error"]
"""What follows an answer that its conversation has gone on from: where it is sent."""


@dataclass(frozen=True, slots=True)
class Place:
    """An answer of the asked bot, as a place in a conversation."""

    conversation_id: str
    message_id: str | None


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a list.

    Attributes:
        speaker: who said it, as a transcript calls them.
        text: what was said; may be empty.
        is_human: whether a person said it.
        place: where the asked bot said it; None for everyone else's messages.
    """

    speaker: str
    text: str
    is_human: bool = False
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What is sent.

    Attributes:
        content: the message.
        conversation_id: the conversation that it continues; None starts a new one.
        after: the answer that it follows; None where the list holds none.
    """

    content: str
    conversation_id: str | None
    after: Place | None = None


def continued(
    turns: Sequence[Turn], history: History, *, named: str | None, default: str | None
) -> Outgoing:
    """Return what a list adds to its conversation.

    The bot's newest answer in the list is the anchor: what stands before it was sent already, so
    only what follows it is sent, into its conversation.

    Args:
        turns: the list.
        history: what is sent of more than a person's messages.
        named: a conversation that the caller names; the anchor is then the newest answer in it.
        default: the conversation of a list without an anchor.

    Raises:
        ConfigurationError: there is nothing to send, or `history` forbids it.
    """
    for index in range(len(turns) - 1, -1, -1):
        place = turns[index].place
        if place is not None and named in (None, place.conversation_id):
            return Outgoing(_rendered(turns[index + 1 :], history), place.conversation_id, place)
    return Outgoing(_rendered(turns, history), named or default)


def anew(turns: Sequence[Turn], history: History) -> Outgoing:
    """Return a whole list as the start of a new conversation; raises as `continued` does."""
    return Outgoing(_rendered(turns, history), None)


def _rendered(turns: Sequence[Turn], history: History) -> str:
    spoken = [turn for turn in turns if turn.text.strip()]
    if history == "latest":
        spoken = _newest_question(spoken)
    if not spoken:
        raise ConfigurationError(
            "messages: there is nothing to send after the bot's last answer. End the list with a "
            "question"
        )
    if all(turn.is_human for turn in spoken):
        return "\n\n".join(turn.text for turn in spoken)
    if history == "error":
        others = sorted({turn.speaker for turn in spoken if not turn.is_human})
        raise ConfigurationError(
            f"messages: besides a person's messages there are some of {', '.join(others)}, which "
            'the service has no place for. Leave them out, or set history="transcript" to send '
            "them as text"
        )
    return "\n\n".join(f"{turn.speaker}: {turn.text}" for turn in spoken)


def _newest_question(turns: Sequence[Turn]) -> list[Turn]:
    question: list[Turn] = []
    for turn in reversed(turns):
        if turn.is_human:
            question.insert(0, turn)
        elif question:
            break
    return question
