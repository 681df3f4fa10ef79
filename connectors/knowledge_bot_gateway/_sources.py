"""The sources that an answer names, and their positions in its text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from knowledge_bot import Message
from knowledge_bot.adapters.retrieval import Answer


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that an answer names, and its position in the text.

    Attributes:
        name: its name.
        id: its id, `src_…`; empty if the service gives none.
        url: its address; None if the service gives none.
        start: where the name begins in the text; the text's end if it is not there.
        end: where the name ends.
    """

    name: str
    id: str
    url: str | None
    start: int
    end: int


def citations(message: Message) -> list[Citation]:
    """Return the sources that an answer names."""
    answer = Answer.of(message)
    listed = (message.model_extra or {}).get("sources")
    known = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    of_name = {one["name"]: one for one in known if isinstance(one.get("name"), str)}
    return [_citation(name, of_name.get(name, {}), answer) for name in answer.source_names]


def _citation(name: str, known: Mapping[str, Any], answer: Answer) -> Citation:
    start = answer.text.rfind(name, len(answer.words))
    start, end = (start, start + len(name)) if start >= 0 else (len(answer.text),) * 2
    identity, url = known.get("id"), known.get("url")
    return Citation(
        name,
        identity if isinstance(identity, str) else "",
        url if isinstance(url, str) and url else None,
        start,
        end,
    )
