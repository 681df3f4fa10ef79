"""What Airflow reads of the provider without running it."""

import json
from importlib import import_module, metadata
from pathlib import Path

import airflow
import jsonschema
import pytest

import airflow_knowledge_bot
from airflow_knowledge_bot.get_provider_info import get_provider_info
from airflow_knowledge_bot.hooks import KnowledgeBotHook, KnowledgeBotLedgerHook
from airflow_knowledge_bot.hooks.connections import ConnectionExtra
from knowledge_bot import __version__
from loaded_modules import loaded_by

CONNECTION_TYPE, OF_LEDGERS = get_provider_info()["connection-types"]


def schema(name: str) -> dict:
    return json.loads((Path(airflow.__file__).parent / name).read_text())


def test_it_is_what_airflow_accepts_when_it_discovers_providers():
    jsonschema.validate(get_provider_info(), schema("provider_info.schema.json"))


@pytest.mark.skipif(
    "conn-fields" not in (Path(airflow.__file__).parent / "provider.yaml.schema.json").read_text(),
    reason="the schema of Airflow 3.1 knows no fields of a connection and one tag at most",
)
def test_it_is_what_airflow_s_own_providers_must_hold():
    info = get_provider_info()
    # What Airflow's release process adds to its own providers, and a documentation's address.
    info |= {"state": "ready", "versions": [__version__], "source-date-epoch": 0}
    info["integrations"][0]["external-doc-url"] = "https://service.example"
    jsonschema.validate(info, schema("provider.yaml.schema.json"))


def test_the_package_name_is_the_distribution_s():
    # Anything else ends Airflow's discovery with an error, in every process.
    (entry_point,) = [
        entry_point
        for entry_point in metadata.entry_points(group="apache_airflow_provider")
        if entry_point.value.startswith("airflow_knowledge_bot")
    ]
    assert entry_point.dist is not None
    assert entry_point.dist.name == get_provider_info()["package-name"]
    assert entry_point.load()() == get_provider_info()


def test_every_guide_picture_module_and_class_that_it_names_exists():
    info = get_provider_info()
    (integration,) = info["integrations"]
    for page in integration["how-to-guide"]:
        assert (Path(__file__).parents[2] / page.lstrip("/")).is_file()
    package = Path(airflow_knowledge_bot.__file__).parent
    assert (package / integration["logo"].lstrip("/")).is_file()
    for kind in ("hooks", "operators", "sensors", "triggers"):
        for entry in info[kind]:
            assert entry["integration-name"] == info["integrations"][0]["integration-name"]
            for module in entry["python-modules"]:
                import_module(module)
    assert named(CONNECTION_TYPE["hook-class-name"]) is KnowledgeBotHook
    assert named(OF_LEDGERS["hook-class-name"]) is KnowledgeBotLedgerHook
    (scheme,) = info["asset-uris"]
    for path in (
        scheme["handler"],
        scheme["to_openlineage_converter"],
        *(decorator["class-name"] for decorator in info["task-decorators"]),
    ):
        assert callable(named(path))


def named(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


@pytest.mark.parametrize(
    ("kind", "hook"), [(CONNECTION_TYPE, KnowledgeBotHook), (OF_LEDGERS, KnowledgeBotLedgerHook)]
)
def test_the_hooks_and_the_connection_types_agree(kind, hook):
    assert kind["connection-type"] == hook.conn_type
    assert kind["hook-name"] == hook.hook_name
    assert KnowledgeBotHook.get_ui_field_behaviour().keys() == {
        "hidden_fields",
        "relabeling",
        "placeholders",
    }


def test_the_form_offers_what_the_hook_reads_with_the_same_defaults():
    fields = CONNECTION_TYPE["conn-fields"]
    assert fields.keys() == ConnectionExtra.model_fields.keys()
    for name, field in ConnectionExtra.model_fields.items():
        assert fields[name]["schema"].get("default") == field.default


# What a DAG file costs each time it is parsed is over Airflow's own: some releases load the bases
# of operators, sensors and hooks, what these refer to, and what providers say of themselves with
# `DAG`, and others where they are first used.
AIRFLOW = """
import airflow.sdk.definitions.xcom_arg, airflow.sdk.execution_time.lazy_sequence
import airflow_knowledge_bot.get_provider_info
from airflow.sdk import DAG, BaseHook, BaseOperator, BaseOperatorLink, BaseSensorOperator
"""
HEAVY = ("aiohttp", "airflow.triggers", "fastapi", "knowledge_bot.", "pandas", "requests")


def test_parsing_a_dag_that_uses_the_provider_loads_next_to_nothing():
    loaded = loaded_by(
        "import airflow_knowledge_bot.operators, airflow_knowledge_bot.sensors", after=AIRFLOW
    )
    assert "airflow_knowledge_bot.operators" in loaded
    assert len(loaded) <= 13, loaded
    assert not [name for name in loaded if name.startswith(HEAVY)]


def test_discovery_imports_nothing_of_airflow():
    assert "airflow" not in loaded_by("import airflow_knowledge_bot.get_provider_info")
