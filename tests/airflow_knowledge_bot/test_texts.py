"""Texts that no database, log or reader should get as they are."""

import json
from datetime import timedelta
from time import sleep

import pytest
from airflow.exceptions import AirflowTaskTimeout  # where Airflow 3.1 has it, too
from airflow.sdk.execution_time.timeout import timeout

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.operators import (
    KnowledgeBotCheckOperator,
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotCreateWebpageSourceOperator,
    KnowledgeBotIngestOperator,
    KnowledgeBotSendMessageOperator,
)
from answering_bot import TaskInstance
from knowledge_bot.adapters import storable
from knowledge_bot.origins import Folder, Site, Sitemap, Urls

HALF = json.loads(r'"half \ud83d"')
LOGIN = "https://user:PASSWORD@page.example/handbook"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a\0b", "a\ufffdb"),
        (HALF, "half \ufffd"),
        ("whole \U0001f600, 漢字", "whole \U0001f600, 漢字"),
        (f"see {LOGIN}?a=@b", "see https://***@page.example/handbook?a=@b"),
        ({"a\0": [HALF, 7, None, ("\0",)]}, {"a\ufffd": ["half \ufffd", 7, None, ["\ufffd"]]}),
    ],
)
def test_what_can_be_stored_is_encoded_by_every_database(given, kept):
    assert storable(given) == kept


@pytest.fixture
def told(capfd, caplog):
    """`told()`: everything that was logged."""
    return lambda: "".join(capfd.readouterr()) + caplog.text


def failed(operator):
    """Run a task that fails; returns its error and what it hands on."""
    instance = TaskInstance()
    with pytest.raises(AirflowFailException) as caught:
        operator.execute({"ti": instance})
    return str(caught.value), instance.xcoms.get("return_value")


@pytest.mark.parametrize("answer", ["ends in NUL\0", HALF])
def test_an_answer_is_handed_on_as_it_can_be_stored(bot, answer):
    bot.knows["When?"] = answer
    ask = KnowledgeBotSendMessageOperator(task_id="ask", bot_id="bot_guide", content="When?")
    handed_on = ask.execute({})["answer"]
    assert handed_on == storable(answer) != answer
    check = {"bot_id": "bot_guide", "questions": [{"ask": "When?", "contains": "nine"}]}
    error, result = failed(KnowledgeBotCheckOperator(task_id="check", **check))
    assert handed_on in result["failures"][0]["answer"]
    assert "\0" not in error


@pytest.mark.parametrize("name", [HALF, "a\0b"])
def test_an_item_with_a_name_that_is_no_text_fails_alone_and_for_good(good, ledger, told, name):
    def items():
        yield {"name": "good", "content": "c"}
        yield {"name": name, "content": "c", "key": "bad"}

    given = {"origin": items, "collections": "col_1", "ledger_conn_id": "ledger"}
    error, result = failed(KnowledgeBotIngestOperator(task_id="feed", **given))
    assert (result["created"], result["invalid"], len(good.requests)) == (1, 1, 1)
    (error + told() + json.dumps(result, ensure_ascii=False)).encode()
    assert storable(name) in result["failures"][0]["name"]


@pytest.mark.parametrize(
    "origin",
    [
        [{"url": LOGIN}],
        lambda: [{"url": LOGIN}],
        [{"url": LOGIN, "content": "c"}],
        lambda: Urls([LOGIN], name="pages"),
        lambda: Site(LOGIN),
        lambda: Sitemap(LOGIN),
        [{"path": "/nowhere", "name": LOGIN}],
    ],
)
def test_a_login_in_an_address_is_neither_sent_nor_told(good, ledger, told, origin):
    operator = None
    try:
        given = {"origin": origin, "collections": "col_1", "ledger_conn_id": "ledger"}
        operator = KnowledgeBotIngestOperator(task_id="feed", **given)
        error, result = failed(operator)
    except ValueError as refused:  # while its DAG is parsed
        error, result = str(refused), None
    assert good.requests == []
    held = b"".join(file.read_bytes() for file in ledger.parent.glob("ledger*"))
    assert b"PASSWORD" not in held
    assert "PASSWORD" not in error + told() + str(result)


def test_a_page_with_a_login_in_its_address_is_not_sent(good, told):
    given = {"source_name": LOGIN, "url": LOGIN, "collections": "col_1"}
    error, _ = failed(KnowledgeBotCreateWebpageSourceOperator(task_id="page", **given))
    assert good.requests == []
    assert "PASSWORD" not in error + told()


def test_values_of_headers_and_passwords_of_addresses_are_masked_once_they_are_rendered(
    good, monkeypatch
):
    masked = []
    monkeypatch.setattr("airflow_knowledge_bot.tasks.mask_secret", masked.append)
    headers = {"Cookie": "session={{ it }}", "X-Auth": "FIVE-OR-MORE"}
    page = KnowledgeBotCreateWebpageSourceOperator(
        task_id="page", source_name="n", url="https://a.example/", scrape_headers=headers
    )
    page.render_template_fields({"it": "SECRET"})
    items = [{"url": LOGIN, "headers": {"Cookie": "session={{ it }}"}}]
    KnowledgeBotIngestOperator(task_id="feed", origin=items).render_template_fields({"it": "OTHER"})
    KnowledgeBotIngestOperator(task_id="feed", origin=Urls([LOGIN])).render_template_fields({})
    page.url = LOGIN
    page.render_template_fields({"it": "SECRET"})
    of_page = ["session=SECRET", "FIVE-OR-MORE"]
    assert masked == [*of_page, "session=OTHER", "PASSWORD", "PASSWORD", *of_page, "PASSWORD"]


def test_a_result_that_cannot_be_handed_on_does_not_hide_what_happened(good, ledger, told):
    class Refusing(TaskInstance):
        def xcom_push(self, key, value):
            raise RuntimeError("Value rejected by database")

    given = {"origin": [{"name": "n"}], "collections": "col_1"}
    feed = KnowledgeBotIngestOperator(task_id="feed", ledger_conn_id="ledger", **given)
    with pytest.raises(AirflowFailException, match="Not everything got into col_1"):
        feed.execute({"ti": Refusing()})
    assert "rejected by database" in told()


# Airflow's timeout --------------------------------------------------------------------------------


def hanging():
    yield {"name": "a", "content": "c"}
    sleep(30)


def hanging_at_once():
    sleep(30)


def ended_by_airflow(operator):
    instance = TaskInstance()
    with pytest.raises(AirflowTaskTimeout), timeout(2):
        operator.execute({"ti": instance})
    return instance.xcoms.get("return_value")


@pytest.mark.parametrize(("origin", "created"), [(hanging, 1), (hanging_at_once, None)])
def test_a_function_that_hangs_ends_at_airflow_s_timeout(good, ledger, origin, created):
    given = {"origin": origin, "collections": "col_1", "ledger_conn_id": "ledger"}
    result = ended_by_airflow(KnowledgeBotIngestOperator(task_id="feed", **given))
    assert (result and result["created"]) == created


def test_a_check_that_airflow_ends_hands_on_what_has_passed(bot):
    questions = [
        {"ask": "When do you open?", "contains": "nine"},
        {"ask": "Where are the keys?", "contains": "never there"},
    ]
    check = KnowledgeBotCheckOperator(
        task_id="check",
        bot_id="bot_guide",
        questions=questions,
        answer_timeout=timedelta(minutes=5),
        answer_interval=60,
    )
    result = ended_by_airflow(check)
    assert (result["ok"], result["passed"], result["messages"]) == (False, 1, 2)
    with bot.holding_answers():  # before the first answer
        result = ended_by_airflow(check)
    assert (result["passed"], result["unanswered"], result["messages"]) == (0, 2, 2)


# What other operators' `default_args` reach -------------------------------------------------------

OF_OTHERS = {
    "headers": {"Authorization": "Bearer OF-MY-API"},  # HttpOperator
    "name": "my-pod",  # KubernetesPodOperator
    "sql": "select 1",
    "limit": 1,
    "wait": True,
    "interval": timedelta(seconds=3),
    "method": "GET",
    "data": "x",
    "endpoint": "/x",
    "parameters": {},
}


@pytest.mark.parametrize(
    ("operator", "given"),
    [
        (
            KnowledgeBotCreateWebpageSourceOperator,
            {"source_name": "n", "url": "https://a.example/"},
        ),
        (KnowledgeBotCreateTextSourceOperator, {"source_name": "n", "content": "c"}),
        (KnowledgeBotSendMessageOperator, {"content": "c"}),
        (KnowledgeBotIngestOperator, {"origin": Folder("/")}),
        (KnowledgeBotCheckOperator, {"file": "q.toml"}),
    ],
)
def test_default_args_of_other_operators_reach_nothing_here(operator, given):
    bare, reached = (
        operator(task_id="task", default_args=default_args, **given)
        for default_args in ({}, OF_OTHERS)
    )
    ours = {name for name in vars(bare) if name != "default_args"}
    assert {name for name in ours if vars(bare)[name] != vars(reached)[name]} <= {
        name for name in ours if not isinstance(vars(bare)[name], str | int | float | dict | None)
    }
    assert not {"headers", "name", "limit", "sql", "wait", "interval"} & ours


@pytest.mark.parametrize(
    ("operator", "parameter"),
    [(KnowledgeBotIngestOperator, "origin"), (KnowledgeBotCheckOperator, "questions")],
)
@pytest.mark.parametrize("given", [(one for one in ()), iter([])])
def test_what_can_be_read_only_once_is_refused_when_the_dag_is_parsed(operator, parameter, given):
    with pytest.raises(ValueError, match=f"^{parameter}: "):
        operator(task_id="task", **{parameter: given})
