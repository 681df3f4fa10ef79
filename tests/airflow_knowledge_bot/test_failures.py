"""What may pass is left to Airflow's next try, what only a person can change ends the task."""

from types import SimpleNamespace

import pytest

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.operators import (
    KnowledgeBotCheckOperator,
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotSendMessageOperator,
)
from calls import KEY
from failures import FAILURES, failing
from knowledge_bot import KnowledgeBotError
from knowledge_bot.testing import no_waiting

CONTEXT = {"ti": SimpleNamespace(try_number=1, xcom_push=lambda **_: None)}
ASKED = {"bot_id": "bot_1", "content": "When?"}


@pytest.fixture(autouse=True)
def _connection(connect):
    connect("https://service.test", max_retries=0)


def message():
    KnowledgeBotSendMessageOperator(task_id="ask", **ASKED).execute(CONTEXT)


def source():
    of = {"source_name": "Hours", "collections": ["col_default"], "content": "From nine."}
    KnowledgeBotCreateTextSourceOperator(task_id="add", **of).execute(CONTEXT)


def resent_message():
    KnowledgeBotSendMessageOperator(task_id="ask", on_unknown="resend", **ASKED).execute(CONTEXT)


def checked():
    questions = [{"ask": "When?", "contains": "nine"}]
    KnowledgeBotCheckOperator(task_id="check", bot_id="bot_1", questions=questions).execute(CONTEXT)


@pytest.mark.parametrize("task", [message, source, resent_message])
@pytest.mark.parametrize("name", FAILURES)
def test_a_task_is_tried_again_where_that_is_safe_and_may_help(name, task):
    failure = FAILURES[name]
    again = failure.may_pass if task is resent_message else failure.may_be_asked_again
    with (
        failing(failure).standing_in() as service,
        no_waiting(),
        pytest.raises(KnowledgeBotError if again else AirflowFailException) as caught,
    ):
        task()
    assert len(service.requests) == failure.arrives
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", FAILURES)
def test_a_check_that_got_no_answer_is_tried_again_where_that_may_help(name):
    failure = FAILURES[name]
    with failing(failure).standing_in(), no_waiting(), pytest.raises(Exception) as caught:  # noqa: PT011
        checked()
    assert isinstance(caught.value, AirflowFailException) is not failure.may_pass
