"""Documents that are ZIP archives of XML files, read with bounds against bombs."""

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import unquote

from knowledge_bot_service.readers.documents.document import ExtractionError
from knowledge_bot_service.readers.documents.parsing import fault, parsed_xml

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


class Package:
    """The members of an archive, by name, and what they refer to."""

    def __init__(self, file: IO[bytes], archive: zipfile.ZipFile) -> None:
        self._archive, self._file = archive, file
        self._related: dict[str, dict[str, tuple[str, str]]] = {}
        self.names = frozenset(archive.namelist())

    def read(self, name: str) -> bytes:
        """A member; what is in the strict namespaces of Office (ISO/IEC 29500-1) in the usual ones.

        Raises:
            KeyError: there is none of the name.
            ExtractionError: it is larger than a document's part can be.
        """
        data = self._read(name)
        is_strict = _STRICT.search(data, 0, _START)
        return (
            _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", data) if is_strict else data
        )

    def _read(self, name: str) -> bytes:
        info = self._archive.getinfo(name)
        _check(info)
        with self._archive.open(info) as member:
            # Reading stops at the declared size, whatever the compressed data would give.
            return member.read()

    def usual(self) -> IO[bytes]:
        """The archive for a library that unpacks it, in the usual namespaces of Office.

        Raises:
            ExtractionError: as `read`, for any of its members.
        """
        for info in self._archive.infolist():
            _check(info)
        if not _STRICT.search(self._read(self.main()), 0, _START):
            return self._file
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as archive:
            for name in self.names:
                archive.writestr(name, self.read(name))
        return written

    def tree(self, name: str) -> "Element":
        """A member that is XML.

        Raises:
            KeyError, ExtractionError: as `read`; or it is not well-formed.
        """
        from lxml import etree

        try:
            return parsed_xml(self.read(name))
        except etree.XMLSyntaxError as error:
            raise fault(error, _DAMAGED) from None

    def part(self, name: str) -> "Element | None":
        """A member that a text can do without: None where it is not there, or damaged."""
        with suppress(KeyError, ExtractionError):
            return self.tree(name)
        return None

    def related(self, name: str) -> dict[str, tuple[str, str]]:
        """What a member refers to: by id, the last word of the type, and a member or an address."""
        if name not in self._related:
            folder, file = posixpath.split(name)
            links = self.part(posixpath.join(folder, "_rels", f"{file}.rels"))
            self._related[name] = {
                link.get("Id", ""): (
                    link.get("Type", "").rpartition("/")[2],
                    target if link.get("TargetMode") == "External" else self.member(folder, target),
                )
                for link in (() if links is None else links)
                if (target := link.get("Target", ""))
            }
        return self._related[name]

    def member(self, folder: str, target: str) -> str:
        """The name of what is referred to from a folder, as the archive has it."""
        name = posixpath.normpath(posixpath.join("/", folder, unquote(target.partition("#")[0])))
        return name.lstrip("/")

    def of_type(self, name: str, kind: str) -> list[str]:
        """The members of this type that a member refers to."""
        found = (to for what, to in self.related(name).values() if what == kind)
        return [target for target in found if target in self.names]

    def main(self) -> str:
        """The member with the text of an Office document; "" in another archive."""
        known = (name for name in _MAIN_PARTS if name in self.names)
        return next(iter([*self.of_type("", "officeDocument"), *known]), "")

    def title(self) -> str | None:
        """The title in an Office document's properties."""
        properties = self.part("docProps/core.xml")
        return None if properties is None else properties.findtext(DC_TITLE)


def _check(info: zipfile.ZipInfo) -> None:
    is_bomb = info.file_size > max(_SMALL, info.compress_size * _MAX_RATIO)
    if info.file_size > _MAX_SIZE or is_bomb:
        raise ExtractionError(
            f"the document is not read: it unpacks from {info.compress_size:,} to"
            f" {info.file_size:,} bytes"
        )


@contextmanager
def opened(file: IO[bytes]) -> Iterator[Package]:
    """A file as an archive.

    Raises:
        ExtractionError: it is damaged, or encrypted.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            yield Package(file, archive)
    # A place that is none, in a damaged list of the members, is an OSError.
    except (zipfile.BadZipFile, KeyError, OSError):
        raise ExtractionError("the document is damaged or cut off") from None
    except (EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        if isinstance(error, RecursionError):
            raise
        # RuntimeError is zipfile's word for encryption, NotImplementedError for odd compression.
        raise ExtractionError("the document is encrypted or packed in an odd way") from None


def local(element: "Element") -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def relation(element: "Element", name: str = "id") -> str:
    """By which id an element of an Office document refers to another member, or an address."""
    return element.get(f"{_RELATION}{name}", "")


def named(element: "Element | None", *names: str) -> "Iterable[Element]":
    """What is of these names in an element, in any namespace; nothing where there is none."""
    return () if element is None else element.iter(*(f"{{*}}{name}" for name in names))


DC_TITLE: Final = "{http://purl.org/dc/elements/1.1/}title"

_RELATION: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_MAIN_PARTS: Final = ("word/document.xml", "ppt/presentation.xml", "xl/workbook.xml")

_DAMAGED: Final = "the document's text is damaged"

# Bounds of a member's size, in bytes, and of what it grows to. Word's own XML shrinks to a fiftieth
# at most; a bomb to a thousandth.
_MAX_SIZE: Final = 64 * 1024 * 1024
_MAX_RATIO: Final = 200
_SMALL: Final = 1024 * 1024

_START: Final = 16 * 1024
_STRICT: Final = re.compile(
    rb"http://purl\.oclc\.org/ooxml/(wordprocessingml|spreadsheetml|presentationml|drawingml"
    rb"|officeDocument)/"
)
