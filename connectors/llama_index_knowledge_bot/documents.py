"""Documents put together again from their nodes, as texts for a collection."""

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Sequence

from llama_index.core.schema import BaseNode, ImageDocument, ImageNode, MetadataMode

from knowledge_bot.ingest import Skipped, Text

# What readers call a document's name, the best first.
_NAMES = ("title", "file_name", "file_path", "url", "source")

_LONGEST_NAME = 80


def texts_of(nodes: Iterable[BaseNode]) -> Iterator[Text | Skipped]:
    """Yield each document as one text, in the order in which the documents begin.

    Nodes of one document are those that refer to it (`ref_doc_id`), or the document itself. An
    image without a text is yielded as `Skipped`, with what to do about it.
    """
    documents: dict[str, list[BaseNode]] = {}
    for node in nodes:
        documents.setdefault(node.ref_doc_id or node.node_id, []).append(node)
    for document_id, parts in documents.items():
        yield _text(document_id, parts)


def _text(document_id: str, parts: Sequence[BaseNode]) -> Text | Skipped:
    content = _joined(parts)
    told = _told_name(parts[0])
    if not content.strip():
        if any(isinstance(part, ImageDocument | ImageNode) for part in parts):
            reason = "it is an image; a collection takes its text, or its file by upload_source()"
            return Skipped(told or document_id, reason, invalid=True)
        told = told or document_id
    if not _made_up(document_id):
        return Text(name=told or document_id, content=content, key=document_id)
    # The framework gives a document without an id a new one each time it is read. Such a document
    # is known by what it is: unchanged, it is recognised; changed, it is another document.
    name = told or " ".join(content.split())[:_LONGEST_NAME]
    digest = hashlib.sha256(f"{name}\0{content}".encode("utf-8", "surrogatepass")).hexdigest()
    return Text(name=name, content=content, key=f"sha256:{digest}")


def _told_name(part: BaseNode) -> str | None:
    for key in _NAMES:
        name = part.metadata.get(key)
        if isinstance(name, str) and name.strip():
            return name
    return None


def _made_up(document_id: str) -> bool:
    try:
        return uuid.UUID(document_id).version == 4
    except ValueError:
        return False


def _joined(parts: Sequence[BaseNode]) -> str:
    """Return a document's text: what a splitter repeated in the next node is there once."""
    joined, end = "", None
    for part in parts:
        text = part.get_content(metadata_mode=MetadataMode.NONE)
        start = getattr(part, "start_char_idx", None)
        repeated = end - start if end is not None and start is not None else 0
        if 0 < repeated <= len(text) and joined.endswith(text[:repeated]):
            joined += text[repeated:]
        else:
            joined += ("\n" if joined else "") + text
        end = getattr(part, "end_char_idx", None)
    return joined
