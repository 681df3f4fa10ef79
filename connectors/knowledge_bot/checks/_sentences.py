"""What a document alone says: its most distinctive sentences, and whether a text holds one.

A sentence is compared by its letters and digits in runs of five, so that neither line breaks nor
most markup make a difference, in any script.
"""

import html
import math
import re
import statistics
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from knowledge_bot._answers import folded

_SHORTEST, _LONGEST = 40, 260
_FEWEST_LETTERS = 12  # of a line that is asked for where there is no sentence
_FEWEST_WORDS = 5
_ASKED = 7  # words
_RUN = 5
_SHARE = 0.85  # of a sentence's runs that a text has to have

_PAIRS = 1 << 24  # places that pairs of words share, by their checksums
_OWN = 0.3  # of a sentence's pairs, which no other document has

_WORD = re.compile(r"\w+")
# What is no prose: front matter, fenced code, comments, where links lead, directives.
_ASIDE = re.compile(
    r"\A---\n.*?\n---\n|^(```|~~~).*?^\s*\1|<!--.*?-->|^\s*(?:\[[^\]]+\]:|:::|\.\.)\s.*?$",
    re.DOTALL | re.MULTILINE,
)
# Where something new begins: after an empty line, and at lists, headings, quotes, tables, fields.
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+•#>|:.=~!?]|\d+[.)]\s))")
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。\uff01\uff1f])")
_BULLET = re.compile(r"^\s*(?:[-*+•>]+|#+|\d+[.)])\s+")
# What stands behind the words of a link, roles, and tags: a service shows them or not.
_TARGET = re.compile(r"(?<=\])(?:\([^()\s]*\)|\[[^\]]*\])|:[\w:+-]+:(?=`)|<[^<>\n]*>")
_ENDS = tuple(".!?…:)。\uff01\uff1f\"'\u2019\u201d")  # of what is no heading, and no code
_MARKUP = re.compile(r"[`<>\[\]{}|*_\\=~^$]|https?:|::")


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, each once; of one that has none, its lines."""
    prose = html.unescape(_ASIDE.sub("\n\n", text.replace("\r\n", "\n")))
    found = [
        " ".join(_BULLET.sub("", one).split())
        for block in _BLOCK.split(prose)
        for one in _SENTENCE.split(block)
    ]
    said = [one for one in found if len(letters(one)) >= _FEWEST_LETTERS]
    return [*dict.fromkeys(list(filter(_is_whole, said)) or said)]


def _is_whole(line: str) -> bool:
    """Return whether a line is a sentence, by its length, and by its words where it has any."""
    is_long = _SHORTEST <= len(line) <= _LONGEST
    return is_long and (len(words(line)) >= _FEWEST_WORDS or not line.isascii())


def words(text: str) -> list[str]:
    """Return the words of a text, in order."""
    return _WORD.findall(folded(text))


def letters(text: str) -> str:
    """Return what texts have in common that are the same but for blanks and punctuation."""
    return "".join(words(_TARGET.sub("", text))).replace("_", "")


class Corpus:
    """How rare words are among documents, and which pairs of them one document has alone."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._with_word: Counter[str] = Counter()
        self._with_pair = bytearray(_PAIRS)  # none, one, or several documents
        self._count = 0
        for text in texts:
            self._count += 1
            said = words(text)
            self._with_word.update({*said})
            for place in {*_pairs(said)}:
                self._with_pair[place] = min(2, self._with_pair[place] + 1)

    def distinctive(self, text: str, count: int) -> list[str]:
        """Return the sentences of a document that say most about which one it is, best first.

        Of a sentence that another document has, or one much like it, nothing could be told; one
        that holds markup, which the service may show otherwise, is taken where there is no other.
        """
        own = [one for one in sentences(text) if self._is_own(one)]
        clean = [one for one in own if not _MARKUP.search(one)] or own
        plain = [one for one in clean if one.endswith(_ENDS)] or clean
        return sorted(plain, key=self._commonness)[:count]

    def _is_own(self, sentence: str) -> bool:
        pairs = _pairs(words(sentence))
        return sum(self._with_pair[place] < 2 for place in pairs) >= _OWN * len(pairs)

    def _commonness(self, sentence: str) -> float:
        return -statistics.mean(map(self._rarity, words(sentence) or [""]))

    def question(self, sentence: str) -> str:
        """Return the rarest words of a sentence, in its order."""
        said: Mapping[str, None] = dict.fromkeys(words(_TARGET.sub("", sentence)))
        rarest = {*sorted(said, key=self._rarity, reverse=True)[:_ASKED]}
        return " ".join(word for word in said if word in rarest)

    def _rarity(self, word: str) -> float:
        return math.log((self._count + 1) / max(1, self._with_word[word]))


def holds(texts: Iterable[str], sentence: str) -> bool:
    """Return whether one of some texts says a sentence, in one place."""
    said = letters(sentence)
    wanted = _runs(said)
    return any(
        len(wanted & _runs(place)) >= _SHARE * len(wanted)
        for text in texts
        for place in _places(letters(text), len(said))
    )


def _places(text: str, length: int) -> Iterator[str]:
    """Yield parts of letters, each with room for something of a length and what stands in it."""
    for start in range(0, max(1, len(text)), max(1, length)):
        yield text[start : start + 3 * length]


def _runs(text: str) -> set[str]:
    return {text[start : start + _RUN] for start in range(max(1, len(text) - _RUN + 1))}


def _pairs(said: list[str]) -> list[int]:
    following = said[1:] or [""]
    return [
        zlib.crc32(f"{one} {two}".encode()) % _PAIRS
        for one, two in zip(said, following, strict=False)
    ]
