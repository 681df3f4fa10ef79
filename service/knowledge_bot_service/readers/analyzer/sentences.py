"""Splitting a text into sentences."""

# Letters of many scripts look alike, and lists of words read best as words.
# ruff: noqa: RUF001, SIM905

import re
from collections.abc import Iterator
from typing import Final


def sentences(text: str) -> list[str]:
    """Split a text into its sentences, in order, each on one line and without outer spaces.

    A sentence ends at a terminator of its script, unless an abbreviation, an initial or an ordinal
    makes it a part of the sentence; at a blank line; and at a line end, when the next line is a
    list item, or the line is too short to be a wrapped one: headings and list items are sentences
    of their own. Thai has no terminators: there, pieces between spaces are joined to clauses.
    """
    return [sentence for line in _unwrapped(text) for sentence in _split(line)]


# A line shorter than this many characters was not wrapped: it ends where its author ended it.
_MIN_WRAPPED: Final = 50

# Thai pieces between spaces are joined up to this many characters: two of them fill an answer.
_THAI_PIECE: Final = 150

_LIST_ITEM: Final = re.compile(r"\s*(?:[-*+•‣–—]|\(?\d{1,3}[.)]|[a-z][.)])\s+\S")
_LOWERCASE_START: Final = re.compile(r"\s*[\"'“‘(]?[a-zà-öø-ÿα-ωа-я]")

# Terminators that need no space after them (Chinese, Japanese, Hindi, Urdu, Armenian, Khmer), and
# those that do, because they are in numbers, addresses and names as well.
_END: Final = re.compile(
    r"(?P<full>[。！？｡।॥۔։។]+[”’」』）》\"')\]]*\s*)"
    r"|(?P<spaced>(?<![.!?…؟])[.!?…؟]++[\"'”’»)\]]*(?:\[\d+\])*\s+)(?=[\"'“‘«¿¡(\[]*(?P<next>\S{1,40}))"
)
_LAST_WORD: Final = re.compile(r"[^\s(\[\"'“‘«]{1,20}$")
_DOTTED: Final = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_ORDINAL: Final = re.compile(r"\d{1,2}")
_THAI: Final = re.compile("[\u0e01-\u0e4e]")

_ABBREVIATIONS: Final = frozenset(
    "abb abs adm al approx apr art asst aug ave bd bl bldg brig bzgl bzw ca cap capt cdr cf ch"
    " chap cie cmdr co col comdr corp cpl dec dept dipl dist div dott dr dra ed eds eg env esp"
    " est etc evtl feb ff fig figs fr ft gal gen ggf gov govt gr hon hr hrsg ie inc incl ing"
    " inkl jan jr jul jun lb lt ltd maj mar max mgr min mio mlle mme mr mrd mrs ms msgr mt mts"
    " nat no nos nov nr oct op oz pag pfc ph pl pp prof pt pvt rd ref rep rev rt sect sen sep"
    " sept ser sgt sig sog sr sra srta st sta str supt tab tel univ usw vgl viz vol vols vs zb"
    " zzgl г им руб стр тыс ул".split()
)

# Words that begin a sentence, and hardly ever a name: after an abbreviation they decide.
_STARTERS: Final = frozenset(
    "A After All Although An And As At Because Before But By During Each Every For From He Her His"
    " How However I If In It Its Many Most No Not On Once One Only Other Our She Since So Some Such"
    " That The Their Then There These They This Those Thus To Under Until We What When Where While"
    " With You Das Der Die Ein Eine Er Es Im In Sie Wir Il Elle La Le Les El Los Las Un Una".split()
)


def _unwrapped(text: str) -> Iterator[str]:
    """The text's lines, those joined that were wrapped."""
    together: list[str] = []
    for line in text.splitlines():
        stripped = " ".join(line.split())
        if together and not (stripped and _goes_on(together[-1], line)):
            yield " ".join(together)
            together = []
        if stripped:
            together.append(stripped)
    if together:
        yield " ".join(together)


def _goes_on(last: str, line: str) -> bool:
    if _LIST_ITEM.match(line):
        return False
    return len(last) >= _MIN_WRAPPED or bool(_LOWERCASE_START.match(line))


def _split(line: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(line):
        if end["full"] or _is_end(line, start, end):
            yield from _clauses(line[start : end.end()].strip())
            start = end.end()
    yield from _clauses(line[start:].strip())


def _is_end(line: str, start: int, end: re.Match[str]) -> bool:
    following = end["next"]
    if following[0].islower():
        return False
    if not end["spaced"].startswith(". "):
        return True
    last = _LAST_WORD.search(line, max(start, end.start() - 20), end.start())
    if last is None:
        return True
    word = last.group()
    if _ORDINAL.fullmatch(word) and last.start() == start:
        return False
    if _DOTTED.fullmatch(word) or _ORDINAL.fullmatch(word) or word.casefold() in _ABBREVIATIONS:
        return following.rstrip(",;:") in _STARTERS
    return True


def _clauses(sentence: str) -> Iterator[str]:
    if not _THAI.search(sentence):
        if sentence:
            yield sentence
        return
    together = ""
    for piece in sentence.split(" "):
        if together and len(together) + len(piece) >= _THAI_PIECE:
            yield together
            together = piece
        else:
            together = f"{together} {piece}" if together else piece
    if together:
        yield together
