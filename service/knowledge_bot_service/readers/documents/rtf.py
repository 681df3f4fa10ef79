"""RTF: its paragraphs, headings, lists, tables and links."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import ParsedDocument, linked
from knowledge_bot_service.readers.documents.tables import table_blocks


def read_rtf(data: bytes) -> ParsedDocument:
    """The blocks of a Rich Text document, without headers, footers and what is hidden or struck."""
    reader = _RtfReader()
    return ParsedDocument([*reader.blocks(data)], reader.title or None)


@dataclass(slots=True)
class _RtfGroup:
    """What holds within a pair of braces.

    Attributes:
        to: where its words go: into the text, a note, a link …; "" for nowhere.
        words: those that have gone there; a group inside of it with the same `to` shares them.
        charset: which encoding they are in.
        fallback: how many characters stand, for old programs, after a Unicode one.
    """

    to: str = "text"
    words: list[str] = field(default_factory=list)
    charset: str = "cp1252"
    fallback: int = 1
    is_hidden: bool = False
    in_table: bool = False


class _RtfReader:
    """What is read of a document so far."""

    def __init__(self) -> None:
        self.title = ""
        self._groups = [_RtfGroup()]
        self._charset = "cp1252"
        # The encodings of fonts and the levels of styles, by their numbers; those that are read.
        self._charsets: dict[int, str] = {}
        self._levels: dict[int, int] = {}
        self._font = self._entry = 0
        self._is_optional = False
        # Bytes that are not decoded yet, and how many of the next ones are none.
        self._bytes = bytearray()
        self._dropped = 0
        # Of the paragraph that is read: its list's mark, its depth there, its level as a heading.
        self._mark = ""
        self._depth, self._level = 1, 0
        self._link = ""
        self._cells: list[str] = []
        self._rows: list[list[str]] = []

    def blocks(self, data: bytes) -> Iterator[Block]:
        at = 0
        while found := _TOKEN.match(data, at):
            at = found.end()
            word, number, code, symbol, text = found.groups()
            if code or text:
                self._add(bytes([int(code, 16)]) if code else text)
                continue
            self._decode()
            if word == b"bin":
                at += max(int(number or 0), 0)
            elif word:
                yield from self._control(word.decode(), int(number) if number else None)
            elif symbol == b"{" and len(self._groups) < _MAX_DEPTH:
                self._groups.append(replace(self._groups[-1]))
            elif symbol == b"}" and len(self._groups) > 1:
                self._close(self._groups.pop(), self._groups[-1])
            elif symbol in {b"\\\n", b"\\\r"}:
                yield from self._control("par", None)
            elif symbol:
                self._is_optional = symbol == b"\\*"
                self._groups[-1].words.append(_SYMBOLS.get(symbol, ""))
        self._decode()
        yield from self._paragraph()
        yield from self._end_of_table()

    def _add(self, data: bytes) -> None:
        dropped = min(self._dropped, len(data))
        self._dropped -= dropped
        if not self._groups[-1].is_hidden:
            self._bytes += data[dropped:]

    def _decode(self) -> None:
        if self._bytes:
            group = self._groups[-1]
            group.words.append(self._bytes.decode(group.charset, "replace"))
            self._bytes.clear()

    def _control(self, word: str, number: int | None) -> Iterator[Block]:
        group, is_optional = self._groups[-1], self._is_optional
        self._is_optional, self._dropped = False, 0
        if (to := _DESTINATIONS.get(word, "" if is_optional else None)) is not None:
            self._open(group, word, to)
        elif word in {"par", "sect", "page"} and group.to == "text":
            yield from self._paragraph()
        elif word in {"cell", "row"} and group.to == "text":
            self._end_of_cell(is_row=word == "row")
        elif word in {"ansicpg", "fcharset", "f"}:
            self._encoding(group, word, number or 0)
        elif word == "u" and number is not None:
            group.words += [] if group.is_hidden else [chr(number % 0x10000)]
            self._dropped = group.fallback
        elif word in _CHARACTERS:
            group.words.append(_CHARACTERS[word])
        else:
            self._look(group, word, number)

    def _look(self, group: _RtfGroup, word: str, number: int | None) -> None:
        """What a word says of the text after it."""
        match word:
            case "pard":
                group.in_table, self._level, self._depth = False, 0, 1
            case "plain":
                group.is_hidden = False
            case "intbl":
                group.in_table = True
            case "v" | "strike" | "striked" | "deleted":
                group.is_hidden = number != 0
            case "s":
                self._entry, self._level = number or 0, self._levels.get(number or 0, 0)
            case "outlinelevel" if number is not None and number < _BODY:
                self._level = number + 2
            case "ilvl":
                self._depth = min((number or 0) + 1, _BODY)
            case "uc":
                group.fallback = number or 0

    def _end_of_cell(self, *, is_row: bool) -> None:
        if is_row:
            self._rows.append(self._cells)
            self._cells = []
        else:
            self._cells.append(self._taken())
            self._mark = ""

    def _encoding(self, group: _RtfGroup, word: str, number: int) -> None:
        if word == "ansicpg":
            group.charset = self._charset = _known(f"cp{number}")
        elif word == "fcharset":
            self._charsets[self._font] = _known(_CHARSETS.get(number, self._charset))
        elif group.to == "fonts":
            self._font = number
        else:
            group.charset = self._charsets.get(number, self._charset)

    def _open(self, group: _RtfGroup, word: str, to: str) -> None:
        if word == "fldrslt":
            to = "" if self._link == _CONTENTS else "link" if self._link else group.to
        if to != group.to and not (group.to == "" and to in {"note", "mark", "link", "field"}):
            group.to, group.words = to, []

    def _close(self, group: _RtfGroup, outside: _RtfGroup) -> None:
        """A group ends; where its words went is told outside of it."""
        words = _text(group.words)
        if group.words is outside.words:
            if group.to == "styles":
                found = _HEADING.search(words)
                self._levels[self._entry] = int(found[1]) + 1 if found else 0
                group.words.clear()
            return
        match group.to:
            case "note" if words:
                outside.words.append(f" ({words})")
            case "link":
                outside.words.append(linked("".join(group.words), self._link))
                self._link = ""
            case "field":
                found = _HYPERLINK.match(words)
                self._link = found[1] if found else _CONTENTS if words.startswith("TOC") else ""
            case "mark":
                self._mark = words if any(map(str.isalnum, words)) else "-"
            case "title":
                self.title = words
            case "text":  # of a box, in what is no text
                self._groups[0].words += [" ", *group.words]

    def _taken(self) -> str:
        """The words of the paragraph or cell so far."""
        words = self._groups[-1].words
        text = _text(words)
        words.clear()
        return text

    def _paragraph(self) -> Iterator[Block]:
        if self._groups[-1].in_table:
            self._groups[-1].words.append(" ")
            return
        text, mark, self._mark = self._taken(), self._mark, ""
        if not text:
            return
        yield from self._end_of_table()
        if self._level:
            yield Block(
                "heading", f"{mark} {text}" if mark.strip("-") else text, min(self._level, 6)
            )
        elif mark:
            yield Block("item", text, self._depth, (mark,))
        else:
            yield Block("paragraph", text)

    def _end_of_table(self) -> Iterator[Block]:
        rows, self._rows = [*self._rows, self._cells] if self._cells else self._rows, []
        self._cells = []
        yield from table_blocks(rows)


def _text(words: list[str]) -> str:
    """Words as one line; the two halves of a character beyond 16 bits are one again."""
    text = " ".join("".join(words).split())
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _known(charset: str) -> str:
    try:
        return codecs.lookup(charset).name
    except LookupError:
        return "cp1252"


_MAX_DEPTH: Final = 500
_BODY: Final = 9
_CONTENTS: Final = "TOC"

_TOKEN: Final = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,9})? ?|\\'([0-9a-fA-F]{2})|(\\[^a-zA-Z]|[{}])|([^\\{}\r\n]+)"
    rb"|[\r\n]+|\\",
    re.DOTALL,
)
_SYMBOLS: Final = {b"\\~": "\xa0", b"\\_": "-", b"\\{": "{", b"\\}": "}", b"\\\\": "\\"}
_CHARACTERS: Final = {
    "line": "\n", "tab": "\t", "nestcell": " ", "nestrow": " ", "par": " ", "bullet": "•",
    "emdash": "\u2014", "endash": "\u2013", "lquote": "\u2018", "rquote": "\u2019",
    "ldblquote": "\u201c", "rdblquote": "\u201d", "emspace": " ", "enspace": " ",
}  # fmt: skip
_HYPERLINK: Final = re.compile(r'HYPERLINK\s+"?((?:https?|mailto):[^"\s]+)', re.IGNORECASE)
_HEADING: Final = re.compile(r"heading ([1-9])", re.IGNORECASE)

# Where the words of a group go that begins with such a word; nowhere for most.
_UNSEEN: Final = """
    author background buptim category colortbl comment company creatim doccomm filetbl footer
    footerf footerl footerr ftncn ftnsep ftnsepc aftnsep aftnsepc header headerf headerl headerr
    info keywords manager nonesttables nonshppict object operator pict pntxta pntxtb printim private
    revtbl revtim rxe shppict shprslt sn sp subject sv tc txe upr xe
"""
_DESTINATIONS: Final = {
    **dict.fromkeys(_UNSEEN.split(), ""),
    "fonttbl": "fonts",
    "stylesheet": "styles",
    "title": "title",
    "footnote": "note",
    "listtext": "mark",
    "pntext": "mark",
    "fldinst": "field",
    "fldrslt": "link",
    "shptxt": "text",
    "ud": "text",
    "moMath": "text",
}

# Windows' numbers of character sets (LOGFONT).
_CHARSETS: Final = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "cp936", 136: "cp950",
    161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257",
    204: "cp1251", 222: "cp874", 238: "cp1250", 255: "cp437",
}  # fmt: skip
