"""XML as a tree, and what a fault of libxml2 means."""

from typing import TYPE_CHECKING, Final

from knowledge_bot_service.readers.documents.document import ExtractionError

if TYPE_CHECKING:
    from lxml.etree import XMLSyntaxError
    from lxml.etree import _Element as Element

_NO_MEMORY: Final = 2  # libxml2's XML_ERR_NO_MEMORY


def parsed_xml(data: bytes) -> "Element":
    """The tree of an XML document, without comments; nothing is fetched, no entity resolved.

    Raises:
        lxml.etree.XMLSyntaxError: it is not well-formed.
    """
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )
    return etree.fromstring(data, parser)


def fault(error: "XMLSyntaxError", reason: str) -> Exception:
    """What to raise for a fault that libxml2 found: `reason`, or that memory ran out."""
    code = error.code  # type: ignore[attr-defined]  # the stubs lack it
    return MemoryError() if code == _NO_MEMORY else ExtractionError(reason)
