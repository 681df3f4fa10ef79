"""The page about the operators: its DAGs run, and it names what there is and what is handed on."""

import inspect
import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from airflow_knowledge_bot import operators, sensors
from airflow_knowledge_bot.hooks import KnowledgeBotHook
from answering_bot import URL
from calls import KEY
from in_process import OnAPort
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest

FOLDER = Path(__file__).parents[2] / "docs" / "airflow"
PAGE = (FOLDER / "operators.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^##+ ([^\n]*)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
FILES = {
    text.splitlines()[0].removeprefix("# "): text
    for text in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
}
SOURCE, MESSAGE, SETTLED = (
    json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
)
if find_spec("airflow.providers.common.ai") is None:
    del FILES["helped.py"]  # Airflow's common-ai provider, from 1.0 on, is newer than some Airflows
ELSEWHERE = {"KnowledgeBotIngestOperator"}
CLASSES = [getattr(operators, name) for name in operators.__all__ if name not in ELSEWHERE] + [
    cls for name, cls in vars(sensors).items() if name.endswith("Sensor") and "Bot" in name
]


def rows(text):
    """Return the cells of a text's tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def section(name):
    (text,) = [text for heading, text in SECTIONS.items() if heading.endswith(f"`{name}`")]
    return text


def test_it_names_every_method_of_the_hook_and_what_the_connection_completes():
    text = section("KnowledgeBotHook")
    told = {row[0].strip("`"): re.findall(r"`(\w+)`", row[1]) for row in rows(text)}
    methods = {name for name in dir(KnowledgeBotHook) if name in {*dir(Client), "get_async_conn"}}
    public = {name for name in methods if not name.startswith("_")} | {"get_conn"}
    assert public <= set(re.findall(r"`(\w+)`", text))
    for name, arguments in told.items():
        assert [*inspect.signature(getattr(KnowledgeBotHook, name)).parameters][1:] == arguments


def test_the_first_table_names_every_operator():
    first = PAGE.partition("```python")[0]
    assert "a page, a text, a file" in first
    for cls in CLASSES:
        if not hasattr(cls, "parameters"):  # that send one request: named by what it is
            assert f"`{cls.__name__}`" in first


def keys(value):
    """Return the names in a value, at every depth."""
    if isinstance(value, dict):
        return {name: keys(each) for name, each in value.items()}
    return [keys(value[0])] if isinstance(value, list) and value else type(value)


@pytest.fixture
def run(dags, monkeypatch, tmp_path):
    """`run(*files, **connections)`: run DAGs; the state and the XCom of each task."""

    def run_it(*names, **connections):
        for name, parts in connections.items():
            monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(parts))
        (tmp_path / "loans.csv").write_text("what,times\nplaner,12\n")
        ran = {}
        for name in names:
            text = FILES[name].replace("/data/", f"{tmp_path}/")
            dag = dags.parse(text, name.removesuffix(".py")).dag
            for task_id, task in dags.run(dag).tasks.items():
                ran[dag.dag_id, task_id] = (task.state, task.xcom)
        return ran

    return run_it


@pytest.mark.slow
def test_its_dags_run_and_hand_on_what_it_says(run):
    with OnAPort(
        collections={"col_default": "Handbook"}, bots={"bot_default": ["col_default"]}
    ) as service:
        ran = run(
            *FILES,
            KNOWLEDGE_BOT_DEFAULT={
                "conn_type": "knowledge_bot",
                "host": service.base_url,
                "password": service.api_key,
                "extra": {"default_bot_id": "bot_default", "default_collection_id": "col_default"},
            },
            # A model that needs no network: it calls every tool once.
            MY_MODEL={"conn_type": "pydanticai", "extra": {"model": "test"}},
        )
    assert {state for state, _ in ran.values()} == {"success"}, ran
    assert set(ran) == {
        *(("new_each_day", task) for task in ("up", "page", "text", "file", "ask")),
        *(("asks_twice", task) for task in ("ask", "ask_more")),
        ("ask_when_ready", "ask"),
        *(("helped", task) for task in ("bots", "agent") if "helped.py" in FILES),
    }
    for task in (("new_each_day", name) for name in ("page", "text", "file")):
        assert keys(ran[task][1]) == keys(SOURCE)
    assert keys(ran["new_each_day", "ask"][1]) == keys(MESSAGE)
    assert ran["new_each_day", "up"][1] is None
    first, more = (ran["asks_twice", task][1] for task in ("ask", "ask_more"))
    assert more["conversation_id"] == first["conversation_id"]
    assert more["id"] != first["id"]
    if "helped.py" in FILES:
        assert "send_message" in ran["helped", "agent"][1]


def test_what_the_resolve_operator_hands_on(service, ledger):
    service.lose_next_answer(times=2)
    items = [Text(name=name, content=name) for name in ("a", "b")]
    with Client(KEY, URL) as client:
        ingest(client, items, collections="col_1", ledger=Ledger(ledger))
    settling = operators.KnowledgeBotResolveOperator(
        task_id="settle", ledger_conn_id="ledger", outcome="created", items=["a"]
    )
    result = settling.execute({})
    assert keys(result) == keys(SETTLED)
    assert (result["unknown"], result["settled"], result["left"]) == (2, 1, 1)
    assert "the first 20 of those that are left" in PAGE
