"""Kinds of documents, by the names and the media types under which they go.

One table for whoever reads documents, looks for them on a site, or says which are read. What a
document is shows in its content; a name and a type are what its sender says.
"""

from typing import Final, NamedTuple


class DocumentKind(NamedTuple):
    """A kind of document.

    Attributes:
        suffixes: how its files are called.
        types: its media types.
        is_linked: whether pages link to it for people; the others are for programs.
    """

    suffixes: tuple[str, ...]
    types: tuple[str, ...]
    is_linked: bool = True


_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_OPEN: Final = "application/vnd.oasis.opendocument"
_MACROS: Final = "macroenabled.12"

KINDS: Final = {
    "pdf": DocumentKind((".pdf",), ("application/pdf", "application/x-pdf")),
    "word": DocumentKind(
        (".docx", ".docm", ".dotx"),
        (f"{_OFFICE}.wordprocessingml.document", f"application/vnd.ms-word.document.{_MACROS}"),
    ),
    "presentation": DocumentKind(
        (".pptx", ".pptm", ".ppsx", ".potx"),
        (
            f"{_OFFICE}.presentationml.presentation",
            f"{_OFFICE}.presentationml.slideshow",
            f"application/vnd.ms-powerpoint.presentation.{_MACROS}",
        ),
    ),
    "spreadsheet": DocumentKind(
        (".xlsx", ".xlsm", ".xls"),
        (
            f"{_OFFICE}.spreadsheetml.sheet",
            f"application/vnd.ms-excel.sheet.{_MACROS}",
            "application/vnd.ms-excel",
        ),
    ),
    "opendocument": DocumentKind(
        (".odt", ".ods", ".odp", ".ott", ".ots", ".otp"),
        (f"{_OPEN}.text", f"{_OPEN}.spreadsheet", f"{_OPEN}.presentation"),
    ),
    "rtf": DocumentKind((".rtf",), ("application/rtf", "text/rtf")),
    "epub": DocumentKind((".epub",), ("application/epub+zip",)),
    "html": DocumentKind((".htm", ".html", ".xhtml"), ("text/html", "application/xhtml+xml")),
    "markdown": DocumentKind((".md", ".markdown"), ("text/markdown", "text/x-markdown")),
    "text": DocumentKind((".txt",), ("text/plain",)),
    "csv": DocumentKind((".csv", ".tsv"), ("text/csv", "text/tab-separated-values")),
    "mail": DocumentKind((".eml", ".mht", ".mhtml"), ("message/rfc822",)),
    "message": DocumentKind((".msg",), ("application/vnd.ms-outlook",)),
    "mbox": DocumentKind((".mbox",), ("application/mbox",)),
    "notebook": DocumentKind((".ipynb",), ("application/x-ipynb+json",)),
    "cards": DocumentKind((".ics", ".vcf"), ("text/calendar", "text/vcard"), is_linked=False),
    "subtitles": DocumentKind(
        (".srt", ".vtt"), ("text/vtt", "application/x-subrip"), is_linked=False
    ),
    "json": DocumentKind((".json", ".jsonl", ".ndjson"), ("application/json",), is_linked=False),
    "xml": DocumentKind(
        (".xml", ".fodp", ".fods", ".fodt"), ("application/xml", "text/xml"), is_linked=False
    ),
}
"""The kinds that the embedded service reads; whatever else is text is read as text."""

BY_SUFFIX: Final = {suffix: name for name, kind in KINDS.items() for suffix in kind.suffixes}
BY_TYPE: Final = {each: name for name, kind in KINDS.items() for each in kind.types}


def is_linked_document(media_type: str, filename: str) -> bool:
    """Whether a server sends a document that its pages link to for people.

    By its type; by its name where the type says nothing, which is that of a download.
    """
    name = BY_TYPE.get(media_type)
    if media_type in _ANY:
        name = BY_SUFFIX.get(_suffix(filename))
    return name is not None and KINDS[name].is_linked


# What servers say of files of which they know nothing.
_ANY: Final = frozenset(
    {"application/octet-stream", "application/x-download", "application/force-download"}
    | {"application/download", "binary/octet-stream", "application/zip"}
)


def _suffix(name: str) -> str:
    return "." + name.rpartition(".")[2].lower()
