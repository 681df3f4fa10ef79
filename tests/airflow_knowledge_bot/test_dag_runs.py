"""A DAG that Airflow runs, with its own retries, its own store and a deferred task."""

import airflow.sdk

from calls import KEY, SOURCE
from scripted_server import answer, pong

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
    task_id="add", name="Hours", collections="col_1", content="We open at nine.",
    retries=1, retry_delay=timedelta(0), post_execute=fails_at_first,
)
"""


def test_a_deferred_wait_and_a_retry_after_the_post_make_one_request(
    dags, scripted, connect, caplog, capfd
):
    server = scripted(answer(503), pong, answer(body={"value": SOURCE}), on_ping=None)
    connect(server.url, max_retries=0)
    done = dags.run(dags.load(ADDS_ONE_SOURCE))
    tries = {name: (task.state, task.try_number) for name, task in done.tasks.items()}
    assert tries == {"up": ("success", 1), "add": ("success", 2)}, done.log
    posts = 1 if HAS_STATE_STORE else 2
    assert [request.method for request in server.requests] == ["GET", "GET", *["POST"] * posts]
    # `dag.test()` masks no secrets: nothing may print the key in the first place.
    assert KEY not in "".join([done.log, caplog.text, *capfd.readouterr()])


MAPPED = """
from airflow_knowledge_bot.operators import KnowledgeBotCreateTextSourceOperator

names = ["Hours", "Prices"]
---
KnowledgeBotCreateTextSourceOperator.partial(
    task_id="add", collections="col_1", content="Text."
).expand(name=names)
KnowledgeBotCreateTextSourceOperator.partial(
    task_id="own", collections="col_1", content="Text.", map_index_template="my {{ task.name }}"
).expand(name=names)
"""


def test_mapped_tasks_are_named_by_their_sources(dags, good):
    done = dags.run(dags.load(MAPPED))
    labels = sorted(task.label for task in done.tasks.values())
    assert labels == ["Hours", "Prices", "my Hours", "my Prices"]
