"""Every setting of the embedded service has its row in the reference."""

import re
from pathlib import Path

import pytest

from knowledge_bot_service.config import settings

DOCS = Path(__file__).parents[3] / "docs"
SECTIONS = {
    settings.ServiceConfiguration: "",
    settings.LimitSettings: "",
    settings.KeySettings: "",
    settings.AnswersSettings: "",
    settings.CollectionSettings: "`[[collections]]` ",
    settings.BotSettings: "`[[bots]]` ",
}
ROWS = re.findall(
    r"^\| (.*?) \|", (DOCS / "reference" / "service.md").read_text(encoding="utf-8"), re.MULTILINE
)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_setting_has_a_row(section):
    tables = {"limits", "keys", "collections", "bots", "answers"}
    names = set(section.model_fields) - (
        tables if section is settings.ServiceConfiguration else set()
    )
    missing = {name for name in names if f"{SECTIONS[section]}`{name}`" not in ROWS}
    assert not missing
