"""Tells a change of a page from what is no change of what it says.

A page is a list of blocks, its paragraphs. Left out are three things alone: the present date and
time, numbers in short blocks that speak of the page itself ("last edited 5 minutes ago"), and what
differs between two readings of the same minute, as adverts do. Whatever else differs from the last
run is a change.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

_SIZE = 4
# More places than this that differ between two readings are not remembered: the page is sent.
_MOST_PLACES = 30
# How far a date or a clock may be from the present: time zones, and the minutes of a reading.
_DAY = timedelta(days=1)
_MINUTES = timedelta(minutes=3)

_DIGITS = re.compile(r"\d+")
# Words of short blocks that tell of the page itself, and not of what it is about.
_OF_THE_PAGE = re.compile(
    r"\b(?:generated|rendered|retrieved|updated|edited|modified|ago|today is|views|visits|visitors"
    r"|have read this|aktualisiert|geändert|bearbeitet|erstellt am|heute ist|aufrufe"
    r"|mis à jour|modifié|il y a|vues|actualizado|modificado|hace|visitas)\b",
    re.IGNORECASE,
)
_SHORT_BLOCK = 120

_MONTHS = (
    "jan|ene|gen",
    "feb|fév|fev",
    "mar|mär|mrz",
    "apr|avr|abr",
    "may|mai|mag",
    "jun|juin|giu",
    "jul|juil|lug",
    "aug|aoû|ago",
    "sep|set",
    "oct|okt|ott",
    "nov",
    "dec|dez|déc|dic",
)
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})[a-zéûä]*\.?"
_DATES = tuple(
    re.compile(rf"(?<!\d)(?:{each})(?!\d)", re.IGNORECASE)
    for each in (
        r"(?P<y>\d{4})[-/](?P<m>\d\d?)[-/](?P<d>\d\d?)",
        r"(?P<d>\d\d?)\. ?(?P<m>\d\d?)\. ?(?P<y>\d{4})",
        r"(?P<d>\d\d?)[/-](?P<m>\d\d?)[/-](?P<y>\d{4})",
        r"(?P<m>\d\d?)/(?P<d>\d\d?)/(?P<y>\d{4})",
        rf"(?P<d>\d\d?)(?:\.|st|nd|rd|th|er)? (?:de |of )?{_MONTH}(?: de)? (?P<y>\d{{4}})",
        rf"{_MONTH} (?P<d>\d\d?)(?:st|nd|rd|th)?,? (?P<y>\d{{4}})",
    )
)
_CLOCK = re.compile(
    r"(?<![\d:.])(?P<h>\d\d?)[:.h](?P<min>\d\d)(?::\d\d)?(?: ?(?P<half>[ap])\.?m\b\.?)?(?![\d:])",
    re.IGNORECASE,
)

Place = tuple[str, str, int]
"""A place: the hashes of the blocks around it (empty at an end), and how many blocks it has."""


def digest_of(texts: Iterable[str]) -> str | None:
    """Return a hash of texts; None if there is no text.

    White space is left out, so that a new layout is no change.
    """
    text = "".join("".join(texts).split()).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:32] if text else None


def counting(blocks: Iterable[str], now: datetime | None = None) -> list[str]:
    """Return blocks without the present date and time, and the numbers of the page itself."""
    now = now or datetime.now(UTC)
    presents = now, now.astimezone()
    return [_counting(block, presents) for block in blocks if block and not block.isspace()]


def _counting(block: str, presents: tuple[datetime, ...]) -> str:
    if len(block) <= _SHORT_BLOCK and _OF_THE_PAGE.search(block):
        return _DIGITS.sub("0", block)
    for date in _DATES:
        block = date.sub(lambda found: "" if _is_today(found, presents[0]) else found[0], block)
    return _CLOCK.sub(lambda found: "" if _is_now(found, presents) else found[0], block)


def _is_today(found: "re.Match[str]", now: datetime) -> bool:
    named = found.groupdict()
    month = int(named.get("m") or 0) or next(
        number for number, names in enumerate(_MONTHS, 1) if named["month"].lower() in names
    )
    try:
        day = datetime(int(named["y"]), month, int(named["d"]), 12, tzinfo=UTC)
    except ValueError:
        return False
    return abs(day.date() - now.date()) <= _DAY


def _is_now(found: "re.Match[str]", presents: tuple[datetime, ...]) -> bool:
    hour, half = int(found["h"]), (found["half"] or "").lower()
    hour = hour % 12 + 12 * (half == "p") if half else hour
    if hour > 23 or int(found["min"]) > 59:
        return False
    clocks = (now.replace(hour=hour, minute=int(found["min"]), second=30) for now in presents)
    return any(abs(clock - now) <= _MINUTES for clock, now in zip(clocks, presents, strict=True))


def hashed(blocks: Iterable[str]) -> tuple[str, ...]:
    """Return a short hash of each block."""
    return tuple(map(_hashed, blocks))


def alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether nearly all blocks of a page, as hashes, stand on another one."""
    there = set(other)
    return bool(one) and sum(block in there for block in one) >= 0.9 * len(one)


def places_of(one: Sequence[str], other: Sequence[str]) -> list[Place]:
    """Return the places where two readings of the same minute differ; none where they are many.

    Nor where something was moved: then it is not known what belongs where.
    """
    first, second = hashed(one), hashed(other)
    steady = set(first) & set(second)
    gaps, others = list(_gaps(first, steady)), list(_gaps(second, steady))
    if [gap[:2] for gap in gaps] != [gap[:2] for gap in others]:
        return []
    found = [
        (before, after, max(len(there), len(here)))
        for (before, after, there), (_, _, here) in zip(gaps, others, strict=True)
        if there != here
    ]
    known = len(found) <= _MOST_PLACES and without(one, found) == without(other, found)
    return found if known else []


def without(blocks: Sequence[str], places: Iterable[Sequence[object]]) -> list[str]:
    """Return the blocks that do not stand in one of these places.

    Where a place has more than it had, something else was added, and all of it counts.
    """
    hashes, left_out = ["", *hashed(blocks), ""], set[int]()
    for before, after, size in places:
        for start, each in enumerate(hashes):
            end = start + 1
            while each == before and end < len(hashes) and hashes[end] != after:
                end += 1
            if each == before and end < len(hashes) and end - start - 1 <= int(str(size)):
                left_out.update(range(start + 1, end))
    return [block for number, block in enumerate(blocks, 1) if number not in left_out]


def _gaps(hashes: Sequence[str], steady: set[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield what stands between each two steady blocks, or at an end, and these two."""
    at = [-1, *(place for place, each in enumerate(hashes) if each in steady), len(hashes)]
    for start, end in pairwise(at):
        before = hashes[start] if start >= 0 else ""
        yield before, hashes[end] if end < len(hashes) else "", tuple(hashes[start + 1 : end])


def _hashed(block: str) -> str:
    text = "".join(block.split()).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=_SIZE).hexdigest()
