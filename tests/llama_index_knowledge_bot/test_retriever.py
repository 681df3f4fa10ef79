"""The retriever against a real socket, within the framework's events and pipelines."""

import pytest
from llama_index.core.schema import MetadataMode, QueryBundle

from calls import KEY, MESSAGE, passage
from knowledge_bot import (
    Client,
    ConfigurationError,
)
from llama_index_knowledge_bot import KnowledgeBotRetriever
from scripted_server import answer

QUESTION = "When do you open?"
ELSEWHERE = "https://service.example"


def one_of(server, **options):
    return KnowledgeBotRetriever("bot_1", client=Client(KEY, server.url, **options))


def test_only_the_answer_is_embedded_and_shown_to_a_model(retrieve, scripted):
    (found,) = retrieve(one_of(scripted(answer(body=MESSAGE))), QUESTION)
    for mode in (MetadataMode.EMBED, MetadataMode.LLM):
        assert found.node.get_content(metadata_mode=mode) == "At nine."


def test_a_query_with_an_image_is_an_error_that_says_what_to_do_instead(retrieve, scripted):
    server = scripted(answer(body=MESSAGE))
    with pytest.raises(ConfigurationError, match="describe it"):
        retrieve(one_of(server), QueryBundle("What is it?", image_path="x.png"))
    assert server.requests == []


def test_passages_are_nodes_of_their_sources(retrieve, searched):
    (found,) = retrieve(one_of(searched(bot_1=[passage(1, score=0.5)])), QUESTION)
    assert (found.score, found.node.ref_doc_id) == (0.5, "src_1")
    assert found.node.get_content(metadata_mode=MetadataMode.LLM) == "source: 1.md\n\nPassage 1."


def test_an_evaluator_recognises_a_passage(searched):
    from llama_index.core.evaluation import RetrieverEvaluator

    server = searched(bot_1=[passage(2), passage(1)])
    evaluator = RetrieverEvaluator.from_metric_names(["hit_rate", "mrr"], retriever=one_of(server))
    result = evaluator.evaluate(QUESTION, expected_ids=["pas_1"])
    assert result.metric_vals_dict == {"hit_rate": 1.0, "mrr": 0.5}
