"""Which failures Airflow may try again, and what a person learns of the others."""

import pytest

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.operators import (
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotSendMessageOperator,
    KnowledgeBotUploadSourceOperator,
)
from calls import KEY
from scripted_server import answer, close, silence


def text(**changes):
    given = {"name": "Hours", "collections": "col_house", "content": "We open at nine."} | changes
    return KnowledgeBotCreateTextSourceOperator(task_id="add_text", **given)


def question(**changes):
    given = {"bot_id": "bot_guide", "content": "When do you open?"} | changes
    return KnowledgeBotSendMessageOperator(task_id="ask", **given)


def upload(**changes):
    return KnowledgeBotUploadSourceOperator(task_id="upload", **{"name": "Hours"} | changes)


@pytest.mark.parametrize("conn_id", ["none_such", " "])
def test_a_connection_that_is_missing_is_named(conn_id):
    with pytest.raises(AirflowFailException, match=f"'knowledge_bot_conn_id'.*'{conn_id}'"):
        text(knowledge_bot_conn_id=conn_id).execute({})


def test_a_wrong_key_fails_for_good_and_names_the_connection(connected, connect):
    connect(connected.base_url, password="not-the-right-key")
    with pytest.raises(AirflowFailException, match=r"401.*connection 'knowledge_bot_default'"):
        text().execute({})


def test_a_wrong_base_url_fails_for_good(connected, connect):
    connect(connected.base_url.replace("/public/v1", "/nowhere/v1"))
    with pytest.raises(AirflowFailException, match="404"):
        text().execute({})


@pytest.mark.parametrize(
    "reply",
    [silence, close, answer(500), answer(200, b"{"), answer(302, headers={"Location": "/"})],
    ids=["silence", "close", "500", "200 unreadable", "302"],
)
@pytest.mark.parametrize("kind", ["text", "upload", "question"])
def test_a_post_that_may_have_arrived_is_not_sent_again(connect, scripted, tmp_path, reply, kind):
    server = scripted(reply)
    connect(server.url, timeout=0.5 if reply is silence else 30, default_collection_id="col_house")
    file = tmp_path / "tides.txt"
    file.write_text("High tide is at 6:12.")
    operator = {"text": text(), "upload": upload(file=str(file)), "question": question()}[kind]
    with pytest.raises(AirflowFailException) as caught:
        operator.execute({})
    assert len(server.requests) == 1
    assert KEY not in str(caught.value)
