"""Text analysis: the terms of a text for the index, and of a question for the search."""

from knowledge_bot_service.analyzer.blocks import Block, blocks
from knowledge_bot_service.analyzer.questions import is_small_talk
from knowledge_bot_service.analyzer.sentences import sentences
from knowledge_bot_service.analyzer.terms import (
    QueryTerms,
    index_terms,
    index_terms_of,
    query_terms,
)

__all__ = [
    "Block",
    "QueryTerms",
    "blocks",
    "index_terms",
    "index_terms_of",
    "is_small_talk",
    "query_terms",
    "sentences",
]
