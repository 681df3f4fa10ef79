"""The description of the wheel: the README, whose links lead to the site or nowhere."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOOK = runpy.run_path(str(ROOT / "hatch_build.py"))


def described():
    metadata = {}
    HOOK["Description"](str(ROOT), {}).update(metadata)
    return metadata["readme"]["text"]


def test_no_link_of_the_description_is_relative():
    assert re.findall(r"\]\((?!https://)[^)]*\)", described()) == []
    assert "Nothing twice" in described()


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("docs/start.md", "start/"),
        ("docs/index.md", ""),
        ("docs/service/index.md#settings", "service/#settings"),
        ("CONTRIBUTING.md", "contributing/"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site(path, place):
    site = "https://docs.test/"
    assert HOOK["linked"]("text", path, site) == f"[text]({site}{place})"
    assert HOOK["linked"]("text", path, "") == "text"
