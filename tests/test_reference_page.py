"""The reference of the Python names: what the code says, as it says it now."""

import inspect
import re
from importlib import import_module
from types import FunctionType

import pytest

import knowledge_bot
from knowledge_bot._endpoints import Endpoints, endpoint
from reference_page import MODULES, OF_ENGINES, PAGE, anchor, public_names, written

IMPORTED = [module for module in MODULES if module not in OF_ENGINES]
TEXT = PAGE.read_text(encoding="utf-8")
HEADINGS = re.findall(r"^#+ `?(.*?)`?$", TEXT, re.MULTILINE)
ENDPOINTS = [name for name, value in vars(Endpoints).items() if isinstance(value, endpoint)]


def signature(heading):
    """Return the code below a heading."""
    return TEXT.partition(f"# `{heading}`\n\n```python\n")[2].partition("\n```")[0]


def test_the_page_is_what_the_code_says():
    assert written() == TEXT, "docs/reference/python.md is out of date: run scripts/reference"


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_one_heading(module):
    for name in public_names(module):
        assert HEADINGS.count(name) == (0 if name == "__version__" else 1), name


def test_what_is_read_from_the_source_is_there_when_it_is_imported():
    for module in IMPORTED:
        for name in public_names(module):
            assert hasattr(import_module(module), name)


@pytest.mark.parametrize("name", ENDPOINTS)
def test_a_call_of_both_clients_shows_its_result_and_not_a_request(name):
    built = inspect.signature(getattr(Endpoints, name))
    annotated = built.return_annotation
    annotated = annotated if isinstance(annotated, str) else inspect.formatannotation(annotated)
    result = re.search(r"Request\[(.*)\]$", annotated)[1]
    for client, begins in (("Client", "def"), ("AsyncClient", "async def")):
        shown = signature(f"{client}.{name}")
        assert shown.startswith(f"{begins} {name}(")
        assert shown.endswith(f") -> {result.removeprefix('typing.')}")
        assert re.findall(r"(\w+): ", shown) == list(built.parameters)


def test_there_are_calls():
    assert len(ENDPOINTS) == 8
    assert signature("Client.send_message").endswith("-> Message")


@pytest.mark.parametrize("cls", ["Client", "AsyncClient"])
def test_a_client_shows_all_that_it_has_and_nothing_private(cls):
    shown = {heading for heading in HEADINGS if heading.startswith(f"{cls}.")}
    has = {
        f"{cls}.{name}"
        for name, value in inspect.getmembers(getattr(knowledge_bot, cls))
        if not name.startswith("_") and not isinstance(value, property)
    }
    assert shown == has
    assert "- `base_url: str`:" in TEXT


@pytest.mark.parametrize("module", IMPORTED)
def test_whatever_is_public_says_what_it_is(module):
    for name in public_names(module):
        value = getattr(import_module(module), name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, name
        if inspect.isclass(value) and value.__module__.startswith("knowledge_bot"):
            for member, of in vars(value).items():
                told = member.startswith("_") or not isinstance(of, FunctionType | property)
                assert told or of.__doc__, f"{name}.{member}"


def test_each_link_leads_to_the_only_heading_of_its_name():
    anchors = [anchor(heading) for heading in HEADINGS]
    assert len(anchors) == len(set(anchors))
    for link in re.findall(r"\]\(#([^)]*)\)", TEXT):
        assert link in anchors
