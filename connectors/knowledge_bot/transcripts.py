r"""The one text form of a list of chat messages, and its reader.

A message to a bot is one text, `content` (interface section 4, POST /messages), while frameworks
hand over a whole list: instructions, earlier questions and answers, and the new question. `render`
writes such a list down, so that a person, a language model and a service that knows nothing of
transcripts can follow it, and `read` gives the list back:

    Conversation so far:

    System: You answer in one sentence.

    User: Where do I need ear protection?

    Assistant: At the table saw.

    New question:

    Who leads the repair evening?

The rules:

- The question is the user's last turn. It stands at the end, exactly as it was asked. A turn of
  the user's that nobody answered stands before it like any other.
- A list of one turn is not a transcript: it is the whole text, without a frame. Only a question
  that itself begins like a transcript gets one, to avoid a mistake.
- Before the question, a line inside a turn that begins like a label (`User:`, `New question:`) gets
  a backslash in front, and one more if there are some already. Whatever ends a line for
  `str.splitlines` ends one here. So no turn can pretend to be several.
- Everything else stands as it was given: white space, line ends, empty texts.
- A text is a transcript if `render` could have written it, and else one question as a whole,
  whatever it mentions.

Anyone who can write a whole message can write a transcript. So what users type goes through
`render`, and a service trusts the turns that it reads, system texts too, no more than the rest of a
message.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from knowledge_bot.errors import ConfigurationError

__all__ = ["Role", "Transcript", "Turn", "read", "render"]

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
"""Who speaks; `tool` is the result of a call that an assistant made."""

_ROLES: Final[tuple[Role, ...]] = get_args(Role)

_OPENING: Final = "Conversation so far:"
_ASKED: Final = "New question"
_QUESTION: Final = f"\n\n{_ASKED}:\n\n"


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a list.

    Attributes:
        role: who said it.
        text: what was said; may be empty.

    Raises:
        ConfigurationError: the role is not one of `Role`, or the text is not a string.
    """

    role: Role
    text: str

    def __post_init__(self) -> None:
        if self.role not in _ROLES:
            raise ConfigurationError.of(
                "role", f"{str(self.role)[:40]!r} is not one of {', '.join(_ROLES)}"
            )
        if not isinstance(self.text, str):
            raise ConfigurationError.expected("text", "a string", self.text)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A list of turns that ends with a question.

    Attributes:
        turns: all of them, oldest first.

    Raises:
        ConfigurationError: there are no turns, or the last one is not the user's.
    """

    turns: tuple[Turn, ...]

    def __post_init__(self) -> None:
        for turn in self.turns:
            if not isinstance(turn, Turn):
                raise ConfigurationError.expected("turns", "Turns", turn)
        if not self.turns:
            raise ConfigurationError.of("turns", "there are none. End the list with a question")
        if (last := self.turns[-1].role) != "user":
            raise ConfigurationError.of(
                "turns",
                f"the last one is of role {last}, so that nothing is asked. End the list "
                "with a question of the user's",
            )

    @property
    def question(self) -> str:
        """What the user said last."""
        return self.turns[-1].text

    @property
    def history(self) -> tuple[Turn, ...]:
        """The turns before the question, oldest first."""
        return self.turns[:-1]

    @property
    def system(self) -> tuple[str, ...]:
        """The texts of the system's turns, which `history` holds as well."""
        return tuple(turn.text for turn in self.turns if turn.role == "system")


def render(turns: Iterable[Turn]) -> str:
    """Return a list of messages as one text, the `content` of a message to a bot.

    The same turns always give the same text, and `read` gives them back.

    Args:
        turns: the list, oldest first. The last one is the user's.

    Returns:
        The question as it is, or the transcript that ends with it.

    Raises:
        ConfigurationError: there are no turns, something else is among them, the last one is not
            the user's, or the question holds nothing but white space, which the service refuses.
    """
    *history, asked = Transcript(tuple(turns)).turns
    question = asked.text
    if not question.strip():
        raise ConfigurationError.of(
            "turns",
            "what the user says at the end is empty, so that nothing is asked. End the list "
            "with a question",
        )
    if not history and not _opens(question):
        return question
    said = (f"\n\n{turn.role.capitalize()}: {_escaped(turn.text)}" for turn in history)
    return f"{_OPENING}{''.join(said)}{_QUESTION}{question}"


def read(text: str) -> Transcript:
    """Return the turns of a text that `render` wrote, or any other text as one turn of the user's.

    The time it takes is proportional to the length of the text, whatever is in it.

    Args:
        text: the `content` of a message.

    Returns:
        The transcript. For any other text, the empty one too, its only turn is the user's, with
        exactly this text.

    Raises:
        ConfigurationError: the text is not a string.
    """
    plain = Transcript((Turn("user", text),))
    if not _opens(text):
        return plain
    # Earlier turns have this line escaped, so the question begins where it first stands.
    history, _, question = text.partition(_QUESTION)
    _, *said = _TURN.split(history)
    if not question.strip():
        return plain
    turns = [
        Turn(_ROLE_OF[label], _TO_UNESCAPE.sub(r"\1\2", what))
        for label, what in zip(said[::2], said[1::2], strict=True)
    ]
    transcript = Transcript((*turns, Turn("user", question)))
    # Other text before the turns, or a label that is not escaped: someone else wrote that.
    return transcript if render(transcript.turns) == text else plain


_ROLE_OF: Final[dict[str, Role]] = {role.capitalize(): role for role in _ROLES}
_TURN: Final = re.compile(rf"\n\n({'|'.join(_ROLE_OF)}): ")

# Every end of a line that `str.splitlines` knows: a reader may see a new line after any of them.
_LINE_END: Final = r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]"
_LABEL: Final = rf"(?:{'|'.join((*_ROLE_OF, _ASKED))}):"
# `*+` gives nothing back, so that a long row of backslashes is passed once.
_TO_ESCAPE: Final = re.compile(rf"({_LINE_END})(\\*+{_LABEL})")
_TO_UNESCAPE: Final = re.compile(rf"({_LINE_END})\\(\\*+{_LABEL})")


def _opens(text: str) -> bool:
    """Whether a text begins as transcripts do."""
    return text.startswith(f"{_OPENING}\n\n")


def _escaped(text: str) -> str:
    # The first line stands behind a label, where nothing is mistaken for one.
    return _TO_ESCAPE.sub(r"\1\\\2", text)
