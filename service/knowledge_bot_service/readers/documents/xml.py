"""XML: the text of its elements."""

from functools import cache
from typing import IO, TYPE_CHECKING, Final

from knowledge_bot_service.readers.analyzer.blocks import Block, told
from knowledge_bot_service.readers.documents.document import ExtractionError, ParsedDocument
from knowledge_bot_service.readers.documents.parsing import fault, parsed_xml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lxml.etree import _Element as Element


def read_xml(file: IO[bytes]) -> ParsedDocument:
    """The text of an XML file: a paragraph for each text, a record for values that stand together.

    Marks within a text are left out. A value has the name of its element or attribute.

    Raises:
        ExtractionError: it is larger than 20 MiB, or not well-formed.
    """
    from lxml import etree

    data = file.read(MAX_XML + 1)
    if len(data) > MAX_XML:
        raise ExtractionError(f"the XML is larger than {MAX_XML // 1024**2} MiB")
    try:
        root = parsed_xml(data)
    except etree.XMLSyntaxError as error:
        raise fault(error, f"the XML is not well-formed: {error.msg}") from None
    if root.tag == _FLAT:
        from knowledge_bot_service.readers.documents.odf import read_flat_odf

        return read_flat_odf(root)
    return ParsedDocument(_blocks(root, []))


def _blocks(element: "Element", found: list[Block]) -> list[Block]:
    """The blocks of an element, behind those found before."""
    values = [(_name(key), str(value)) for key, value in element.items() if value.strip()]
    children = [*element]
    if not children or _is_mixed(element, children):
        words = "".join(map(str, element.itertext())) if children else element.text or ""
        if text := " ".join(words.split()):
            values.append(("" if children or _is_prose(text) else _name(element.tag), text))
        return _tell(values, found)
    for child in children:
        text = " ".join((child.text or "").split())
        if len(child) or child.keys() or _is_prose(text):
            if values:
                _tell(values, found)
                values = []
            _blocks(child, found)
        elif text:
            values.append((_name(child.tag), text))
    return _tell(values, found)


def _is_mixed(element: "Element", children: "Sequence[Element]") -> bool:
    """Whether words stand beside other elements: these are marks within a text."""
    own = (element.text, *(child.tail for child in children))
    return any(words and not words.isspace() for words in own)


def _tell(values: list[tuple[str, str]], found: list[Block]) -> list[Block]:
    if len(values) == 1:
        found.append(Block("paragraph", values[0][1]))
    elif values:
        found.append(told([name for name, _ in values], [text for _, text in values]))
    return found


@cache
def _name(tag: object) -> str:
    return str(tag).rpartition("}")[2].replace("_", " ")


def _is_prose(text: str) -> bool:
    """Whether a text is said in sentences, which need no name."""
    return len(text) >= _LONG or text.endswith((".", "!", "?", ":"))


_LONG: Final = 80


_FLAT: Final = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}document"

MAX_XML: Final = 20 * 1024**2
"""Of a larger document the tree would take too much memory: ten times as much."""
