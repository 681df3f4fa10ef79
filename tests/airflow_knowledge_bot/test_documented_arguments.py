"""The docstrings of all operators, sensors, hooks and triggers: the arguments that there are."""

import inspect
import re
from importlib import import_module

import pytest

MODULES = ("operators", "sensors", "hooks", "triggers")
# Their own strings are templates in parts only, which takes a sentence.
PARTLY = ("origin", "documents")


def public_classes():
    for name in MODULES:
        module = import_module(f"airflow_knowledge_bot.{name}")
        for each in vars(module).values():
            own = inspect.isclass(each) and each.__module__.startswith(module.__name__)
            if own and each.__name__.startswith("KnowledgeBot"):
                yield each


def methods():
    for cls in CLASSES:
        for name, each in vars(cls).items():
            public = inspect.isfunction(each) and not name.startswith("_")
            if public and "Args:" in (each.__doc__ or ""):
                yield each


CLASSES = list(public_classes())


def documented(thing):
    """Return what a docstring's section `Args` says of each argument."""
    _, _, section = inspect.getdoc(thing).partition("Args:\n")
    section = re.split(r"^\S", section, maxsplit=1, flags=re.MULTILINE)[0]
    parts = re.split(r"^ {4}(\w+): ", section, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def taken(function):
    return set(inspect.signature(function).parameters) - {"self"}


def constructed(cls):
    """Return the arguments of a class: its own, and those of its bases that are not Airflow's."""
    ours = [each for each in cls.__mro__ if each.__module__.startswith("airflow_knowledge_bot")]
    return {name for each in ours if "__init__" in vars(each) for name in taken(each.__init__)}


def test_there_are_classes():
    names = {cls.__name__ for cls in CLASSES}
    assert len(names) == len(CLASSES) == 14, names
    assert len([*methods()]) >= 5


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_class_documents_the_arguments_that_it_takes_and_no_others(cls):
    arguments = constructed(cls)
    said = set(documented(cls))
    assert said - {"kwargs"} == arguments - {"kwargs"}
    assert said <= arguments


@pytest.mark.parametrize("method", methods(), ids=lambda each: each.__qualname__)
def test_a_method_documents_the_arguments_that_it_takes_and_no_others(method):
    assert set(documented(method)) == taken(method)


@pytest.mark.parametrize(
    "cls", [cls for cls in CLASSES if hasattr(cls, "template_fields")], ids=lambda cls: cls.__name__
)
def test_a_class_says_which_of_its_arguments_are_templates(cls):
    templates = {name for name in cls.template_fields if name not in PARTLY}
    said = {name for name, text in documented(cls).items() if "(templated" in text}
    assert said - {*PARTLY} == templates
