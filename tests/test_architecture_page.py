"""The page on ingestion: the tests and tables that it names are there."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from knowledge_bot.ingest._schema import LedgerDatabase

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs/architecture/ingestion.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/.]+\.py)::(\w+)`", PAGE)))


def test_the_page_names_tests():
    assert len(NAMED) > 40


@pytest.mark.parametrize(("path", "test"), NAMED, ids=map("::".join, NAMED))
def test_a_test_that_the_page_names_is_there(path, test):
    source = (TESTS / "knowledge_bot" / path).read_text(encoding="utf-8")
    assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE)


def test_the_tables_are_those_of_a_ledger(tmp_path):
    LedgerDatabase.of(tmp_path / "ledger.db").open(reading=False).close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        names = {name for (name,) in connection.execute(query) if name.startswith("kbot_")}
    tables = PAGE.partition("## Tables")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE)) == names
