"""Text analysis: the terms of a text for the index, and of a question for the search."""

from knowledge_bot_service.readers.analyzer.blocks import Block, captions
from knowledge_bot_service.readers.analyzer.definitions import defines
from knowledge_bot_service.readers.analyzer.questions import goes_on, points_back, small_talk
from knowledge_bot_service.readers.analyzer.sentences import sentences
from knowledge_bot_service.readers.analyzer.terms import (
    QueryTerms,
    index_terms,
    index_terms_of,
    query_terms,
)

__all__ = [
    "Block",
    "QueryTerms",
    "captions",
    "defines",
    "goes_on",
    "index_terms",
    "index_terms_of",
    "points_back",
    "query_terms",
    "sentences",
    "small_talk",
]
