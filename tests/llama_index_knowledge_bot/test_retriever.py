"""The retriever against a real socket, within the framework's events and pipelines."""

import asyncio
import copy
import pickle

import httpx
import pytest
from llama_index.core.schema import IndexNode, MetadataMode, NodeWithScore, QueryBundle

from calls import KEY, MESSAGE
from knowledge_bot import (
    AsyncClient,
    Client,
    ConfigurationError,
)
from llama_index_knowledge_bot import KnowledgeBotRetriever
from scripted_server import answer

QUESTION = "When do you open?"
BOTS = ["bot_1", "bot_2", "bot_3"]
ELSEWHERE = "https://service.example"


def one_of(server, **options):
    return KnowledgeBotRetriever("bot_1", client=Client(KEY, server.url, **options))


@pytest.mark.parametrize("query", [QUESTION, QueryBundle(QUESTION)])
def test_the_answer_is_one_node(retrieve, scripted, query):
    server = scripted(answer(body={"value": MESSAGE}))
    (found,) = retrieve(one_of(server), query)
    assert isinstance(found, NodeWithScore)
    assert found.score == 1.0
    assert found.node.node_id == "msg_1"
    assert found.node.metadata == {
        "bot_id": "bot_1",
        "conversation_id": "conv_1",
        "message_id": "msg_1",
        "created_at": 1_700_000_000_456,
        "sources": [],
        "found": True,
    }
    assert server.requests[0].json() == {"value": {"bot_id": "bot_1", "content": QUESTION}}


def test_only_the_answer_is_embedded_and_shown_to_a_model(retrieve, scripted):
    (found,) = retrieve(one_of(scripted(answer(body=MESSAGE))), QUESTION)
    for mode in (MetadataMode.EMBED, MetadataMode.LLM):
        assert found.node.get_content(metadata_mode=mode) == "At nine."


def test_what_an_answer_says_of_itself_is_in_the_metadata(retrieve, scripted):
    said = {**MESSAGE, "answer": "Nichts gefunden.", "sources": [], "found": False}
    (found,) = retrieve(one_of(scripted(answer(body=said))), QUESTION)
    assert (found.metadata["sources"], found.metadata["found"]) == ([], False)
    named = {**MESSAGE, "sources": [{"name": "Hours, old.md"}, {"name": "b.md"}]}
    (found,) = retrieve(one_of(scripted(answer(body=named))), QUESTION)
    assert (found.metadata["sources"], found.metadata["found"]) == (["Hours, old.md", "b.md"], True)


def test_a_query_with_an_image_is_an_error_that_says_what_to_do_instead(retrieve, scripted):
    server = scripted(answer(body=MESSAGE))
    with pytest.raises(ConfigurationError, match="describe it"):
        retrieve(one_of(server), QueryBundle("What is it?", image_path="x.png"))
    assert server.requests == []


@pytest.mark.parametrize(
    "bots",
    [{}, {"bot_id": "bot_1", "bot_ids": ["bot_2"]}, {"bot_ids": []}, {"bot_ids": "bot_1"}],
    ids=["none", "both", "empty", "text"],
)
def test_one_bot_or_several_are_named(bots):
    with pytest.raises(ConfigurationError, match="bot"):
        KnowledgeBotRetriever(**bots, client=Client(KEY, ELSEWHERE))


def test_a_misspelt_argument_is_an_error():
    with pytest.raises(TypeError, match="clinet"):
        KnowledgeBotRetriever("bot_1", clinet=Client(KEY, ELSEWHERE))


def test_without_a_client_the_environment_names_the_service(retrieve, scripted, monkeypatch):
    with pytest.raises(ConfigurationError, match="set KNOWLEDGE_BOT_BASE_URL"):
        KnowledgeBotRetriever("bot_1")
    server = scripted(answer(body=MESSAGE))
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", server.url)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    retrieve(KnowledgeBotRetriever("bot_1"), QUESTION)
    assert server.requests[0].headers["x-api-key"] == KEY


def test_the_key_shows_in_no_representation():
    retriever = KnowledgeBotRetriever("bot_1", client=Client(KEY, ELSEWHERE))
    assert repr(retriever) == (
        "KnowledgeBotRetriever(bot_ids=['bot_1'], "
        "client=Client(base_url='https://service.example/public/v1'))"
    )
    node = IndexNode(index_id="hours", text="Opening hours", obj=retriever)
    # The framework cannot write any retriever down, and quotes it when it says so.
    with pytest.raises(ValueError, match="not serializable") as caught:
        node.to_json()
    assert KEY not in "".join([repr(vars(retriever)), repr(node), str(caught.value)])


def pickled(retriever):
    return pickle.loads(pickle.dumps(retriever))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_a_duplicate_keeps_the_client(retrieve, scripted, duplicate):
    server = scripted(answer(body=MESSAGE))
    retriever = one_of(server)
    retrieve(retriever, QUESTION)
    retrieve(duplicate(retriever), QUESTION)
    assert [request.headers["x-api-key"] for request in server.requests] == [KEY, KEY]


def test_an_own_transport_is_never_gone_around(scripted):
    server = scripted(answer(body=MESSAGE))
    with httpx.Client() as http_client:
        client = Client(KEY, server.url, http_client=http_client)
        retriever = KnowledgeBotRetriever("bot_1", client=client)
        assert retriever.retrieve(QUESTION)
        with pytest.raises(ConfigurationError, match="async_client="):
            asyncio.run(retriever.aretrieve(QUESTION))
        both = KnowledgeBotRetriever(
            "bot_1", client=client, async_client=AsyncClient("other-key", server.url)
        )
        assert asyncio.run(both.aretrieve(QUESTION))
    assert [r.headers["x-api-key"] for r in server.requests] == [KEY, "other-key"]
