"""Text analysis: the terms of a text for the index, and of a question for the search."""

from knowledge_bot_service.analyzer.blocks import Block, blocks, captions
from knowledge_bot_service.analyzer.definitions import defines
from knowledge_bot_service.analyzer.questions import goes_on, small_talk
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
    "captions",
    "defines",
    "goes_on",
    "index_terms",
    "index_terms_of",
    "query_terms",
    "sentences",
    "small_talk",
]
