"""The clients that every class holds."""

import logging
import pickle

import httpx
import pytest

from calls import KEY
from knowledge_bot import AsyncClient, Client
from llama_index_knowledge_bot import CollectionSink, KnowledgeBotLLM

ELSEWHERE = "https://service.example"


@pytest.mark.parametrize(
    "made_with",
    [
        lambda **clients: KnowledgeBotLLM("bot_1", **clients),
        lambda **clients: CollectionSink("col_1", ledger="ledger.db", **clients),
    ],
    ids=["llm", "sink"],
)
@pytest.mark.parametrize("transport", ["sync", "async"])
def test_a_client_that_cannot_be_pickled_is_not_swapped_for_another(
    transport, made_with, monkeypatch, caplog
):
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", ELSEWHERE)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key-of-another-account")
    if transport == "sync":
        own = {"client": Client(KEY, ELSEWHERE, http_client=httpx.Client())}
    else:
        own = {"async_client": AsyncClient(KEY, ELSEWHERE, http_client=httpx.AsyncClient())}
    component = made_with(**own)
    with caplog.at_level(logging.CRITICAL), pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(component)
