"""A bot's answer, read: its text, the sources it names, and whether anything was found.

The interface has one field for it all, `answer` (section 2, "Message answer"). A service may name
its sources as data too, in fields that the interface does not know: `sources`, a list of objects
with a `name` and perhaps the `passages` that were used, and `found`. Those fields win. Without
them the text is read as the embedded service writes it: the answer, an empty line, and `Sources: `
with the names.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from knowledge_bot.models import Message, Passage

SOURCES: Final = "\n\nSources: "

# Characters in which a refusal stands; further on, such words are about something else.
_A_BEGINNING: Final = 200

_REFUSAL: Final = re.compile(
    r"\b(?:i|we) (?:could not|couldn't|cannot|can not|can't|did not|didn't|(?:was|were) not able to"
    r"|(?:wasn't|weren't) able to|(?:am|was|were) unable to) (?:find|answer)\b"
    r"|\bi'm (?:unable|not able) to (?:find|answer)\b"
    r"|\b(?:i|we) (?:do not|don't) (?:know\b|have (?:any |enough |that |the )?information\b)"
    r"|\bthere (?:is|was) no information\b",
    re.IGNORECASE,
)

_BLANK: Final = re.compile(r"[^\S\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")


def alike(text: str) -> str:
    """Return a text so that those that read alike are alike: in NFC, each blank a space."""
    return _BLANK.sub(" ", unicodedata.normalize("NFC", text))


def folded(text: str) -> str:
    """Return what is `alike`, and without a difference of capitals: ß is ss."""
    return alike(alike(text).casefold())


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, of a bot or of any function.

    Attributes:
        text: all of it, as it came.
        listed: the names of its sources, where they came as data; otherwise None.
        found: whether something was found, where that came as data; otherwise None.
        message: the service's message; None where no service gave the answer.
    """

    text: str
    listed: tuple[str, ...] | None = None
    found: bool | None = None
    message: "Message | None" = None

    @classmethod
    def of(cls, message: "Message") -> "Answer":
        """Read a message of the service."""
        more = message.model_extra or {}
        found = more.get("found")
        return cls(
            message.answer,
            _names(more.get("sources")),
            found if isinstance(found, bool) else None,
            message,
        )

    def as_dict(self, bot_id: str) -> dict[str, Any]:
        """Return what frameworks keep beside a bot's answer, as new plain values.

        Returns:
            `bot_id`, `conversation_id`, `message_id`, `created_at` in Unix milliseconds, the names
            of the `sources`, and whether the bot `found` anything.
        """
        message = self.message
        assert message is not None  # noqa: S101 - a bot's answer is a message
        return {
            "bot_id": bot_id,
            "conversation_id": message.conversation_id,
            "message_id": message.id,
            "created_at": message.model_dump(mode="json", include={"created_at"})["created_at"],
            "sources": list(self.source_names),
            "found": not self.refuses,
        }

    @property
    def cited(self) -> "tuple[Passage, ...]":
        """The passages that it was given from, where the service names them with their texts."""
        more = {} if self.message is None else self.message.model_extra or {}
        sources = more.get("sources")
        return tuple(_cited(sources, self.found)) if isinstance(sources, list) else ()

    @property
    def words(self) -> str:
        """The text without the list of sources behind it."""
        return self.text.rpartition(SOURCES)[0] or self.text

    @property
    def sources(self) -> str:
        """The names of the sources as one text, separated by commas; empty where it names none."""
        if self.listed is not None:
            return ", ".join(self.listed)
        words, _, names = self.text.rpartition(SOURCES)
        return names.strip() if words else ""

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names of the sources one by one, none where it names none.

        Names that came as data are exact. Names in the text are split at commas, so a name with a
        comma in it comes in parts.
        """
        if self.listed is not None:
            return self.listed
        return tuple(filter(None, (name.strip() for name in self.sources.split(", "))))

    def names(self, source: str) -> bool:
        """Return whether the answer names a source; neither capitals nor normal forms matter."""
        name = folded(source.strip())
        if self.listed is not None:
            return name in (folded(one.strip()) for one in self.listed)
        # A name may hold a comma itself, so the list is not cut at commas.
        return f", {name}, " in f", {folded(self.sources)}, "

    @property
    def refuses(self) -> bool:
        """Whether the answer is that nothing was found: said as data, or in English."""
        if self.found is not None:
            return not self.found
        beginning = self.words[:_A_BEGINNING].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
        return _REFUSAL.search(beginning) is not None


def _cited(sources: "Sequence[Any]", found: bool | None) -> "Iterator[Passage]":
    from knowledge_bot.models import Passage

    for source in sources:
        passages = source.get("passages") if isinstance(source, dict) else None
        for one in passages if isinstance(passages, list) else ():
            try:
                yield Passage.model_validate(
                    {"url": source.get("url"), "revision": source.get("revision")}
                    | {"source_id": source.get("id"), "name": source.get("name"), "found": found}
                    | {"id": one["id"], "text": one["text"]}
                )
            except (KeyError, TypeError, ValueError):  # not as docs/extensions.md has it
                continue


def _names(sources: Any) -> tuple[str, ...] | None:
    if not isinstance(sources, list):
        return None
    names = (one.get("name") if isinstance(one, dict) else one for one in sources)
    return tuple(name for name in names if isinstance(name, str))
