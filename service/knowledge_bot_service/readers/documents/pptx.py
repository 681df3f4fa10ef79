"""PPTX: the slides of a presentation, in order, with the speaker's notes."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import ParsedDocument, linked
from knowledge_bot_service.readers.documents.package import Package, local, named, relation
from knowledge_bot_service.readers.documents.tables import table_blocks

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


def read_pptx(package: Package) -> ParsedDocument:
    """The blocks of a presentation: for each slide its title, its texts, its tables, its notes.

    Slides that are hidden are left out, and what repeats on each (dates, footers, numbers).
    """
    main = package.main()
    related = package.related(main)
    names = [related.get(relation(one), ("", ""))[1] for one in named(package.tree(main), "sldId")]
    slides = [_Slide(package, name) for name in names if name in package.names]
    return ParsedDocument([one for slide in slides for one in slide.blocks()], package.title())


_TITLES: Final = frozenset({"title", "ctrTitle"})
_REPEATED: Final = frozenset({"dt", "ftr", "hdr", "sldNum", "sldImg"})
# What holds bullets unless a paragraph says otherwise.
_BULLETED: Final = frozenset({"body", "obj", ""})
_MAX_LEVEL: Final = 9
_TRUE: Final = frozenset({"1", "true"})


class _Slide:
    """A slide, and what it refers to."""

    def __init__(self, package: Package, name: str) -> None:
        self._package = package
        self._name = name
        self._related: Mapping[str, tuple[str, str]] = package.related(name)

    def blocks(self) -> Iterator[Block]:
        slide = self._package.tree(self._name)
        if slide.get("show") in {"0", "false"}:
            return
        yield from self._tree(next(iter(named(slide, "spTree")), None))
        for notes in self._package.of_type(self._name, "notesSlide"):
            tree = next(iter(named(self._package.part(notes), "spTree")), None)
            yield from self._tree(tree, notes=True)

    def _tree(self, shapes: "Element | None", *, notes: bool = False) -> Iterator[Block]:
        # A title may stand behind the texts below it.
        found = (
            [] if shapes is None else sorted(shapes, key=lambda one: _holder(one) not in _TITLES)
        )
        for shape in found:
            match local(shape):
                case "grpSp":
                    yield from self._tree(shape, notes=notes)
                case "sp" if (holder := _holder(shape)) not in _REPEATED:
                    yield from self._shape(shape, holder, notes=notes)
                case "graphicFrame":
                    yield from self._graphic(shape)
                case "AlternateContent":
                    yield from self._tree(next(iter(named(shape, "Choice", "Fallback")), None))

    def _shape(self, shape: "Element", holder: str | None, *, notes: bool) -> Iterator[Block]:
        paragraphs = [(one, self._words(one)) for one in named(shape, "p")]
        if holder in _TITLES and not notes:
            if title := " ".join(words for _, words in paragraphs if words):
                yield Block("heading", title, 2)
            return
        for paragraph, words in paragraphs:
            if words:
                yield _text(paragraph, words, bulleted=holder in _BULLETED and not notes)

    def _words(self, paragraph: "Element") -> str:
        words: list[str] = []
        for one in paragraph:
            text = "".join(part.text or "" for part in named(one, "t"))
            link = next(iter(named(one, "hlinkClick")), None)
            target = "" if link is None else self._related.get(relation(link), ("", ""))[1]
            words += [" "] if local(one) == "br" else [linked(text, target)]
        return " ".join("".join(words).split())

    def _graphic(self, frame: "Element") -> Iterator[Block]:
        for table in named(frame, "tbl"):
            look = next(iter(named(table, "tblPr")), None)
            rows = [
                [" ".join(filter(None, map(self._words, named(cell, "p")))) for cell in row]
                for row in ([*named(row, "tc")] for row in named(table, "tr"))
            ]
            is_named = look is not None and look.get("firstRow") in _TRUE and len(rows) > 1
            yield from table_blocks(rows, is_named=is_named or None)
        # The words of a diagram are in a member of their own.
        for link in named(frame, "relIds"):
            target = self._related.get(relation(link, "dm"), ("", ""))[1]
            for paragraph in named(self._package.part(target), "p"):
                if words := self._words(paragraph):
                    yield Block("item", words, 1, ("-",))


def _holder(shape: "Element") -> str | None:
    """What a shape holds the place of; None where it is a text box."""
    place = next((one for part in [*shape][:1] for one in named(part, "ph")), None)
    return None if place is None else place.get("type", "")


def _text(paragraph: "Element", words: str, *, bulleted: bool) -> Block:
    look = next((one for one in paragraph if local(one) == "pPr"), None)
    bullets = {local(one) for one in (() if look is None else look)}
    level = "" if look is None else look.get("lvl", "")
    depth = min(int(level), _MAX_LEVEL) + 1 if level.isdecimal() else 1
    if "buNone" in bullets or not (bulleted or bullets & {"buChar", "buAutoNum", "buBlip"}):
        return Block("paragraph", words)
    return Block("item", words, depth, ("-",))
