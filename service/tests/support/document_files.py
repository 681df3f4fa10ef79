"""Files for tests of extraction, and reading them as the service does."""

import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from knowledge_bot_service.readers.analyzer.blocks import text_of
from knowledge_bot_service.readers.extract import ExtractionError, extract

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


_WORDS = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def docx(*paragraphs: str, body: str = "", properties: str = "", **parts: str) -> bytes:
    """A Word document; `parts` are the insides of others in its folder, by their names."""
    text = "".join(f"<w:p><w:r><w:t>{paragraph}</w:t></w:r></w:p>" for paragraph in paragraphs)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "word/document.xml",
            f"<w:document {_WORDS}><w:body>{text}{body}</w:body></w:document>",
        )
        for name, inside in parts.items():
            archive.writestr(f"word/{name}.xml", f"<w:{name} {_WORDS}>{inside}</w:{name}>")
        if properties:
            archive.writestr("docProps/core.xml", properties)
    return packed.getvalue()
