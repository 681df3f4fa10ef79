"""EPUB: the chapters of a book, in the order in which they are read."""

import posixpath
from typing import Final

from knowledge_bot_service.readers.documents.document import ExtractionError, ParsedDocument
from knowledge_bot_service.readers.documents.html import page_blocks
from knowledge_bot_service.readers.documents.package import DC_TITLE, Package, named


def read_epub(package: Package) -> ParsedDocument:
    """The blocks of a book.

    Raises:
        ExtractionError: it is protected.
    """
    if any(
        one.get("Algorithm", "").partition("#")[0] not in _OF_FONTS
        for one in named(package.part("META-INF/encryption.xml"), "EncryptionMethod")
    ):
        raise ExtractionError("the book is protected (DRM)")
    container = package.tree("META-INF/container.xml")
    main = next((one.get("full-path", "") for one in named(container, "rootfile")), "")
    contents = package.tree(main)
    items = {one.get("id"): one for one in named(contents, "item")}
    spine = [items.get(one.get("idref")) for one in named(contents, "itemref")]
    chapters = [
        package.member(posixpath.dirname(main), one.get("href", ""))
        for one in spine
        if one is not None and "nav" not in one.get("properties", "").split()
    ]
    blocks = [
        block
        for chapter in chapters
        if chapter in package.names and not chapter.lower().endswith(_PICTURES)
        for block in page_blocks(package.read(chapter))
    ]
    return ParsedDocument(blocks, contents.findtext(f".//{DC_TITLE}"))


_PICTURES: Final = (".svg", ".png", ".jpg", ".jpeg", ".gif")
# Fonts are made unreadable without being protected.
_OF_FONTS: Final = frozenset({"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc"})
