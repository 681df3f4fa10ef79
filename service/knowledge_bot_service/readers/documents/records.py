"""What programs write and people read: notebooks, JSON, subtitles, calendars and contacts."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from knowledge_bot_service.readers.analyzer.blocks import Block, told
from knowledge_bot_service.readers.documents.document import ExtractionError, ParsedDocument, titled
from knowledge_bot_service.readers.documents.markdown import read_markdown, read_text
from knowledge_bot_service.readers.documents.text import tidy


def read_notebook(source: str) -> ParsedDocument:
    """A Jupyter notebook: its texts, its code, and what the code printed; no pictures."""
    try:
        book = json.loads(source)
        cells = book["cells"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ExtractionError("the notebook is damaged") from None
    language = str((book.get("metadata") or {}).get("language_info", {}).get("name", ""))
    blocks = [block for cell in cells for block in _cell(cell, language)]
    return titled(blocks, None)


def _cell(cell: dict[str, Any], language: str) -> Iterator[Block]:
    source = tidy(_joined(cell.get("source", "")))
    match cell.get("cell_type"):
        case "code":
            yield Block("code", source, 0, (language,) if language else ())
            for output in cell.get("outputs", []):
                text = output.get("text") or (output.get("data") or {}).get("text/plain", "")
                yield Block("code", tidy(_ESCAPE.sub("", _joined(text)))[:_MAX_OUTPUT])
        case "raw":
            yield from read_text(source)
        case _:
            yield from read_markdown(source).blocks


def _joined(text: object) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text or "")


def read_json(source: str) -> ParsedDocument:
    """JSON, or JSON lines: each object as a record with the names of its fields."""
    try:
        value = json.loads(source)
    except ValueError:
        try:
            value = [json.loads(line) for line in source.split("\n") if line.strip()]
        except ValueError:
            return ParsedDocument(read_text(source))
    return ParsedDocument(_values("", value))


def _values(name: str, value: object) -> Iterator[Block]:
    if isinstance(value, dict):
        plain = {key: one for key, one in value.items() if not isinstance(one, dict | list)}
        named = {
            f"{name} {key}".strip() if len(plain) == 1 else key: one for key, one in plain.items()
        }
        if named:
            yield told([*map(_spaced, named)], [*map(_word, named.values())])
        for key, one in value.items():
            if isinstance(one, dict | list):
                yield from _values(key, one)
    elif isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        for one in value:
            yield from _values(name, one)
    elif isinstance(value, list) and name and value:
        yield told([_spaced(name)], [", ".join(map(_word, value))])
    elif isinstance(value, list):
        yield from (Block("paragraph", _word(one)) for one in value)
    else:
        yield Block("paragraph", _word(value))


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _word(value: object) -> str:
    return " ".join((value if isinstance(value, str) else json.dumps(value)).split())


def read_subtitles(source: str) -> ParsedDocument:
    """What is said in subtitles (SRT, WebVTT), without numbers and times."""
    said: list[str] = []
    for cue in re.split(r"\n\s*\n", source):
        found = _CUE.match(f"{cue}\n")
        words = " ".join(_TAG.sub("", found[1]).split()) if found else ""
        if words and words not in said[-1:]:
            said.append(words)
    joined = "\n".join(said)
    sentences = re.sub(r"(?<![.!?…\"”])\n", " ", joined)
    return ParsedDocument(Block("paragraph", one) for one in sentences.split("\n"))


def read_cards(source: str) -> ParsedDocument:
    """Calendars and contacts (iCalendar, vCard): each event or person a record."""
    blocks: list[Block] = []
    found: dict[str, str] = {}
    # The last one may have no end.
    for line in [*_FOLDED.sub("", source).split("\n"), "END"]:
        head, _, value = line.partition(":")
        name = head.upper().partition(";")[0].rpartition(".")[2]
        if name in {"BEGIN", "END"}:
            if found:
                blocks.append(told([*found], [*found.values()]))
            found = {}
            continue
        known = _FIELDS.get(name)
        if known and value.strip(" ;"):
            words = _value(name, value)
            found[known] = f"{found[known]}, {words}" if known in found else words
    return ParsedDocument(blocks)


def _value(name: str, value: str) -> str:
    if name in {"DTSTART", "DTEND", "DUE", "BDAY"} and (moment := _MOMENT.fullmatch(value.strip())):
        year, month, day, hour, minute, utc = moment.groups()
        time = f" {hour}:{minute}{' UTC' if utc else ''}" if hour else ""
        return f"{year}-{month}-{day}{time}"
    value = value.removeprefix("mailto:").removeprefix("MAILTO:").replace("\\n", " ")
    parts = re.split(r"(?<!\\);", value) if name in {"ADR", "N", "ORG"} else [value]
    return ", ".join(re.sub(r"\\(.)", r"\1", part).strip() for part in parts if part.strip())


# Of what code printed, so much is told, in characters.
_MAX_OUTPUT: Final = 5000
_ESCAPE: Final = re.compile(r"\x1b\[[\d;]*m")

_CUE: Final = re.compile(r"(?:.*\n)?\s*(?:\d+:)?\d+:\d+[.,]\d+ *--> .*\n([\s\S]*)")
_TAG: Final = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")
_FOLDED: Final = re.compile(r"\n[ \t]")
_MOMENT: Final = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)(?:T(\d\d):?(\d\d):?\d\d(Z)?)?")
_FIELDS: Final = {
    "SUMMARY": "Event",
    "DTSTART": "Begins",
    "DTEND": "Ends",
    "DUE": "Due",
    "LOCATION": "Where",
    "DESCRIPTION": "Description",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendees",
    "RRULE": "Repeats",
    "STATUS": "Status",
    "URL": "Address",
    "FN": "Name",
    "ORG": "Organization",
    "TITLE": "Title",
    "ROLE": "Role",
    "TEL": "Phone",
    "EMAIL": "Mail",
    "ADR": "Postal address",
    "NOTE": "Note",
    "BDAY": "Birthday",
    "COMMENT": "Comment",
}
