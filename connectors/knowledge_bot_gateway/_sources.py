"""The sources that an answer names, and where in its text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from knowledge_bot import Message
from knowledge_bot._answers import Answer


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that an answer names, and where in its text.

    Attributes:
        name: what it is called.
        id: its id, `src_…`; empty where the service tells none.
        url: its address; None where the service tells none.
        start: where the name begins in the text; the text's end where it is not in it.
        end: where it ends.
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
    of_name = {one.get("name"): one for one in known}
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
