"""What the operators of one request send and hand on, and what becomes of what fails."""

import tracemalloc
from pathlib import Path

import airflow.sdk
import pytest
from airflow.sdk import ObjectStoragePath

from airflow_knowledge_bot import operators
from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.sensors import KnowledgeBotAnswerSensor, KnowledgeBotPingSensor
from calls import KEY, SOURCE
from scripted_server import answer

# Of each operator of one request, parameters that can be sent.
GIVEN = {
    operators.KnowledgeBotCreateTextSourceOperator: {
        "source_name": "Hours",
        "collections": "col_house",
        "content": "We open at nine.",
    },
    operators.KnowledgeBotCreateWebpageSourceOperator: {
        "source_name": "Hours",
        "collections": ["col_a", "col_b"],
        "url": "https://page.example/hours",
        "scrape_headers": {"Accept-Language": "de"},
    },
    operators.KnowledgeBotUploadSourceOperator: {
        "source_name": "Hours",
        "collections": "col_house",
        "file": __file__,
        "filename": "hours.txt",
    },
    operators.KnowledgeBotSendMessageOperator: {
        "bot_id": "bot_guide",
        "content": "When do you open?",
        "conversation_id": None,
    },
}
TEXT, PAGE, UPLOAD, MESSAGE = GIVEN
ALL = [
    *GIVEN,
    KnowledgeBotAnswerSensor,
    operators.KnowledgeBotCheckOperator,
    operators.KnowledgeBotIngestOperator,
    KnowledgeBotPingSensor,
]


def task(operator, **changes):
    return operator(task_id="task", **GIVEN[operator] | changes)


def rendered(operator, **context):
    operator.render_template_fields(context)
    return operator


# What is sent, and handed on ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "path", "sent"),
    [
        (TEXT, "/sources/write", {"name": "Hours", "collections": ["col_house"]}),
        (
            PAGE,
            "/sources/webpage",
            {"name": "Hours", "headers": [{"name": "Accept-Language", "value": "de"}]},
        ),
        (UPLOAD, "/sources/upload", {"name": "Hours", "collections": ["col_house"]}),
        (MESSAGE, "/messages", {"bot_id": "bot_guide", "content": "When do you open?"}),
    ],
)
def test_what_is_sent_is_what_the_task_was_given(good, operator, path, sent):
    result = task(operator).execute({})
    (request,) = good.requests
    assert request.path == path
    given = {key: value for key, value in GIVEN[operator].items() if key in request.value}
    assert request.value == given | sent
    message = {"id", "answer", "conversation_id", "created_at"}
    assert set(result) == (message if operator is MESSAGE else set(SOURCE))


def test_the_connection_gives_the_bot_and_the_collection_that_a_task_names_not(connected):
    task(PAGE, collections=None).execute({})
    task(MESSAGE, bot_id=None).execute({})
    assert connected.requests[0].value["collections"] == ["col_house"]
    assert connected.requests[1].value["bot_id"] == "bot_guide"


def test_only_documented_fields_go_to_xcom(connect, scripted):
    more = SOURCE | {"secret": "x", "collections": [{"id": "col_1", "name": "H", "more": 1}]}
    connect(scripted(answer(body={"value": more})).url)
    assert task(TEXT).execute({}) == SOURCE | {"collections": [{"id": "col_1", "name": "H"}]}


@pytest.mark.parametrize("kind", [str, Path, "file://{}".format, ObjectStoragePath])
def test_a_file_may_be_a_path_an_address_or_an_object(good, tmp_path, kind):
    file = tmp_path / "tides.txt"
    file.write_bytes(b"High tide is at 6:12.")
    task(UPLOAD, file=kind(file), filename=None).execute({})
    assert good.requests[0].file == ("tides.txt", b"High tide is at 6:12.")


def test_a_large_object_is_streamed(connect, scripted, tmp_path):
    connect(scripted(answer(body={"value": SOURCE}), keep_bodies=False).url)
    file = tmp_path / "large.txt"
    file.write_bytes(b"What is loaded by the first call is not of this file.")
    operator = task(UPLOAD, file=f"file://{file}")
    operator.execute({})
    with file.open("wb") as stream:
        stream.truncate(48 * 1024 * 1024)
    tracemalloc.start()
    operator.execute({})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 * 1024 * 1024


def test_every_string_parameter_is_a_template(good):
    good.conversations["conv_x1"] = []
    given = {"content": "{{ it }}?", "conversation_id": "conv_{{ it }}"}
    operator = task(MESSAGE, bot_id="bot_{{ who }}", **given)
    rendered(operator, it="x1", who="guide").execute({})
    assert good.requests[0].value == {
        "bot_id": "bot_guide",
        "content": "x1?",
        "conversation_id": "conv_x1",
    }


def test_a_template_s_end_is_not_taken_for_a_file_name():
    # Airflow reads strings that end in a `template_ext` as files: a page's address is none.
    for operator in ALL:
        assert operator.template_ext == ()
    assert rendered(task(TEXT, content="See notes.md")).content == "See notes.md"


@pytest.mark.parametrize("operator", ALL)
def test_renderers_are_for_template_fields(operator):
    assert set(operator.template_fields_renderers) <= set(operator.template_fields)
    assert "knowledge_bot_conn_id" in operator.template_fields


# What cannot be sent ------------------------------------------------------------------------------

FIELDS = [(operator, name) for operator, given in GIVEN.items() for name in given]
MAY_BE_EMPTY = {"scrape_headers", "filename", "conversation_id", None}


@pytest.mark.parametrize(("operator", "name"), FIELDS)
def test_a_parameter_that_is_empty_or_no_text_is_named_and_nothing_is_sent(good, operator, name):
    values = (7, {}, []) if name in MAY_BE_EMPTY else (None, 7, {}, [], " ", "{{ nothing }}")
    for value in values:
        if name == "scrape_headers" and value in ({}, []):
            continue  # none
        broken = rendered(task(operator, **{name: value}), nothing="")
        with pytest.raises(AirflowFailException, match=name):
            broken.execute({})
    assert good.requests == []


@pytest.mark.parametrize(
    ("operator", "given", "said"),
    [
        (TEXT, {"collections": ["col_house", " "]}, "'collections' is empty once it is rendered"),
        (MESSAGE, {"bot_id": "col_1"}, "bot_id: "),
        (PAGE, {"url": "no-address"}, "url: "),
        (UPLOAD, {"file": "nosuch://bucket/key"}, "'file' cannot be read: .*nosuch://bucket/key"),
        (UPLOAD, {"file": "/nowhere/gone.txt"}, r"file.*No such file.*gone\.txt"),
        (UPLOAD, {"file": "file:///nowhere/gone.txt"}, r"file.*No such file.*gone\.txt"),
        (TEXT, {"knowledge_bot_conn_id": "none_such"}, "'knowledge_bot_conn_id'.*'none_such'"),
        (TEXT, {"knowledge_bot_conn_id": " "}, "'knowledge_bot_conn_id' is empty"),
    ],
)
def test_what_cannot_be_sent_is_named_and_nothing_is_sent(good, operator, given, said):
    with pytest.raises(AirflowFailException, match=said):
        task(operator, **given).execute({})
    assert good.requests == []


# Failures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "said"), [(401, "401.*connection 'knowledge_bot_default'"), (404, "404")]
)
def test_a_refusal_fails_for_good_and_says_where_to_look(good, status, said):
    good.fail_next(status)
    with pytest.raises(AirflowFailException, match=said):
        task(TEXT).execute({})


# In runs of a real worker -------------------------------------------------------------------------

HEAD = "from airflow_knowledge_bot.operators import *\n---\n"


def test_a_green_task_says_what_was_created_where_and_no_content(dags, connected):
    done = dags.run(
        dags.load(
            f"""{HEAD}
KnowledgeBotCreateTextSourceOperator(task_id="text", source_name="Hours", content="Open at nine.")
KnowledgeBotSendMessageOperator(task_id="ask", content="When is high tide?")
"""
        )
    )
    assert done.state == "success", done.log[-3000:]
    source, xcom = done.tasks["text"].xcom["id"], done.tasks["ask"].xcom
    assert (
        f"Created the source {source} 'Hours' in ['col_house'] at https://service.test" in done.log
    )
    (line,) = [one for one in done.log.splitlines() if "Created the message" in one]
    assert (
        f"{xcom['id']} to the bot bot_guide in the conversation {xcom['conversation_id']}" in line
    )
    assert "high tide" not in line.lower()
    assert KEY not in done.log


def test_a_try_that_leaves_an_unknown_outcome_to_the_next_says_that_it_may_be_twice(
    dags, good, caplog
):
    good.lose_next_answer()
    done = dags.run(
        dags.load(
            f"""{HEAD}
KnowledgeBotCreateTextSourceOperator(
    task_id="add", source_name="Hours", content="c", collections="col_1", on_unknown="resend",
    retries=1, retry_delay=timedelta(0),
)
"""
        )
    )
    assert (done.state, done.task.try_number) == ("success", 2)
    text = caplog.text
    assert "on_unknown='resend': the next try, if any, sends the request again" in text
    assert "so its result may exist twice" in text
    if hasattr(airflow.sdk, "NEVER_EXPIRE"):  # Airflow 3.1 and 3.2 keep nothing between tries
        assert "on_unknown='resend': an earlier try may have sent the request" in text
    assert KEY not in done.log + text
