"""What a reader returns, and what it raises."""

from collections.abc import Iterable
from dataclasses import dataclass

from knowledge_bot_service.readers.analyzer.blocks import Block


class ExtractionError(Exception):
    """No text could be taken from a document. `str()` is the reason, in one sentence."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document's blocks, which may be read as they are taken, and its title if it has one.

    `warnings` say, in sentences, what of it could not be read.
    """

    blocks: Iterable[Block]
    title: str | None = None
    warnings: tuple[str, ...] = ()
