"""Files for tests of extraction, and reading them as the service does."""

import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_bot_service.readers.analyzer.blocks import text_of
from knowledge_bot_service.readers.extract import ExtractionError, extract

if TYPE_CHECKING:
    from collections.abc import Callable

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
