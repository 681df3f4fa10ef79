"""The pages: their links, the programs they name, and what programs write into them."""

import os
import posixpath
import re
import tomllib

import click
import pytest

from docs.names import PUBLIC
from docs.pages import DOCS, PAGES, ROOT, anchors, name_of, prose
from docs.parts import PART, PARTS, contexts_of, results, with_parts
from docs.pictures import PICTURES, dot_of, file_of, mark_of
from knowledge_bot.cli.kbot import main

LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)#?([^)\s]*)\)")
SHOWN = re.compile(r"^::: (\S+)", re.MULTILINE)
README = ROOT / "README.md"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page):
    for path, heading in LINK.findall(prose(page)):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        # The names of the reference have anchors of their own, which the built site is asked for.
        generated = target.suffix == ".md" and "\n::: " in target.read_text(encoding="utf-8")
        assert not heading or generated or heading in anchors(target), f"{path}#{heading}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_picture_says_what_it_shows(page):
    for text, path in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", prose(page)):
        assert len(text) > 10, path
        assert (page.parent / path).exists(), path


def test_every_page_is_in_the_navigation_once():
    navigation = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    listed = re.findall(r'= "([\w/-]+\.md)"', str(navigation))
    there = {posixpath.relpath(name_of(page), "docs") for page in DOCS.rglob("*.md")}
    assert sorted(set(listed)) == sorted(listed)
    assert there == {name for name in listed if (DOCS / name).exists()}
    assert tomllib.loads(navigation)["project"]["theme"]["font"] is False


def test_a_program_that_a_page_names_can_be_run():
    named = {name for page in PAGES for name in re.findall(r"scripts/[a-z-]+\b(?!/)", prose(page))}
    assert {"scripts/demo", "scripts/test", "scripts/docs"} <= named
    for name in named:
        assert os.access(ROOT / name, os.X_OK), name


def test_what_programs_say_stands_on_one_page_each():
    named = [name for page in PAGES for name in PART.findall(page.read_text(encoding="utf-8"))]
    assert sorted(named) == sorted(PARTS)


def test_the_page_of_figures_says_why_a_bound_is_missed():
    _, _, reasons = (DOCS / "figures.md").read_text(encoding="utf-8").partition("\n## What misses ")
    rows = [row for topic in results().values() for row in topic["figures"]]
    missed = {row["name"] for row in rows if row["kept"] is False}
    assert missed - set(re.findall(r"`([^`]+)`", reasons)) == set()


def test_the_module_of_every_public_name_is_in_the_reference():
    pages = (DOCS / "reference").glob("*.md")
    shown = {name for page in pages for name in SHOWN.findall(page.read_text(encoding="utf-8"))}
    assert {name.rpartition(".")[0] for name in PUBLIC} <= shown


def test_the_page_of_commands_has_each_with_its_options():
    text = with_parts((DOCS / "reference" / "commands.md").read_text(encoding="utf-8"))
    for context in contexts_of(click.Context(main, info_name="kbot")):
        assert f"## `{context.command_path}`\n" in text
        for parameter in context.command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.opts[-1] in text, parameter


@pytest.mark.parametrize("package", PICTURES)
def test_a_picture_of_the_architecture_shows_the_present_imports(package):
    picture = file_of(package).read_text(encoding="utf-8")
    assert picture.startswith(mark_of(dot_of(package))), "run scripts/pictures"


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200
