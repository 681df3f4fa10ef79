"""A DAG that Airflow runs, with its own retries, its own store and a deferred task."""

from collections import Counter

import airflow.sdk

from calls import KEY

# What is kept between the tries of a task; Airflow 3.1 and 3.2 have nothing of the kind.
HAS_STATE_STORE = hasattr(airflow.sdk, "NEVER_EXPIRE")

ADDS_ONE_SOURCE = """
from airflow_knowledge_bot.operators import KnowledgeBotCreateTextSourceOperator
from airflow_knowledge_bot.sensors import KnowledgeBotPingSensor

def fails_at_first(context, result):
    if context["ti"].try_number == 1:
        raise RuntimeError("the worker had a bad day")
---
up = KnowledgeBotPingSensor(task_id="up", deferrable=True, poke_interval=0.5, timeout=60)
up >> KnowledgeBotCreateTextSourceOperator(
    task_id="add", source_name="Hours", collections="col_1", content="We open at nine.",
    retries=1, retry_delay=timedelta(0), post_execute=fails_at_first,
)
"""


def test_a_deferred_wait_and_a_retry_after_the_post_make_one_request(dags, good, caplog, capfd):
    good.fail_next(503, where=lambda request: request.is_ping)
    done = dags.run(dags.load(ADDS_ONE_SOURCE))
    tries = {name: (task.state, task.try_number) for name, task in done.tasks.items()}
    assert tries == {"up": ("success", 1), "add": ("success", 2)}, done.log
    # The sensor pings twice; the operator asks before each request what the service announces.
    posts = 1 if HAS_STATE_STORE else 2
    assert (len(good.requests), len(good.pings)) == (posts, 2 + posts)
    # `dag.test()` masks no secrets: nothing may print the key in the first place.
    assert KEY not in "".join([done.log, caplog.text, *capfd.readouterr()])


TEMPLATES = """
from airflow_knowledge_bot.operators import *
---
dag.params["number"], dag.params["cols"], dag.params["tide"] = 1, ["col_1", "col_2"], "high"
KnowledgeBotCreateTextSourceOperator(
    task_id="list", source_name="n", content="c", collections="{{ params.cols }}"
)
KnowledgeBotCreateWebpageSourceOperator(
    task_id="mapping", source_name="n", url="https://x.example/",
    collections="{{ params.cols | tojson }}",
    scrape_headers="{{ {'X-Tide': params.tide} }}",
)
ingest("urls", origin=Urls("{{ ['https://x.example/1', 'https://x.example/2'] }}"),
    collections="{{ params.cols }}")
ingest("items", origin="{{ [{'name': 'n', 'content': 'c'}] }}")
ingest("given", origin=Urls(upstream(["https://x.example/3"]), name="pages"))
ingest("wrong", origin=Site("{{ params.tide }}"))
"""


def test_texts_of_templates_are_lists_and_mappings_where_these_are_meant(dags, good, ledger):
    done = dags.run(dags.load(TEMPLATES))
    states = {name: task.state for name, task in done.tasks.items()}
    assert states == dict.fromkeys(states, "success") | {"wrong": "failed"}, done.log
    assert "'high' is not an http:// or https:// address" in done.log
    assert (done.tasks["urls"].xcom["created"], done.tasks["given"].xcom["created"]) == (2, 1)
    sent = [request.value for request in good.requests]
    mapped = next(one for one in sent if one.get("headers"))
    assert (mapped["collections"], mapped["headers"]) == (
        ["col_1", "col_2"],
        [{"name": "X-Tide", "value": "high"}],
    )
    assert sum(one["collections"] == ["col_1", "col_2"] for one in sent) == 4


CHECKED = """
from airflow_knowledge_bot.operators import KnowledgeBotCheckOperator
from airflow_knowledge_bot.sensors import KnowledgeBotAnswerSensor
from knowledge_bot.checks import Question

def fails_at_first(context, result):
    if context["ti"].try_number == 1:
        raise RuntimeError("the worker had a bad day")
---
dag.params["hour"], known = "nine", {"ask": "Where are the keys?", "contains": "desk"}
given = {"bot_id": "bot_guide", "retries": 2, "retry_delay": timedelta(0)}
opening = {"ask": "When do you open?", "contains": "{{ params.hour }}"}
KnowledgeBotCheckOperator(
    task_id="loses", questions=[opening, {"ask": "lost", "contains": "found"}], **given
) >> KnowledgeBotCheckOperator(
    task_id="fails", questions=upstream([known]), post_execute=fails_at_first, **given
) >> KnowledgeBotCheckOperator(
    task_id="wrong", questions=[Question(ask="wrong", contains="right")], **given
)
KnowledgeBotCheckOperator.partial(task_id="mapped", **given).expand(questions=[[known], [known]])
KnowledgeBotAnswerSensor(
    task_id="known", questions=[known, {"ask": "later", "contains": "yes"}], poke_interval=1,
    timeout=300, **given,
)
"""


def test_checks_in_a_run_go_on_with_what_has_not_passed(dags, connected):
    knows = {
        "When do you open?": "At nine.",
        "Where are the keys?": "At the desk.",
        "lost": "It was found.",
        "later": ["No.", "Yes."],
    }
    connected.bots = {"bot_guide": knows}
    connected.lose_next_answer(where=lambda request: request.value.get("content") == "lost")
    done = dags.run(dags.load(CHECKED))
    ended = {name: (one.state, one.try_number) for name, one in done.tasks.items()}
    del ended["upstream"]
    assert ended == {
        "loses": ("success", 2),  # for the lost answer alone
        "fails": ("success", 2),
        "wrong": ("failed", 1),
        "mapped[0]": ("success", 1),
        "mapped[1]": ("success", 1),
        "known": ("success", 1),
    }, done.log
    assert KEY not in done.log
    if HAS_STATE_STORE:
        asked = Counter(request.value["content"] for request in connected.requests)
        assert asked == {
            "When do you open?": 1,
            "lost": 2,
            "Where are the keys?": 4,  # once in each task
            "wrong": 1,
            "later": 2,
        }
