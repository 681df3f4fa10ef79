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


# Passages -----------------------------------------------------------------------------------------


def passage(number, **more):
    return {
        "id": f"pas_{number}",
        "source_id": f"src_{number}",
        "name": f"{number}.md",
        "text": f"Passage {number}.",
        "score": number / 2,
        "found": True,
        **more,
    }


@pytest.fixture
def searched(scripted):
    """A server that announces passages and finds these for each bot."""

    def start(**of_bots):
        def reply_to(request):
            return answer(body={"value": {"data": of_bots[request.json()["value"]["bot_id"]]}})

        announced = answer(body="pong", headers={"Knowledge-Bot-Extensions": "passages=1"})
        return scripted(on_ping=announced, reply_to=reply_to)

    return start


def test_passages_are_nodes_of_their_sources_and_no_bot_is_asked(retrieve, searched):
    server = searched(bot_1=[passage(1)])
    (found,) = retrieve(one_of(server), QUESTION)
    assert (found.score, found.node.node_id, found.node.ref_doc_id) == (0.5, "pas_1", "src_1")
    assert found.node.get_content(metadata_mode=MetadataMode.LLM) == "source: 1.md\n\nPassage 1."
    assert found.metadata["source"] == "1.md"
    (request,) = server.requests
    assert request.json() == {"value": {"query": QUESTION, "limit": 5, "bot_id": "bot_1"}}


def test_passages_of_several_bots_come_in_turn(retrieve, searched):
    server = searched(bot_1=[passage(1), passage(2)], bot_2=[passage(3, found=False)])
    several = {"bot_ids": ["bot_1", "bot_2"], "client": Client(KEY, server.url)}
    found = retrieve(KnowledgeBotRetriever(**several), QUESTION)
    assert [one.node.node_id for one in found] == ["pas_1", "pas_3", "pas_2"]
    found = retrieve(KnowledgeBotRetriever(**several, similarity_top_k=1), QUESTION)
    assert [one.node.node_id for one in found] == ["pas_1"]
    found = retrieve(KnowledgeBotRetriever(**several, drop_refusals=True), QUESTION)
    assert [one.node.node_id for one in found] == ["pas_1", "pas_2"]


def test_an_evaluator_recognises_a_passage(searched):
    from llama_index.core.evaluation import RetrieverEvaluator

    server = searched(bot_1=[passage(2), passage(1)])
    evaluator = RetrieverEvaluator.from_metric_names(["hit_rate", "mrr"], retriever=one_of(server))
    result = evaluator.evaluate(QUESTION, expected_ids=["pas_1"])
    assert result.metric_vals_dict == {"hit_rate": 1.0, "mrr": 0.5}
