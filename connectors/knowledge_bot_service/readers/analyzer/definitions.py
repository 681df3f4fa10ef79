"""What a text says the meaning of: the word before "is", "means" or a colon."""

import functools
import re
from typing import Final

from knowledge_bot_service.readers.analyzer.terms import QueryTerms, index_terms_of

# What a sentence or an item of a list begins with, up to what says the meaning of it. "In law, a
# deed is": where that holds is no part of it.
_DEFINED: Final = re.compile(
    r"(?:^|[.!?]\s+|\n)[\s*+-]*(?:(?:in|for|within|im|in der) [^\n,.:]{1,40}, )?"
    r"(?:(?:an?|the|eine?|der|die|das) )?([^\n.:!?]{2,60}?)"
    r"(?: is (?=(?:an?|the|one|any|every|what|how|when|where|who) )| ist (?=(?:eine?|der|die|das) )"
    r"| (?:are|means?|stands for|refers to|sind|bedeutet|heißt) |: )",
    re.IGNORECASE,
)
_ASIDE: Final = re.compile(r"\s*\(([^()]*)\)")

# The definitions of so many texts are remembered, some 1 MB: questions go to the same ones.
_REMEMBERED: Final = 2000


def defines(text: str, terms: QueryTerms) -> bool:
    """Whether a text says what the words of a question, and no others, mean.

    Args:
        text: a passage, or a sentence of it.
        terms: the question's.
    """
    asked = {form for word in terms.terms for form in word}
    return any(
        subject <= asked and all(not subject.isdisjoint(word) for word in terms.terms)
        for subject in _defined(text)
    )


@functools.lru_cache(maxsize=_REMEMBERED)
def _defined(text: str) -> frozenset[frozenset[str]]:
    """The terms of each word that the text says the meaning of; an abbreviation is one as well."""
    subjects = []
    for found in _DEFINED.finditer(text):
        subjects += [_ASIDE.sub("", found[1]), *_ASIDE.findall(found[1])]
    return frozenset(frozenset(terms) for terms in index_terms_of(subjects) if terms)
