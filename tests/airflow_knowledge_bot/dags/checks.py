"""DAGs that ask a bot: each gets its bot's answers from the test."""

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from airflow_knowledge_bot.operators import KnowledgeBotCheckOperator
from airflow_knowledge_bot.sensors import KnowledgeBotAnswerSensor
from knowledge_bot.checks import Question

OPENING = {"ask": "When do you open?", "contains": "nine"}
PARKING = {"ask": "Where do visitors park?", "contains": ["behind", "workshop"]}
KEYS = {"ask": "Where are the keys?", "contains_any": ["desk", "caretaker"]}

# Each DAG has a bot of its own, named after it.
GIVEN = {"knowledge_bot_conn_id": "bot", "bot_id": "bot_{{ dag.dag_id }}"}
AT_ONCE = {"retries": 2, "retry_delay": timedelta(0)}


def fails_at_first(context, result):
    if context["ti"].try_number == 1:
        raise RuntimeError("the worker had a bad day")


def checks(task_id="check", **options):
    return KnowledgeBotCheckOperator(task_id=task_id, **GIVEN, **options)


with DAG(
    "every_kind_of_value",
    schedule=None,
    params={"hour": "nine", "file": "q.toml", "questions": [PARKING]},
) as every_kind_of_value:

    @task
    def gives(params):
        return params["questions"]

    checks("dicts", questions=[{"ask": "When do you open?", "contains": "{{ params.hour }}"}])
    checks("objects", questions=[Question(**OPENING), Question(**PARKING)])
    checks("xcom", questions=gives())
    checks("file", file="{{ params.file }}")
    checks("path", file=Path(os.environ.get("QUESTIONS", "/nowhere")))
    KnowledgeBotCheckOperator.partial(task_id="mapped", **GIVEN).expand(
        questions=[[OPENING], [PARKING, KEYS]]
    )
    KnowledgeBotAnswerSensor(task_id="sensor", questions=gives.override(task_id="s")(), **GIVEN)

with DAG("fails_afterwards", schedule=None, default_args=AT_ONCE) as fails_afterwards:
    checks(questions=[OPENING, PARKING, KEYS], post_execute=fails_at_first)

with DAG("loses_an_answer", schedule=None, default_args=AT_ONCE) as loses_an_answer:
    checks(questions=[OPENING, PARKING, KEYS])

with DAG("is_answered_wrongly", schedule=None, default_args=AT_ONCE) as is_answered_wrongly:
    checks(questions=[OPENING, PARKING])

with DAG("waits_for_a_source", schedule=None, default_args=AT_ONCE) as waits_for_a_source:
    KnowledgeBotAnswerSensor(
        task_id="known",
        questions=[OPENING, PARKING, KEYS],
        poke_interval=3,
        timeout=300,
        **GIVEN,
    )
