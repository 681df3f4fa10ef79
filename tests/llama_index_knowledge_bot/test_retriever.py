"""The retriever within the framework: what is shown, embedded and evaluated."""

import json

import pytest
from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.schema import MetadataMode, QueryBundle

from calls import passage
from knowledge_bot import ConfigurationError
from llama_index_knowledge_bot import KnowledgeBotRetriever

QUESTION = "When do you open?"


def finding(service, *passages):
    service.announcement = "passages=1"
    service.answer_next(200, json.dumps({"data": passages}).encode())


def test_only_the_answer_is_embedded_and_shown_to_a_model(retrieve, client):
    (found,) = retrieve(KnowledgeBotRetriever("bot_1", client=client), QUESTION)
    for mode in (MetadataMode.EMBED, MetadataMode.LLM):
        assert found.node.get_content(metadata_mode=mode) == "At nine."


def test_a_query_with_an_image_is_an_error_that_says_what_to_do_instead(retrieve, client, service):
    retriever = KnowledgeBotRetriever("bot_1", client=client)
    with pytest.raises(ConfigurationError, match="describe it"):
        retrieve(retriever, QueryBundle("What is it?", image_path="x.png"))
    assert service.requests == []


def test_passages_are_nodes_of_their_sources(retrieve, client, service):
    finding(service, passage(1, score=0.5))
    (found,) = retrieve(KnowledgeBotRetriever("bot_1", client=client), QUESTION)
    assert (found.score, found.node.ref_doc_id) == (0.5, "src_1")
    assert found.node.get_content(metadata_mode=MetadataMode.LLM) == "source: 1.md\n\nPassage 1."


def test_an_evaluator_recognises_a_passage(client, service):
    finding(service, passage(2), passage(1))
    retriever = KnowledgeBotRetriever("bot_1", client=client)
    evaluator = RetrieverEvaluator.from_metric_names(["hit_rate", "mrr"], retriever=retriever)
    result = evaluator.evaluate(QUESTION, expected_ids=["pas_1"])
    assert result.metric_vals_dict == {"hit_rate": 1.0, "mrr": 0.5}
