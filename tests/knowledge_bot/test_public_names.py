"""What other people import: a list that changes by decision, and modules that nobody imports."""

import ast
import pkgutil
from importlib import import_module, util
from pathlib import Path

import pytest

import knowledge_bot

LIST = Path(__file__).parents[1] / "public_names.txt"

PUBLIC_MODULES = (
    "knowledge_bot",
    "knowledge_bot.checks",
    "knowledge_bot.conversations",
    "knowledge_bot.errors",
    "knowledge_bot.ingest",
    "knowledge_bot.models",
    "knowledge_bot.origins",
    "knowledge_bot.testing",
    "knowledge_bot.testing.pytest",
    "knowledge_bot.transcripts",
)

# Without an underscore, and yet not for import.
PROGRAMS = ("knowledge_bot.adapters", "knowledge_bot.cli")


DECISION = """
The public names changed. Others import them for years, so this is a decision and no detail.
Where it is meant: change tests/public_names.txt by hand (one `module.name` a line, sorted), say so
in CHANGELOG.md. Where it is not: begin the name with an underscore.
Not in the list:             {new}
In the list, but not there:  {gone}
"""


def public_names(module):
    """Return a module's `__all__`, or else what it defines itself without an underscore."""
    source = Path(util.find_spec(module).origin).read_text(encoding="utf-8")
    listed = getattr(import_module(module), "__all__", None)
    if listed is None:
        listed = [name for node in ast.parse(source).body for name in defined_by(node)]
        listed = [name for name in listed if not name.startswith("_")]
    return {f"{module}.{name}" for name in listed}


def defined_by(statement):
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def test_the_public_names_are_those_of_the_list():
    listed = LIST.read_text(encoding="utf-8").splitlines()
    assert listed == sorted(set(listed)), "tests/public_names.txt is to be sorted"
    found = set().union(*map(public_names, PUBLIC_MODULES))
    new, gone = sorted(found - set(listed)), sorted(set(listed) - found)
    assert not new + gone, DECISION.format(new=", ".join(new), gone=", ".join(gone))


@pytest.mark.parametrize("name", LIST.read_text(encoding="utf-8").splitlines())
def test_a_listed_name_can_be_imported(name):
    module, _, attribute = name.rpartition(".")
    assert hasattr(import_module(module), attribute)


def test_every_other_module_is_private():
    modules = [
        each.name for each in pkgutil.walk_packages(knowledge_bot.__path__, "knowledge_bot.")
    ]
    exposed = [
        module
        for module in modules
        if module not in PUBLIC_MODULES
        and not any(f"{module}.".startswith(f"{program}.") for program in PROGRAMS)
        and not any(part.startswith("_") for part in module.split("."))
    ]
    assert exposed == [], "begin their names with an underscore, or decide to keep them for years"
    assert {*PUBLIC_MODULES[1:], *PROGRAMS} <= set(modules)


def test_the_package_lists_its_names_before_they_are_loaded():
    assert set(dir(knowledge_bot)) == set(knowledge_bot.__all__)
