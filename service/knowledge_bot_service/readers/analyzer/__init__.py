"""Text analysis: the terms of a text for the index, and of a question for the search."""

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.analyzer.questions import points_back, small_talk
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
    "index_terms",
    "index_terms_of",
    "points_back",
    "query_terms",
    "sentences",
    "small_talk",
]
