"""The framework's contracts, held by every class of this package."""

from typing import Any

import pytest

from calls import KEY
from knowledge_bot import Client, PaymentRequiredError
from llama_index_conformance.chat_engine import ChatEngineConformance
from llama_index_conformance.llm import LLMConformance
from llama_index_conformance.query_engine import QueryEngineConformance
from llama_index_conformance.retriever import RetrieverConformance
from llama_index_knowledge_bot import (
    KnowledgeBotChatEngine,
    KnowledgeBotLLM,
    KnowledgeBotQueryEngine,
    KnowledgeBotRetriever,
)

# A sync call that hangs would otherwise hold the suite for the default time.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]


class OurService:
    answer = "At nine."
    secret = KEY
    error = PaymentRequiredError
    ours: Any

    @pytest.fixture
    def start(self, start):
        return start

    def make(self, service, **options):
        return self.ours("bot_1", client=Client(KEY, service.url), **options)


class TestLLM(OurService, LLMConformance):
    ours = KnowledgeBotLLM

    def restored(self, service):
        return {"client": Client(KEY, service.url)}


class TestRetriever(OurService, RetrieverConformance):
    ours = KnowledgeBotRetriever


class TestQueryEngine(OurService, QueryEngineConformance):
    ours = KnowledgeBotQueryEngine


class TestChatEngine(OurService, ChatEngineConformance):
    ours = KnowledgeBotChatEngine
