"""The page about the ingest operator: its DAGs are parsed, and its result is the real one."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_knowledge_bot.results import summary
from knowledge_bot.ingest import Report

PAGE = (Path(__file__).parents[2] / "docs" / "airflow" / "ingest.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_its_dags_are_parsed(block):
    exec(block, {})


def test_its_xcom_has_the_names_of_the_real_one():
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    history = SimpleNamespace(route=("https://x.example", (), None), began=0.0)
    real = summary(Report(), {"unknown": []}, None, history)
    assert list(json.loads(block)) == list(real)
