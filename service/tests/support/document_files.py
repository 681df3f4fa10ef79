"""Files for tests of extraction, and reading them as the service does."""

import io
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_bot_service.readers.analyzer.blocks import text_of
from knowledge_bot_service.readers.extract import ExtractionError, extract

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openpyxl import Workbook

SENTENCE = "The office in the old town opens every day at nine and closes at five."


@dataclass(frozen=True)
class Read:
    """What was read of a document: its text as people see it, its title, and its warnings."""

    text: str
    title: str | None = None
    warnings: tuple[str, ...] = ()


class Reader:
    """Reads content as if it had been uploaded, in this process and without limits."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "content"

    def __call__(
        self, data: bytes | str, filename: str = "", content_type: str | None = None
    ) -> Read:
        self._path.write_bytes(data.encode() if isinstance(data, str) else data)
        document = extract(self._path, filename=filename, content_type=content_type)
        return Read(text_of(document.blocks), document.title, document.warnings)

    def reason(self, data: bytes | str, filename: str = "", content_type: str | None = None) -> str:
        """Why content cannot be read."""
        try:
            document = self(data, filename, content_type)
        except ExtractionError as error:
            return str(error)
        raise AssertionError(f"{document!r:.200} was read")


def pdf(*pages: str, trailer: bytes = b"", title: str = "", packed: bool = False) -> bytes:
    """A PDF with lines of text on each page, packed or not; an empty page for an empty text."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * number) for number in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, len(pages)),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    ]
    for number, text in enumerate(pages):
        lines = b" T* ".join(b"(%s) Tj" % line.encode("cp1252") for line in text.split("\n"))
        content = b"BT /F1 12 Tf 14 TL 72 720 Td %s ET" % lines if text else b""
        if packed:
            content = zlib.compress(content)
        objects += [
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R"
            b"/Resources<</Font<</F1 3 0 R>>>>>>" % (5 + 2 * number),
            b"<</Length %d%s>>stream\n%s\nendstream"
            % (len(content), b"/Filter/FlateDecode" if packed else b"", content),
        ]
    objects.append(b"<</Title(%s)>>" % title.encode())
    data = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    entries = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    table = b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, entries)
    end = b"trailer<</Size %d/Root 1 0 R/Info %d 0 R%s>>\nstartxref\n%d\n%%%%EOF\n"
    return data + table + end % (size, size - 1, trailer, len(data))


_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def archive(members: dict[str, str | bytes]) -> bytes:
    """An archive of members, by their names."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, inside in members.items():
            file.writestr(name, inside)
    return packed.getvalue()


def changed(data: bytes, change: "Callable[[bytes], bytes]") -> bytes:
    """An archive with each of its members of XML changed."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    return archive({name: change(one) if b"<" in one else one for name, one in members.items()})


WORDS = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    ' xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    f' xmlns:r="{_OFFICE}"'
)


def docx_body(body: str) -> str:
    """The main part of a Word document."""
    return f"<w:document {WORDS}><w:body>{body}</w:body></w:document>"


def docx(*paragraphs: str, body: str = "", properties: str = "", **parts: str) -> bytes:
    """A Word document; `parts` are the insides of others in its folder, by their names."""
    text = "".join(f"<w:p><w:r><w:t>{paragraph}</w:t></w:r></w:p>" for paragraph in paragraphs)
    members = {
        "word/document.xml": docx_body(text + body),
        **{
            f"word/{name}.xml": f"<w:{name} {WORDS}>{inside}</w:{name}>"
            for name, inside in parts.items()
        },
        **({"docProps/core.xml": properties} if properties else {}),
    }
    return archive(members)


def relations(*targets: str) -> str:
    """What a member refers to, as `rId1`, `rId2` …: each a type and a target, "=" between them."""
    links = (
        f'<Relationship Id="rId{number}" Type="{_OFFICE}/{kind}" Target="{target}" {mode}/>'
        for number, (kind, _, target) in enumerate((one.partition("=") for one in targets), start=1)
        for mode in ['TargetMode="External"' if "://" in target else ""]
    )
    return f"<Relationships>{''.join(links)}</Relationships>"


def pptx(*slides: str, notes: str = "", link: str = "") -> bytes:
    """A presentation of slides, of which the first may have notes and a link (`rId2`)."""
    listed = "".join(f'<p:sldId r:id="rId{at}"/>' for at in range(1, len(slides) + 1))
    space = f'xmlns:p="p" xmlns:a="a" xmlns:r="{_OFFICE}"'
    tree = "<p:{0} {1} {3}><p:cSld><p:spTree>{2}</p:spTree></p:cSld></p:{0}>"
    members = {
        "ppt/presentation.xml": f"<p:presentation {space}>{listed}</p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(
            *(f"slide=slides/s{at}.xml" for at in range(1, len(slides) + 1))
        ),
        "ppt/slides/_rels/s1.xml.rels": relations("notesSlide=../notes.xml", f"hyperlink={link}"),
        "ppt/notes.xml": tree.format("notes", space, notes, ""),
    }
    for at, slide in enumerate(slides, start=1):
        shown = 'show="0"' if "HIDDEN" in slide else ""
        members[f"ppt/slides/s{at}.xml"] = tree.format("sld", space, slide, shown)
    return archive(members)


def xlsx(*rows: list[object], change: "Callable[[Workbook], object]" = lambda book: None) -> bytes:
    """A workbook of a sheet "Fees"; a cell that is a pair has a format. `change` is done last."""
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet.title = "Fees"
    for number, row in enumerate(rows, start=1):
        for column, cell in enumerate(row, start=1):
            value, form = cell if isinstance(cell, tuple) else (cell, "General")
            sheet.cell(number, column, value).number_format = form
    change(book)
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()


def odf(body: str, *, styles: str = "", kind: str = "text") -> bytes:
    """An OpenDocument file."""
    space = " ".join(f'xmlns:{one}="urn:{one}"' for one in _ODF)
    content = (
        f"<office:document-content {space}><office:automatic-styles>{styles}"
        f"</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}>"
        "</office:body></office:document-content>"
    )
    return archive(
        {"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content}
    )


_ODF = ("office", "text", "table", "style", "draw", "presentation", "xlink", "svg")


def epub(*chapters: str, title: str = "A Book") -> bytes:
    """A book."""
    items = "".join(f'<item id="c{at}" href="c{at}.xhtml"/>' for at in range(len(chapters)))
    spine = "".join(f'<itemref idref="c{at}"/>' for at in range(len(chapters)))
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<c><rootfile full-path="in/book.opf"/></c>',
            "in/book.opf": f'<package xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}'
            f"</dc:title><manifest>{items}</manifest><spine>{spine}</spine></package>",
            **{f"in/c{at}.xhtml": page for at, page in enumerate(chapters)},
        }
    )


_END, _NOWHERE = 0xFFFFFFFE, 0xFFFFFFFF
_SECTOR, _SMALL_SECTOR = 512, 64


def compound(streams: dict[str, bytes]) -> bytes:
    """A compound file (MS-CFB) of streams by their paths, each of less than 4 KiB."""
    paths = [path.split("/") for path in streams]
    known = sorted({tuple(path[:end]) for path in paths for end in range(1, len(path) + 1)})
    inside: dict[tuple[str, ...], list[int]] = {}
    for number, path in enumerate(known, start=1):
        inside.setdefault(path[:-1], []).append(number)
    small, chain = b"", list[int]()
    entries = []
    for number, path in enumerate(known, start=1):
        data = streams.get("/".join(path))
        start = len(chain) if data else _END
        sectors = -(-len(data or b"") // _SMALL_SECTOR)
        chain += [*range(start + 1, start + sectors), _END] if data else []
        small += (data or b"").ljust(sectors * _SMALL_SECTOR, b"\0")
        kind, size = (1, 0) if data is None else (2, len(data))
        following = next((one for one in inside[path[:-1]] if one > number), _NOWHERE)
        below = inside.get(path, [_NOWHERE])[0]
        entries.append(_entry(path[-1], kind, (_NOWHERE, following, below), start, size))
    # The table of sectors comes first, with 128 in a sector; behind it the other parts, one by one.
    links = _NOWHERE, _NOWHERE, inside[()][0]
    names = _entry("Root Entry", 5, links, 0, len(small)) + b"".join(entries)
    parts = [names, struct.pack(f"<{len(chain)}I", *chain), small]
    counts = [-(-len(part) // _SECTOR) for part in parts]
    own = -(-sum(counts) // 127)
    starts = [own, own + counts[0], own + counts[0] + counts[1]]
    table = [0xFFFFFFFD] * own
    for count, start in zip(counts, starts, strict=True):
        table += [*range(start + 1, start + count), _END]
    names = names[:116] + struct.pack("<I", starts[2]) + names[120:]
    header = struct.pack(
        "<8s16x5H6xIII4xIIIII109I",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        *(0x3E, 3, 0xFFFE, 9, 6, 0, own),
        *(starts[0], 4096, starts[1], counts[1], _END, 0),
        *(*range(own), *[_NOWHERE] * (109 - own)),
    )
    body = struct.pack(f"<{len(table)}I", *table), names, *parts[1:]
    return header + b"".join(
        part.ljust(-(-len(part) // _SECTOR) * _SECTOR, b"\xff" if not at else b"\0")
        for at, part in enumerate(body)
    )


def _entry(name: str, kind: int, links: tuple[int, int, int], start: int, size: int) -> bytes:
    written = name.encode("utf-16-le")
    return struct.pack(
        "<64sHBB3I36xIII", written, len(written) + 2, kind, 1, *links, start, size, 0
    )


def xls(
    *cells: tuple[int, int, object, str],
    hidden: int = 0,
    rows: "Sequence[int]" = (),
    columns: "Sequence[int]" = (),
    filtered: bool = False,
) -> bytes:
    """A workbook as Excel wrote it before 2007: a sheet of cells, each with its format.

    The sheet may be hidden, and some of its rows and columns, maybe by a filter.
    """
    name = "Fees"
    formats = [*dict.fromkeys(form for *_, form in cells)]
    globals_ = [_begin(5)]
    globals_ += [
        _record(0x041E, struct.pack("<H", 164 + at) + _text(form))
        for at, form in enumerate(formats)
    ]
    globals_ += [
        _record(0x00E0, struct.pack("<HHH14x", 0, 164 + at, 0)) for at in range(len(formats))
    ]
    if filtered:
        globals_ += [
            _record(0x0018, struct.pack("<HBBHHH6s", 0x20, 0, 1, 0, 0, 1, b"\0\0\0\0\0\r"))
        ]
    called = struct.pack("<BB", len(name), 0) + name.encode("latin-1")
    length = sum(map(len, globals_)) + 10 + len(called) + 4
    globals_ += [_record(0x0085, struct.pack("<IBB", length, hidden, 0) + called), _record(0x0A)]
    sheet = [_begin(0x10)]
    sheet += [_record(0x0208, struct.pack("<H8xHI", row, 0, 0x20)) for row in rows]
    sheet += [_record(0x007D, struct.pack("<5H2x", one, one, 0, 0, 1)) for one in columns]
    for row, column, value, form in cells:
        place = struct.pack("<HHH", row, column, formats.index(form))
        if isinstance(value, str):
            sheet.append(_record(0x0204, place + _text(value)))
        else:
            sheet.append(_record(0x0203, place + struct.pack("<d", value)))
    return compound({"Workbook": b"".join([*globals_, *sheet, _record(0x0A)])})


def _record(kind: int, data: bytes = b"") -> bytes:
    return struct.pack("<HH", kind, len(data)) + data


def _begin(kind: int) -> bytes:
    return _record(0x0809, struct.pack("<HHHHII", 0x0600, kind, 0, 0, 0, 0))


def _text(text: str) -> bytes:
    return struct.pack("<HB", len(text), 1) + text.encode("utf-16-le")


def msg(properties: dict[int, str | bytes], header: int = 32) -> dict[str, bytes]:
    """The streams of a message of Outlook, or with a header of 8 bytes of what is attached."""
    listed, found = bytes(header), dict[str, bytes]()
    for number, value in properties.items():
        kind = 0x001F if isinstance(value, str) else 0x0102
        data = value.encode("utf-16-le") if isinstance(value, str) else value
        listed += struct.pack("<HHIII", kind, number, 6, len(data), 0)
        found[f"__substg1.0_{number:04X}{kind:04X}"] = data
    return {"__properties_version1.0": listed, **found}
