"""The notifier: texts about tasks and runs, from callbacks that Airflow calls."""

import asyncio

import pytest

from airflow_knowledge_bot._compat import AirflowException
from airflow_knowledge_bot.notifications import KnowledgeBotTextNotifier
from calls import SOURCE
from knowledge_bot import ConnectionLostError, Delivery
from scripted_server import answer, close

IMPORT = "from airflow_knowledge_bot.notifications import KnowledgeBotTextNotifier"

NIGHT = f"""
{IMPORT}
notify = KnowledgeBotTextNotifier(
    name="{{{{ ti.task_id }}}} of {{{{ dag.dag_id }}}}",
    content="Ask the log of {{{{ ti.task_id }}}}.",
    collections=["col_1"],
)
---
dag.default_args["on_failure_callback"] = notify

@task(on_failure_callback=notify, on_success_callback=notify)
def green():
    pass

@task(on_failure_callback=notify)
def red():
    raise RuntimeError("the shop's database is away")

green() >> red()
"""


def sent(server):
    return [request.json()["value"] for request in server.requests]


def test_each_task_of_a_run_sends_its_own_text(dags, good):
    run = dags.run(dags.load(NIGHT, name="night"))
    assert {name: task.state for name, task in run.tasks.items()} == {
        "green": "success",
        "red": "failed",
    }
    assert sent(good) == [
        {
            "name": f"{task} of night",
            "content": f"Ask the log of {task}.",
            "collections": ["col_1"],
        }
        for task in ("green", "red")
    ]


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        (close, "may have acted"),
        (answer(500), "may have acted"),
        (answer(400, {"code": "c", "message": "no such collection"}), "no such collection"),
    ],
    ids=["connection lost", "500", "400"],
)
def test_what_fails_is_reported_once_in_the_log_and_changes_no_state(
    dags, connect, scripted, lost, expected
):
    server = scripted(lost)
    connect(server.url, max_retries=0)
    body = """
        IMPORT
        notify = KnowledgeBotTextNotifier(name="n", content="c", collections="col_1")
        ---
        task(lambda: None, task_id="green", on_success_callback=notify)()
        """
    run = dags.run(dags.load(body.replace("IMPORT", IMPORT)))
    assert (run.state, len(server.requests)) == ("success", 1)
    assert expected in run.log


def notifier(**given):
    return KnowledgeBotTextNotifier(**{"name": "n", "content": "{{ text }}"} | given)


def by_call(one, context):
    one(context)


def by_await(one, context):
    one.context = context

    async def notify():
        await one

    asyncio.run(notify())


WAYS = pytest.mark.parametrize("way", [by_call, by_await])


@WAYS
def test_one_notifier_is_rendered_anew_for_each_call(connect, scripted, way):
    server = scripted(answer(body={"value": SOURCE}))
    connect(server.url, default_collection_id="col_house")
    one = notifier()
    for text in ("first", "second"):
        way(one, {"text": text})
    assert [each["content"] for each in sent(server)] == ["first", "second"]
    assert sent(server)[0]["collections"] == ["col_house"]


@WAYS
def test_a_lost_answer_is_not_sent_again(connect, scripted, way):
    server = scripted(close)
    connect(server.url, max_retries=5)
    with pytest.raises(ConnectionLostError) as result:
        way(notifier(collections="col_1"), {"text": "t"})
    assert result.value.delivery is Delivery.UNKNOWN
    assert len(server.requests) == 1


@WAYS
@pytest.mark.parametrize(
    ("given", "text", "expected"),
    [
        ({}, " ", "'content' is empty once it is rendered: nothing was sent"),
        ({"name": " "}, "t", "'name' is empty once it is rendered"),
        ({}, "t", "collections: .*'default_collection_id'"),
        ({"knowledge_bot_conn_id": "none_such"}, "t", "none_such"),
        ({"knowledge_bot_conn_id": ""}, "t", "'knowledge_bot_conn_id'"),
    ],
)
def test_what_cannot_be_used_is_named_before_anything_is_sent(good, way, given, text, expected):
    with pytest.raises((ValueError, AirflowException), match=expected):
        way(notifier(**given), {"text": text})
    assert good.requests == []
