"""Airflow's rules for its own providers, held to this one (apache/airflow, `scripts/ci/prek`)."""

import ast
import inspect
import textwrap
from pathlib import Path

import pytest
from airflow.sdk import BaseOperator, BaseSensorOperator

from airflow_knowledge_bot import operators, sensors

CLASSES = [
    each
    for module in (operators, sensors)
    for name, each in vars(module).items()
    if name.startswith("KnowledgeBot") and name.endswith(("Operator", "Sensor"))
]
EXAMPLES = Path(__file__).parents[2] / "examples"
DAG_FILES = [file for file in EXAMPLES.glob("*.py") if "airflow.sdk import" in file.read_text()]
DEFERRABLE = "conf.getboolean('operators', 'default_deferrable', fallback=False)"


def makers(cls):
    """Return the constructors of a class and of those of its bases that are this provider's."""
    ours = [each for each in cls.__mro__ if each.__module__.startswith("airflow_knowledge_bot")]
    return [vars(each)["__init__"] for each in ours]  # each of them has one


def constructors(cls):
    for each in makers(cls):
        (function,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        yield function


def kept(function):
    """Return the names that a constructor keeps as they are, or hands to its base's by name."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name("self"), attr=name)]):
                if isinstance(node.value, ast.Name) and node.value.id == name:
                    yield name, node.value
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name("super")))):
                for each in node.keywords:
                    if isinstance(each.value, ast.Name) and each.value.id == each.arg:
                        yield each.arg, each.value


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_constructor_keeps_its_template_fields_and_does_nothing_with_them(cls):
    # They are rendered after it ran (`validate_operators_init.py`).
    functions = list(constructors(cls))
    keeps = dict(pair for function in functions for pair in kept(function))
    assert set(cls.template_fields) <= set(keeps)
    nodes = [node for function in functions for node in ast.walk(function)]
    read = {
        node.id: node.lineno
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        if node.id in cls.template_fields and node not in keeps.values()
    }
    assert not read
    of_self = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        if isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    assert not of_self & set(cls.template_fields)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_id_of_a_connection_is_a_template(cls):
    # `check_conn_id_templated.py`
    taken = {name for maker in makers(cls) for name in inspect.signature(maker).parameters}
    given = {name for name in taken if name.endswith("conn_id")}
    assert given
    assert given <= set(cls.template_fields)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_what_can_be_deferred_is_so_by_airflow_s_setting(cls):
    # `check_deferrable_default.py`
    given = next(constructors(cls)).args
    defaults = dict(zip([each.arg for each in given.kwonlyargs], given.kw_defaults, strict=True))
    if "deferrable" in defaults:
        assert ast.unparse(defaults["deferrable"]) == DEFERRABLE


@pytest.mark.parametrize("file", DAG_FILES, ids=lambda file: file.stem)
def test_every_example_is_tagged_as_one(file):
    # `check_example_dag_tags.py`
    dags = [
        node
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("dag", "DAG")
    ]
    for node in dags:
        (tags,) = [each.value for each in node.keywords if each.arg == "tags"]
        assert "example" in ast.literal_eval(tags)


STUB = ast.parse(Path(inspect.getfile(operators)).parents[1].joinpath("arguments.pyi").read_text())


@pytest.mark.parametrize("base", [BaseOperator, BaseSensorOperator])
def test_type_checkers_see_the_arguments_of_airflow_s_bases(base):
    taken = set(inspect.signature(base.__init__).parameters) - {"self", "kwargs"}
    assert taken <= {one.target.id for one in ast.walk(STUB) if isinstance(one, ast.AnnAssign)}
