"""The page on ingestion: the tables that it names are those of a ledger."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from knowledge_bot.ingest._schema import LedgerDatabase

PAGE = Path(__file__).parents[1] / "docs" / "architecture" / "ingestion.md"


def test_the_tables_are_those_of_a_ledger(tmp_path):
    LedgerDatabase.of(tmp_path / "ledger.db").open(reading=False).close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        names = {name for (name,) in connection.execute(query) if name.startswith("kbot_")}
    tables = PAGE.read_text(encoding="utf-8").partition("## Tables")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE)) == names
