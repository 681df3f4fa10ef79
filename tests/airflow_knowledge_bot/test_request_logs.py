"""What the log of a task of one request says: what was created, and what the next try does."""

import airflow.sdk
import pytest

from calls import KEY, SOURCE
from scripted_server import answer, close

HEAD = """
from airflow_knowledge_bot.operators import *
from airflow.sdk import task
"""


@pytest.fixture
def run(dags):
    return lambda body: dags.run(dags.load(f"{HEAD}---\n{body}"))


def test_a_green_task_says_what_was_created_where_and_no_content(run, connected, tmp_path):
    file = tmp_path / "tides.txt"
    file.write_text("High tide is at 6:12.")
    done = run(
        f"""
[
    KnowledgeBotCreateTextSourceOperator(task_id="text", name="Hours", content="Open at nine."),
    KnowledgeBotUploadSourceOperator(task_id="file", name="Tides", file={str(file)!r}),
    KnowledgeBotCreateWebpageSourceOperator(
        task_id="page", name="Page", url="{connected.base_url}/ping"
    ),
] >> KnowledgeBotSendMessageOperator(task_id="ask", content="When is high tide?")
"""
    )
    assert done.state == "success", done.log[-3000:]
    for one, name in (("text", "Hours"), ("file", "Tides"), ("page", "Page")):
        source = done.tasks[one].xcom["id"]
        assert f"Created the source {source} {name!r} in col_house at http://" in done.log
    xcom = done.tasks["ask"].xcom
    assert (
        f"Created the message {xcom['id']} to the bot bot_guide in the conversation "
        f"{xcom['conversation_id']} at http://" in done.log
    )
    (line,) = [one for one in done.log.splitlines() if "Created the message" in one]
    assert "high tide" not in line.lower()
    assert connected.api_key not in done.log


def test_a_try_that_leaves_an_unknown_outcome_to_the_next_says_that_it_may_be_twice(
    run, scripted, connect, caplog
):
    connect(scripted(close, answer(body={"value": SOURCE})).url, max_retries=0)
    done = run(
        """
KnowledgeBotCreateTextSourceOperator(
    task_id="add", name="Hours", content="c", collections="col_1", on_unknown="resend",
    retries=1, retry_delay=timedelta(0),
)
"""
    )
    assert (done.state, done.task.try_number) == ("success", 2)
    text = caplog.text
    assert "on_unknown='resend': the next try, if any, sends the request again" in text
    assert "so its result may exist twice" in text
    if hasattr(airflow.sdk, "NEVER_EXPIRE"):  # Airflow 3.1 and 3.2 keep nothing between tries
        assert "on_unknown='resend': an earlier try may have sent the request" in text
    assert KEY not in done.log + text
