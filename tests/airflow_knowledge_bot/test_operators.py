"""What the operators send and hand on, what cannot be sent, and what may be tried again."""

from pathlib import Path

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.operators import (
    KnowledgeBotCheckOperator,
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotCreateWebpageSourceOperator,
    KnowledgeBotIngestOperator,
    KnowledgeBotSendMessageOperator,
    KnowledgeBotUploadSourceOperator,
)
from airflow_knowledge_bot.sensors import KnowledgeBotAnswerSensor, KnowledgeBotPingSensor
from calls import KEY, MESSAGE, SOURCE
from scripted_server import answer, close, silence

OPERATORS = [
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotCreateWebpageSourceOperator,
    KnowledgeBotSendMessageOperator,
    KnowledgeBotUploadSourceOperator,
]
ALL = [
    *OPERATORS,
    KnowledgeBotAnswerSensor,
    KnowledgeBotCheckOperator,
    KnowledgeBotIngestOperator,
    KnowledgeBotPingSensor,
]


def text(**changes):
    given = {"name": "Hours", "collections": "col_house", "content": "We open at nine."} | changes
    return KnowledgeBotCreateTextSourceOperator(task_id="add_text", **given)


def page(**changes):
    given = {"name": "Hours", "url": "https://page.example/hours"} | changes
    return KnowledgeBotCreateWebpageSourceOperator(task_id="add_page", **given)


def upload(**changes):
    return KnowledgeBotUploadSourceOperator(task_id="upload", **{"name": "Hours"} | changes)


def question(**changes):
    given = {"bot_id": "bot_guide", "content": "When do you open?"} | changes
    return KnowledgeBotSendMessageOperator(task_id="ask", **given)


def rendered(operator, **context):
    operator.render_template_fields(context)
    return operator


@pytest.mark.parametrize("kind", [str, Path, lambda p: f"file://{p}", ObjectStoragePath])
def test_a_file_may_be_a_path_an_address_or_an_object(connect, scripted, tmp_path, kind):
    server = scripted(answer(body={"value": SOURCE}))
    connect(server.url, default_collection_id="col_house")
    file = tmp_path / "tides.txt"
    file.write_bytes(b"High tide is at 6:12.")
    upload(file=kind(file)).execute({})
    body = server.requests[0].body
    assert b'filename="tides.txt"' in body
    assert b"High tide is at 6:12." in body


def test_a_large_object_is_streamed(connect, scripted, tmp_path):
    import tracemalloc

    server = scripted(answer(body={"value": SOURCE}), keep_bodies=False)
    connect(server.url, default_collection_id="col_house")
    file = tmp_path / "large.txt"
    file.write_bytes(b"What is loaded by the first call is not of this file.")
    operator = upload(file=f"file://{file}", filename="other.txt")
    operator.execute({})
    with file.open("wb") as stream:
        stream.truncate(48 * 1024 * 1024)
    tracemalloc.start()
    operator.execute({})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 * 1024 * 1024


def test_what_is_sent_is_what_the_task_was_given(connect, scripted):
    server = scripted(answer(body={"value": SOURCE}))
    connect(server.url)
    page(collections=["col_a", "col_b"], headers={"Accept-Language": "de"}).execute({})
    (request,) = server.requests
    assert request.path == "/public/v1/sources/webpage"
    assert request.json() == {
        "value": {
            "name": "Hours",
            "collections": ["col_a", "col_b"],
            "url": "https://page.example/hours",
            "headers": [{"name": "Accept-Language", "value": "de"}],
        }
    }


def test_the_connection_gives_the_bot_and_the_collection_that_a_task_names_not(connect, scripted):
    server = scripted(answer(body={"value": SOURCE}), answer(body={"value": MESSAGE}))
    connect(server.url, default_bot_id="bot_d", default_collection_id="col_d")
    page().execute({})
    question(bot_id=None).execute({})
    assert server.requests[0].json()["value"]["collections"] == ["col_d"]
    assert server.requests[1].json()["value"]["bot_id"] == "bot_d"


def test_only_documented_fields_go_to_xcom(connect, scripted):
    more = SOURCE | {"secret": "x", "collections": [{"id": "col_1", "name": "H", "more": 1}]}
    connect(scripted(answer(body={"value": more})).url)
    assert text().execute({}) == SOURCE | {"collections": [{"id": "col_1", "name": "H"}]}


def test_every_string_parameter_is_a_template(connect, scripted):
    server = scripted(answer(body={"value": MESSAGE}))
    connect(server.url)
    operator = question(bot_id="bot_{{ it }}", content="{{ it }}?", conversation_id="conv_{{ it }}")
    rendered(operator, it="x1").execute({})
    assert server.requests[0].json()["value"] == {
        "bot_id": "bot_x1",
        "content": "x1?",
        "conversation_id": "conv_x1",
    }


def test_a_template_s_end_is_not_taken_for_a_file_name():
    # Airflow reads strings that end in a `template_ext` as files: a page's address is none.
    for operator in ALL:
        assert operator.template_ext == ()
    assert rendered(text(content="See notes.md")).content == "See notes.md"


@pytest.mark.parametrize("operator", ALL)
def test_renderers_are_for_template_fields(operator):
    assert set(operator.template_fields_renderers) <= set(operator.template_fields)
    assert "knowledge_bot_conn_id" in operator.template_fields


@pytest.mark.parametrize(
    ("operator", "parameter"),
    [
        (text(content="{{ nothing }}"), "content"),
        (text(name=" "), "name"),
        (text(collections=[]), "collections"),
        (text(collections=["col_house", "{{ nothing }}"]), "collections"),
        (page(url="{{ nothing }}"), "url"),
        (question(bot_id="{{ nothing }}"), "bot_id"),
        (upload(file="{{ nothing }}"), "file"),
    ],
)
def test_a_value_that_renders_empty_is_named_and_nothing_is_sent(
    connect, scripted, operator, parameter
):
    server = scripted(answer(body={"value": SOURCE}))
    connect(server.url, default_collection_id="col_house")
    with pytest.raises(AirflowFailException, match=f"'{parameter}' is empty once it is rendered"):
        rendered(operator, nothing="").execute({})
    assert server.requests == []


@pytest.mark.parametrize(
    ("operator", "parameter"),
    [
        (question(bot_id="col_1"), "bot_id"),
        (question(content=7), "content"),
        (page(url="no-address", collections="col_1"), "url"),
    ],
)
def test_a_value_that_cannot_be_sent_is_named(connect, operator, parameter):
    connect("https://svc.example")
    with pytest.raises(AirflowFailException, match=f"{parameter}: "):
        operator.execute({})


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_a_file_that_is_gone_fails_for_good_and_is_named(good, tmp_path, form):
    gone = tmp_path / "gone.txt"
    with pytest.raises(AirflowFailException, match=r"file.*No such file.*gone\.txt"):
        upload(file=form.format(gone), collections="col_house").execute({})
    assert good.requests == []


def test_storage_that_nothing_is_installed_for_is_named(connect):
    connect("https://svc.example", default_collection_id="col_house")
    with pytest.raises(AirflowFailException, match=r"'file' cannot be read: .*nosuch://bucket/key"):
        upload(file="nosuch://bucket/key").execute({})


# Failures -----------------------------------------------------------------------------------------


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
