"""What a reader returns, and what it raises."""

from dataclasses import dataclass


class ExtractionError(Exception):
    """No text could be taken from a document. `str()` is the reason, in one sentence."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document's text, its paragraphs separated by blank lines, and its title if it has one."""

    text: str
    title: str | None = None
