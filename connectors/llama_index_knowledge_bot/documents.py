"""Documents as texts for a collection; those that come split are refused."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from llama_index.core.schema import (
    BaseNode,
    ImageDocument,
    ImageNode,
    MetadataMode,
)

from knowledge_bot import ConfigurationError
from knowledge_bot.adapters import is_random, text_or_skipped
from knowledge_bot.ingest import Skipped, Text

# Where readers keep a document's name, the best first.
_NAMES = ("title", "file_name", "file_path", "url", "source")

_LONGEST_NAME = 80


def texts_of(nodes: Iterable[BaseNode]) -> Iterator[Text | Skipped]:
    """Yield each document as one text, in the order in which the documents begin.

    The nodes of a document are those that refer to it (`ref_doc_id`), or the document itself. What
    cannot become a text is yielded as `Skipped`, with what to do about it: an image, the parts of a
    document, from which no text is restored for certain, and several documents with one id.
    """
    given: object = nodes
    if isinstance(given, str | BaseNode) or not isinstance(given, Iterable):
        raise ConfigurationError.expected("nodes", "a list of documents or nodes", nodes)
    documents: dict[str, list[BaseNode]] = {}
    for node in nodes:
        if not isinstance(node, BaseNode):
            raise ConfigurationError.expected("nodes", "documents or nodes of LlamaIndex", node)
        documents.setdefault(node.ref_doc_id or node.node_id, []).append(node)
    for document_id, parts in documents.items():
        yield _text(document_id, parts)


def _text(document_id: str, parts: Sequence[BaseNode]) -> Text | Skipped:
    name = _name(parts[0])
    whole = {_content(part) for part in parts if part.ref_doc_id is None}
    if len(whole) > 1:
        return Skipped(
            name or document_id,
            f"several documents have its id, {document_id!r}; give each its own id",
            invalid=True,
        )
    if not whole:
        return Skipped(
            name or document_id,
            "it came split, which drops and repeats text; put the sink before the splitter, as the "
            "first step of the pipeline: it returns its nodes unchanged",
            invalid=True,
        )
    content = whole.pop()
    if not content.strip():
        if any(isinstance(part, ImageDocument | ImageNode) for part in parts):
            reason = "it is an image; send its text instead, or its file with upload_source()"
            return Skipped(name or document_id, reason, invalid=True)
        name = name or document_id
    if not is_random(document_id):
        return text_or_skipped(name or document_id, content, document_id)
    # The framework gives a document without an id a new one each time it is read. Such a document
    # is identified by its content: unchanged, it is recognised; changed, it is another document.
    name = name or " ".join(content.split())[:_LONGEST_NAME]
    digest = hashlib.sha256(f"{name}\0{content}".encode("utf-8", "surrogatepass")).hexdigest()
    return text_or_skipped(name, content, f"sha256:{digest}")


def _name(part: BaseNode) -> str | None:
    for key in _NAMES:
        name = part.metadata.get(key)
        if isinstance(name, str) and name.strip():
            return name
    return None


def _content(node: BaseNode) -> str:
    return node.get_content(metadata_mode=MetadataMode.NONE)
