"""EPUB: the chapters of a book, in the order in which they are read."""

import posixpath
from collections.abc import Callable, Iterator
from typing import IO, Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import ExtractionError, ParsedDocument
from knowledge_bot_service.readers.documents.package import DC_TITLE, Package, named, opened


def read_epub(file: IO[bytes], read: Callable[[bytes], list[Block]]) -> ParsedDocument:
    """The blocks of a book; `read` takes a chapter's page apart.

    Raises:
        ExtractionError: it is damaged, encrypted, larger inside than is believable, or has no text.
    """
    with opened(file, "book") as package:
        if any(
            one.get("Algorithm", "").partition("#")[0] not in _OF_FONTS
            for one in named(package.part("META-INF/encryption.xml"), "EncryptionMethod")
        ):
            raise ExtractionError("the book is protected (DRM)")
        container = package.tree("META-INF/container.xml")
        main = next((one.get("full-path", "") for one in named(container, "rootfile")), "")
        contents = package.tree(main)
        items = {one.get("id"): one for one in named(contents, "item")}
        spine = [
            items[one.get("idref")]
            for one in named(contents, "itemref")
            if one.get("idref") in items
        ]
        chapters = [
            package.member(posixpath.dirname(main), one.get("href", ""))
            for one in spine
            if "nav" not in one.get("properties", "").split()
        ]
        blocks = [*_blocks(package, chapters, read)]
        title = contents.findtext(f".//{DC_TITLE}")
    if not blocks:
        raise ExtractionError("the book has no text")
    return ParsedDocument(blocks, title)


def _blocks(
    package: Package, chapters: list[str], read: Callable[[bytes], list[Block]]
) -> Iterator[Block]:
    for chapter in chapters:
        if chapter in package.names and not chapter.lower().endswith(_PICTURES):
            yield from read(package.read(chapter))


_PICTURES: Final = (".svg", ".png", ".jpg", ".jpeg", ".gif")
# Fonts are made unreadable without being protected.
_OF_FONTS: Final = frozenset({"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc"})
