"""XML: the text of its elements; and what a fault of libxml2 means."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import ExtractionError, ParsedDocument

if TYPE_CHECKING:
    from lxml.etree import XMLSyntaxError


def read_xml(path: Path) -> ParsedDocument:
    """The text of an XML file: each element's own text is a paragraph.

    Raises:
        ExtractionError: it is larger than 20 MiB, not well-formed, or has no text.
    """
    from lxml import etree

    if path.stat().st_size > _MAX_SIZE:
        raise ExtractionError(f"the XML is larger than {_MAX_SIZE // 1024**2} MiB")
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True
    )
    try:
        root = etree.fromstring(path.read_bytes(), parser)
    except etree.XMLSyntaxError as error:
        raise fault(error, _reason(error)) from None
    parts = (str(part).strip() for part in root.itertext())
    blocks = [Block("paragraph", part) for part in parts if part]
    if not blocks:
        raise ExtractionError("the XML has no text")
    return ParsedDocument(blocks)


def _reason(error: "XMLSyntaxError") -> str:
    if error.code == _LIMIT:  # type: ignore[attr-defined]  # the stubs lack it
        # libxml2 advises its caller of an option, which is none for who sent the file.
        return (
            "the XML has tags nested more than 250 deep, one text longer than 10 MB, or entities"
            " that make it many times as long"
        )
    return f"the XML is not well-formed: {error.msg}"


def fault(error: "XMLSyntaxError", reason: str) -> Exception:
    """What to raise for a fault that libxml2 found: `reason`, or that memory ran out."""
    code = error.code  # type: ignore[attr-defined]  # the stubs lack it
    return MemoryError() if code == _NO_MEMORY else ExtractionError(reason)


# Its tree takes ten times as much memory.
_MAX_SIZE: Final = 20 * 1024**2

# libxml2's XML_ERR_NO_MEMORY and XML_ERR_RESOURCE_LIMIT.
_NO_MEMORY: Final = 2
_LIMIT: Final = 114
