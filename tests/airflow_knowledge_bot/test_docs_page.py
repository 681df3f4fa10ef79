"""The page about the ingest operator: its DAGs are parsed, and its tables hold what there is."""

import inspect
import json
import re
from pathlib import Path

import pytest

from airflow_knowledge_bot.items import _options_of
from airflow_knowledge_bot.operators import KnowledgeBotIngestOperator
from airflow_knowledge_bot.operators.ingest import PLACES
from airflow_knowledge_bot.reports import summary
from knowledge_bot.ingest import Report

pytestmark = pytest.mark.integration

PAGE = (Path(__file__).parents[2] / "docs" / "airflow" / "ingest.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")]


@pytest.mark.parametrize("block", BLOCKS)
def test_its_dags_are_parsed(block):
    exec(block, {})


def test_its_tables_hold_every_parameter():
    named = {name for row in ROWS for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    parameters = set(inspect.signature(KnowledgeBotIngestOperator.__init__).parameters)
    assert parameters - {"self", "kwargs"} <= named


@pytest.mark.parametrize("place", PLACES)
def test_its_table_of_places_holds_every_option(place):
    (row,) = [row for row in ROWS if f"`{place}`" in row.split("|")[1] and row.count("|") == 4][:1]
    assert set(_options_of(place)) <= set(re.findall(r"`(\w+)`", row.split("|")[3]))


def test_its_xcom_has_the_names_of_the_real_one():
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    real = summary(Report(), {"superseded": [], "gone": [], "unknown": []})
    assert list(json.loads(block)) == [*real, "untold"]
