"""The terms of a text for the index, and of a question for the search.

Python analyses, so that the index (an FTS5 table) sees finished terms. Porter's stemmer inside FTS5
reads a run of Chinese or Thai as one word: it finds a tenth to a fifth of what pairs of characters
find.
"""

# Letters of many scripts look alike, and lists of words read best as words.
# ruff: noqa: RUF001

import functools
import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Any, Final

from knowledge_bot_service.readers.analyzer.languages import (
    DEFAULT,
    IN_PAIRS,
    PAIRED_CHARACTERS,
    STEMMERS,
    STOP_WORDS,
    latin_languages,
    main_language,
    script_language,
    without_function_parts,
)


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """What a question searches for.

    Attributes:
        terms: for each significant word of the question, in its order, the forms that the index may
            have it in: its stems in the languages that the question may be in.
        language: the question's, an ISO 639-1 code.
        is_empty: whether the question has nothing but function words, which are its terms then.
    """

    terms: tuple[tuple[str, ...], ...]
    language: str
    is_empty: bool


def index_terms(text: str) -> list[str]:
    """The terms of a text, in its order.

    NFKC, casefolded; words reduced to their Snowball stem by the text's language (recognised by
    script and function words) and freed of diacritics; runs of Chinese, Japanese, Korean, Thai,
    Lao, Khmer and Burmese as overlapping pairs of characters.
    """
    return index_terms_of([text])[0]


def index_terms_of(parts: Iterable[str]) -> list[list[str]]:
    """The terms of each part of a text, as `index_terms`, in the language of the whole."""
    words = [_words(part) for part in parts]
    telling = islice(chain.from_iterable(words), _TELLING_WORDS)
    language = next(iter(latin_languages(telling)), DEFAULT)
    return [_terms(part, language) for part in words]


def query_terms(question: str) -> QueryTerms:
    """What to search for to answer a question.

    Function words and question words of the question's language are left out; when nothing else is
    there, they are searched for after all.
    """
    words = _words(question)
    language = main_language(words)
    latin = list(dict.fromkeys([*latin_languages(words), DEFAULT]))
    telling = _telling(words, language, latin[0])
    terms = dict.fromkeys(_forms(telling or words, latin))
    return QueryTerms(tuple(terms), language, is_empty=not telling)


# Most words of a text that are used to recognise its language.
_TELLING_WORDS: Final = 500

# Stems are remembered for this many words: the vocabulary of a large collection, about 20 MB.
_REMEMBERED_STEMS: Final = 100_000

# Vowel signs and the like are parts of words, but no letters to Python's \w. They are in these
# blocks; scanning all of Unicode would take a tenth of a second at import.
_MARKS: Final = "".join(
    chr(point)
    for block in (range(0x0300, 0x3100), range(0xA600, 0xAC00), range(0xFE20, 0xFE30))
    for point in block
    if unicodedata.category(chr(point)) in {"Mn", "Mc"}
)
_FIRST_UNPAIRED: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_LETTER: Final = rf"[^\W_{PAIRED_CHARACTERS}]"
_UNPAIRED: Final = rf"{_LETTER}++(?:[{_MARKS}]++{_LETTER}*+)*+"

# A possessive 's belongs to no word. The other part of "l'eau" or "İstanbul'da" is a word.
_WORD: Final = re.compile(rf"([{PAIRED_CHARACTERS}]++|{_UNPAIRED})(?:['’]s(?!\w))?")
_PAIRED: Final = re.compile(rf"[{PAIRED_CHARACTERS}]")

# A name with a number in it; what stands for the signs between its parts is a letter to the index.
_NUMBER: Final = r"(?<![\w.-])(?=[^\s\d]{0,40}\d)[a-z0-9]{1,40}(?:[-.:/][a-z0-9]{1,40})+(?!\w)"
_WORD_OR_NUMBER: Final = re.compile(rf"{_NUMBER}|{_WORD.pattern}")
_JOINED: Final = re.compile(r"[-.:/]")
_JOINT: Final = "\ua78f"
_THOUSANDS: Final = re.compile(r"(?<=\d)[,.](?=\d{3}(?!\d))")

# Diacritics of Latin, Greek and Cyrillic, and the points of Hebrew and Arabic, are often left out.
# Those of other scripts are vowels.
_DIACRITIC: Final = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670]")
_UNDECOMPOSED: Final = str.maketrans({"ı": "i", "ø": "o", "ł": "l", "đ": "d", "œ": "oe", "æ": "ae"})

_stemming = threading.Lock()


def _words(text: str) -> list[str]:
    """The casefolded words of a text; a version, an article's number or a host's name as one too.

    In 3.4.0, B-2 and web-01, the parts say little.
    """
    words: list[str] = []
    for word in _WORD_OR_NUMBER.finditer(_normalized(text).casefold()):
        if word[1] is None:
            words.append(_JOINED.sub(_JOINT, word[0]))
            words += _WORD.findall(word[0])
        else:
            words.append(word[1])
    return words


def _normalized(text: str) -> str:
    return _THOUSANDS.sub("", unicodedata.normalize("NFKC", text))


def _terms(words: Iterable[str], latin: str) -> list[str]:
    terms: list[str] = []
    for word in words:
        if word[0] in _FIRST_UNPAIRED or not _PAIRED.match(word):
            terms.append(_stem(word, latin))
        else:
            terms.extend(_pairs(word))
    return terms


def _pairs(run: str) -> Iterable[str]:
    return map("".join, pairwise(run)) if len(run) > 1 else run


def _telling(words: Iterable[str], language: str, latin: str) -> list[str]:
    """The parts of a question's words that are worth searching for."""
    telling: list[str] = []
    for word in words:
        of_script = script_language(word)
        if _PAIRED.match(word):
            run_language = language if language in IN_PAIRS else of_script or language
            parts = without_function_parts(word, run_language).split()
            # The index has pairs: a single character is found only where it stands alone.
            telling += (part for part in parts if len(part) > 1)
        elif word not in STOP_WORDS.get(of_script or latin, ()):
            telling.append(word)
    return telling


def _forms(words: Iterable[str], latin: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The forms that the index may have each word in."""
    for word in words:
        if _PAIRED.match(word):
            yield from ((pair,) for pair in _pairs(word))
        else:
            spelt = _spellings(word) if "tr" in latin else [word]
            yield tuple(dict.fromkeys(_stem(one, language) for language in latin for one in spelt))


def _spellings(word: str) -> list[str]:
    """A Turkish word as it is in the index where a text has it in capitals, or does not.

    A capital I is the dotless letter's there, which casefolding does not know.
    """
    dotless = word.replace("i", "ı")
    return [word, word.replace("ı", "i"), dotless, dotless.replace("ı", "i", 1)]


@functools.lru_cache(maxsize=_REMEMBERED_STEMS)
def _stem(word: str, latin: str) -> str:
    name = STEMMERS.get(script_language(word) or latin)
    if name is not None:
        # A stemmer keeps the word it works on in itself.
        with _stemming:
            word = _stemmer(name).stemWord(word)
    return word if word.isascii() else _without_diacritics(word)


@functools.cache
def _stemmer(name: str) -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer(name)


def _without_diacritics(word: str) -> str:
    bare = _DIACRITIC.sub("", unicodedata.normalize("NFD", word))
    return unicodedata.normalize("NFC", bare).translate(_UNDECOMPOSED) or word
