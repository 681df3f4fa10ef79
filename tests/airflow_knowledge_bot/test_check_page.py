"""The page on checks in Airflow: its DAGs run as they stand."""

import json
import re
import shutil
from pathlib import Path

import pytest

from in_process import OnAPort

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/check-in-airflow.md").read_text(encoding="utf-8")
FILES = {
    name: text
    for text in re.findall(r"^```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for name in re.findall(r"\A# (\S+)\n", text)
}


def test_every_block_is_a_file():
    assert list(FILES) == ["questions.toml", "checked_handbook.py", "checked_bots.py"]
    assert PAGE.count("```") == 2 * len(FILES)


@pytest.fixture
def beside(dags):
    """The questions and the handbook beside the DAGs' files."""
    (dags.folder / "questions.toml").write_text(FILES["questions.toml"])
    shutil.copytree(ROOT / "examples" / "handbook", dags.folder / "handbook")
    yield
    (dags.folder / "questions.toml").unlink()
    shutil.rmtree(dags.folder / "handbook")


@pytest.mark.slow
@pytest.mark.usefixtures("beside")
def test_the_dags_run_as_they_stand(dags, connect, monkeypatch, tmp_path):
    ledger = {"conn_type": "sqlite", "host": str(tmp_path / "ledger.db")}
    monkeypatch.setenv("AIRFLOW_CONN_KNOWLEDGE_BOT_LEDGER_DEFAULT", json.dumps(ledger))
    ran = []
    with OnAPort(
        collections={"col_default": "Handbook"},
        bots={"bot_default": ["col_default"], "bot_desk": ["col_default"]},
    ) as service:
        connect(service.base_url, password=service.api_key)
        for name in ("checked_handbook", "checked_bots"):
            run = dags.parse(FILES[f"{name}.py"], name).dag.test()
            ran += [
                [one.dag_id, one.task_id, one.map_index, one.state]
                for one in run.get_task_instances()
            ]
    assert sorted(ran) == [
        ["checked_bots", "each_bot", 0, "success"],
        ["checked_bots", "each_bot", 1, "success"],
        ["checked_bots", "questions", -1, "success"],
        ["checked_bots", "this_year", -1, "success"],
        ["checked_handbook", "check", -1, "success"],
        ["checked_handbook", "feed", -1, "success"],
        ["checked_handbook", "known", -1, "success"],
    ]


@pytest.mark.slow
def test_an_alarm_of_the_recipe_has_the_text_of_the_error(dags, connect, tmp_path, capfd):
    page = (ROOT / "docs/recipes/every-night.md").read_text(encoding="utf-8")
    (code,) = re.findall(
        r"^```python\n# told_handbook.py\n(.*?)^```", page, re.MULTILINE | re.DOTALL
    )
    (tmp_path / "handbook").mkdir()
    code = code.replace("/srv/handbook", str(tmp_path / "handbook"))
    with OnAPort(collections={"col_default": "Handbook"}, bots={}) as service:
        connect(service.base_url, password=service.api_key)
        assert dags.parse(code, "told_handbook").dag.test().state == "failed"
    alarms = [line for line in capfd.readouterr().out.splitlines() if line.startswith("ALARM")]
    assert len(alarms) == 1
    assert "feed" in alarms[0]
    assert ".kbot-origin" in alarms[0]
