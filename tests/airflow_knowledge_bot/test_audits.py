"""The audit in a task: what is handed on, which failures are for good, and the outlets' extra."""

import pytest
from airflow.sdk import Asset, BaseHook
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.operators import KnowledgeBotAuditOperator
from answering_bot import TaskInstance
from calls import KEY
from knowledge_bot.errors import ServerError
from knowledge_bot.origins import Folder

OPENS = "The workshop opens its doors at nine in the morning on every weekday."
PARKS = "Visitors park behind the timber yard, where the blue line is painted."


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "opening.md").write_text(OPENS)
    (tmp_path / "parking.md").write_text(PARKS)
    return tmp_path


@pytest.fixture
def bot(service, connect):
    """`bot(OPENS)`: the bot says these texts to whoever asks for some of their words."""
    connect("https://service.test", default_bot_id="bot_guide")

    def knows(*texts):
        def answer(question):
            asked = {*question.split()}
            return max([*texts, ""], key=lambda text: len(asked & {*text.split()}))

        service.bots = {"bot_guide": answer}
        return service

    return knows


def auditing(folder, **given):
    return KnowledgeBotAuditOperator(task_id="audit", **{"origin": Folder(folder)} | given)


def test_the_coverage_is_handed_on_and_in_the_extra_of_the_outlets(bot, folder, caplog):
    service = bot(OPENS, PARKS)
    handbook, events = Asset("knowledgebot://svc.example/col_1"), OutletEventAccessors()
    operator = auditing(folder, outlets=[handbook])
    with caplog.at_level("INFO", logger="airflow_knowledge_bot"):
        result = operator.execute({"ti": TaskInstance(), "outlet_events": events})
    assert (result["coverage"], result["found"], result["lacking"]) == (1, 2, [])
    assert result["asked"] == len(service.conversations) == 2
    assert "at most 2 times" in caplog.text
    extra = events[handbook].extra
    assert (extra["bot_id"], extra["coverage"], extra["missing"]) == ("bot_guide", 1, 0)


def test_too_little_coverage_fails_for_good_and_is_handed_on_all_the_same(bot, folder):
    bot(OPENS)
    instance = TaskInstance()
    with pytest.raises(AirflowFailException) as failed:
        auditing(folder).execute({"ti": instance})
    result = instance.xcoms["return_value"]
    assert (result["coverage"], result["missing"]) == (0.5, 1)
    assert [(one["key"], one["outcome"]) for one in result["lacking"]] == [
        ("parking.md", "missing")
    ]
    assert "50.0%" in str(failed.value)
    assert auditing(folder, min_coverage=0.5).execute({"ti": TaskInstance()})["found"] == 1


def test_an_outage_is_for_the_next_try_and_a_refused_key_is_not(bot, folder):
    service = bot(OPENS)
    service.fail_next(500, times=None)
    with pytest.raises(ServerError):
        auditing(folder).execute({"ti": TaskInstance()})
    service.recover()
    service.fail_next(401, times=None)
    with pytest.raises(AirflowFailException, match="knowledge_bot_default") as failed:
        auditing(folder).execute({"ti": TaskInstance()})
    assert KEY not in str(failed.value)


def test_a_bot_that_is_not_there_fails_for_good(bot, folder):
    bot(OPENS)
    with pytest.raises(AirflowFailException, match="bot_guide"):
        auditing(folder, bot_id="bot_9").execute({"ti": TaskInstance()})


def test_origin_and_bot_are_templates_and_items_may_be_given(bot, folder):
    bot(OPENS, PARKS)
    operator = auditing("{{ params.folder }}", bot_id="bot_{{ params.who }}")
    operator.render_template_fields({"params": {"folder": str(folder), "who": "guide"}})
    assert operator.execute({"ti": TaskInstance()})["total"] == 2
    given = auditing(folder, origin=[{"name": "opening", "content": OPENS}])
    assert given.execute({"ti": TaskInstance()})["total"] == 1


def test_a_connection_that_the_items_ask_for_is_not_taken_for_the_tasks_own(bot, folder):
    def items():
        yield {"name": "opening", "content": OPENS}
        BaseHook.get_connection("of_the_shop")

    bot(OPENS)
    with pytest.raises(AirflowFailException, match="of_the_shop") as failed:
        auditing(folder, origin=items).execute({"ti": TaskInstance()})
    assert "knowledge_bot_conn_id" not in str(failed.value)


@pytest.mark.parametrize(
    "given",
    [{"sample": 0}, {"budget": 1}, {"min_coverage": 2}, {"concurrency": None}, {"origin": None}],
)
def test_what_no_run_can_use_is_refused_while_the_dag_is_parsed(folder, given):
    with pytest.raises(ValueError, match=next(iter(given))):
        auditing(folder, **given)
