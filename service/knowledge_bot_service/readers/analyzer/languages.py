"""What is known about languages: their function words, question words and stemmers.

The lists of `languages.toml` serve two ends: distinguishing languages of one script (function words
are in every sentence), and taking words out of a question that say nothing about its subject.
"""

import functools
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.resources import files
from itertools import chain
from typing import Any, Final

_LANGUAGES: Final[dict[str, dict[str, Any]]] = tomllib.loads(
    files(__package__).joinpath("languages.toml").read_text(encoding="utf-8")
)

DEFAULT: Final = "en"

STEMMERS: Final = {code: one["stemmer"] for code, one in _LANGUAGES.items() if "stemmer" in one}
"""Stemmers by language. A language without one (Vietnamese, Hebrew, …) is indexed word by word."""

IN_PAIRS: Final = frozenset(code for code, one in _LANGUAGES.items() if "in_pairs" in one)
"""Languages that are indexed by pairs of characters."""

PAIRED_CHARACTERS: Final = "".join(_LANGUAGES[code]["script"] for code in IN_PAIRS)
"""The characters of these, as ranges of a regular expression."""

_SCRIPTS: Final = {
    code: re.compile(f"[{one['script']}]") for code, one in _LANGUAGES.items() if "script" in one
}

# Languages in pairs have no word boundaries to look at: what asks or joins is cut out of the run.
_CUTS: Final = {
    code: re.compile("|".join(sorted(one["cut_out"].split(), key=len, reverse=True)))
    for code, one in _LANGUAGES.items()
    if "cut_out" in one
}

# Particles at the end of a Korean word.
_KOREAN_PARTICLE: Final = re.compile(
    "(?<=[가-힣]{2})(?:에서는|에서|으로|에게|까지|부터|은|는|이|가|을|를|의|에|로|와|과|도|만)(?![가-힣])"
)

STOP_WORDS: Final = {
    code: frozenset(f"{one.get('asking', '')} {one.get('joining', '')}".casefold().split())
    for code, one in _LANGUAGES.items()
}
"""Casefolded words, by language, that say nothing about the subject of a question."""

# The languages that a word, or a letter, speaks for.
_TOLD_BY_WORD: Final[dict[str, list[str]]] = {}
_TOLD_BY_LETTER: Final[dict[str, list[str]]] = {}
for _code, _language in _LANGUAGES.items():
    for _word in STOP_WORDS[_code]:
        _TOLD_BY_WORD.setdefault(_word, []).append(_code)
    for _letter in _language.get("letters", ""):
        _TOLD_BY_LETTER[_letter] = [_code]

# What was told of so many words and characters is remembered.
_REMEMBERED: Final = 10_000


@functools.lru_cache(maxsize=_REMEMBERED)
def script_language(word: str) -> str | None:
    """The language that a word's script stands for; None for Latin script and for digits."""
    return next((code for code, script in _SCRIPTS.items() if script.match(word)), None)


def latin_languages(words: Iterable[str]) -> list[str]:
    """The languages in Latin script that the words may be in, the likeliest first.

    The words are casefolded.

    Returns:
        The language with most words that tell it among `words`, and those that have as many; empty
        when no word tells anything.
    """
    counts = Counter(chain.from_iterable(map(_told_by, words)))
    most = max(counts.values(), default=0)
    return [code for code in _LANGUAGES if counts and counts[code] == most]


@functools.lru_cache(maxsize=_REMEMBERED)
def _told_by(word: str) -> Sequence[str]:
    """The languages that a word speaks for."""
    if known := _TOLD_BY_WORD.get(word):
        return known
    return next((_TOLD_BY_LETTER[letter] for letter in word if letter in _TOLD_BY_LETTER), ())


def main_language(words: Iterable[str]) -> str:
    """The language of a text, as an ISO 639-1 code; `DEFAULT` if it is not recognised."""
    words = list(words)
    scripts = Counter(map(script_language, chain.from_iterable(words)))
    if "ja" in scripts and "zh" in scripts:
        scripts["ja"] += scripts.pop("zh")
    script = scripts.most_common(1)[0][0] if scripts else None
    return script or next(iter(latin_languages(words)), DEFAULT)


def without_function_parts(run: str, language: str) -> str:
    """A run of a language that is indexed in pairs, with spaces where words asked or joined."""
    if language == "ko":
        run = _KOREAN_PARTICLE.sub(" ", run)
    cut = _CUTS.get(language)
    return cut.sub(" ", run) if cut else run
