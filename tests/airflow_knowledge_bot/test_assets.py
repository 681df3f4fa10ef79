"""Collections as assets, and what their events hold."""

import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_knowledge_bot.assets.knowledge_bot import (
    convert_asset_to_openlineage,
)
from airflow_knowledge_bot.operators import (
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotSendMessageOperator,
)
from answering_bot import StateStore

HANDBOOK = Asset("knowledgebot://svc.example/col_1")
ALIAS = AssetAlias("whatever_was_fed")
EXTRA = {"source_id": "src_1", "source_name": "n", "collections": ["col_1"]}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("knowledgebot://SVC.example:8443/col_1/", "knowledgebot://svc.example:8443/col_1"),
        ("knowledgebot://svc.example/col_1#part", "knowledgebot://svc.example/col_1"),
    ],
)
def test_an_asset_s_uri_is_normalised_when_its_dag_is_parsed(given, kept):
    assert Asset(given).uri == kept


@pytest.mark.parametrize(
    "given",
    [
        "knowledgebot://svc.example",
        "knowledgebot:///col_1",
        "knowledgebot://svc.example/bot_1",
        "knowledgebot://svc.example/col_1/more",
        "knowledgebot://svc.example/col_1?key=value",
        "knowledgebot://user@svc.example/col_1",
    ],
)
def test_an_asset_s_uri_that_names_no_collection_is_refused(given):
    with pytest.raises(ValueError, match="knowledgebot://"):
        Asset(given)


def test_an_asset_is_a_dataset_to_openlineage():
    pytest.importorskip("openlineage.client")
    dataset = convert_asset_to_openlineage(HANDBOOK, None)
    assert (dataset.namespace, dataset.name) == ("knowledgebot://svc.example", "col_1")


def adding(**options):
    return KnowledgeBotCreateTextSourceOperator(
        task_id="add", source_name="n", collections="col_1", content="c", **options
    )


def test_outlets_get_the_source_also_from_a_retry_that_sends_nothing(good):
    operator = adding(outlets=[HANDBOOK, ALIAS])
    store = StateStore()
    for _ in range(2):
        events = OutletEventAccessors()
        instance = type("TaskInstance", (), {"max_tries": 2})
        operator.execute({"outlet_events": events, "task_state_store": store, "ti": instance})
        assert events[HANDBOOK].extra == EXTRA
        # An alias becomes the collections that the source really went into.
        (resolved,) = events[ALIAS].asset_alias_events
        assert resolved.dest_asset_key.uri == "knowledgebot://service.test/col_1"
        assert resolved.extra == EXTRA
    assert len(good.requests) == 1


@pytest.mark.usefixtures("good")
def test_outlets_of_a_question_get_the_message():
    events = OutletEventAccessors()
    asking = KnowledgeBotSendMessageOperator(
        task_id="ask", bot_id="bot_guide", content="When?", outlets=[HANDBOOK]
    )
    result = asking.execute({"outlet_events": events})
    told = {"message_id": result["id"], "conversation_id": result["conversation_id"]}
    assert events[HANDBOOK].extra == told
