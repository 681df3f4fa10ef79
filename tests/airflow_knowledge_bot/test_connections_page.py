"""The page about connections: each form of them gives the settings that it says."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from airflow.sdk import Connection

from airflow_knowledge_bot.get_provider_info import get_provider_info
from airflow_knowledge_bot.hooks import KnowledgeBotHook
from airflow_knowledge_bot.hooks.connections import ConnectionExtra
from airflow_knowledge_bot.hooks.ledger import KnowledgeBotLedgerHook
from knowledge_bot import Client, ConfigurationError
from knowledge_bot.ingest import Ledger, Text, ingest
from scripted_server import close

FOLDER = Path(__file__).parents[2] / "docs" / "airflow"
PAGE = (FOLDER / "connections.md").read_text(encoding="utf-8")
OF_THE_SERVICE, OF_LEDGERS = PAGE.split("\n## The ledger")
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
EXPORTS = [
    found for block in BLOCKS for found in re.findall(r"export (\w+)='(.*?)'", block, re.DOTALL)
]
COMMANDS = [block for block in BLOCKS if block.startswith("airflow ")]
DEFAULTS = {None: "", True: "true", 60.0: "60"}
SERVICE_TYPE, LEDGER_TYPE = get_provider_info()["connection-types"]
FILE = "/var/lib/airflow/ledger.db"
DATABASE = "postgresql://airflow:KEY-OF-THE-DATABASE@db.example/ledgers?sslmode=require"


def cells(text):
    """Return the rows of a text's tables, without their code marks."""
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]


def address(ledger):
    return str(ledger.database.file or ledger.database.url)


def assert_is_the_service(conn_id):
    settings = KnowledgeBotHook(conn_id).settings
    assert settings.base_url == "https://service.example/public/v1"
    assert settings.api_key.get_secret_value() == "KEY-OF-THE-SERVICE"
    assert settings.extra == ConnectionExtra(timeout=30, default_collection_id="col_default")


def test_every_block_is_an_export_or_a_command():
    assert len(BLOCKS) == len(COMMANDS) + len([one for one in BLOCKS if one.startswith("export")])
    assert len(EXPORTS) == 4


@pytest.mark.parametrize(("name", "value"), EXPORTS)
def test_what_the_environment_gives_is_the_connection(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    conn_id = name.removeprefix("AIRFLOW_CONN_").lower()
    if conn_id == "knowledge_bot_default":
        assert_is_the_service(conn_id)
    else:
        expected = FILE if conn_id == "ledger_in_a_file" else DATABASE
        assert address(KnowledgeBotLedgerHook(conn_id).get_conn()) == expected


# Prints the arguments of each command of a block, instead of starting Airflow for each.
READ = """
airflow() { printf '%s\\0' "$@"; printf '\\n'; }
"""


@pytest.fixture
def airflow_command(dags):
    """`airflow_command(*arguments)`: run a command of Airflow's, in this process."""
    from airflow.cli.cli_parser import get_parser

    def run(*arguments):
        given = get_parser().parse_args(arguments)
        given.func(given)

    return run


def test_what_the_commands_add_is_the_connection(airflow_command, monkeypatch, tmp_path):
    keys = {"KNOWLEDGE_BOT_API_KEY": "KEY-OF-THE-SERVICE", "PGPASSWORD": "KEY-OF-THE-DATABASE"}
    script = "\n".join([READ, *COMMANDS])
    read = subprocess.run(
        ["bash", "-ec", script], env=os.environ | keys, capture_output=True, text=True, check=True
    )
    commands = [line.split("\0")[:-1] for line in read.stdout.splitlines()]
    file = tmp_path / "added.json"
    try:
        for command in commands:
            airflow_command(*command)
        airflow_command("connections", "export", str(file))
    finally:
        for command in commands:
            airflow_command("connections", "delete", command[2])
    for conn_id, parts in json.loads(file.read_text()).items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(parts))
    assert_is_the_service("knowledge_bot_default")
    assert address(KnowledgeBotLedgerHook("ledger_in_a_file").get_conn()) == FILE
    assert address(KnowledgeBotLedgerHook("ledger_in_postgresql").get_conn()) == DATABASE


URIS = [row for row in cells(PAGE) if "://" in row[0]]


def test_it_shows_both_traps_and_all_types():
    assert [row[0].partition(":")[0] for row in URIS] == [
        "knowledge_bot",
        *["knowledge-bot"] * 2,
        *["knowledge-bot-ledger"] * 2,
        "sqlite",
        "postgresql",
    ]


@pytest.mark.parametrize(("uri", "meant"), URIS)
def test_a_uri_means_what_it_says(monkeypatch, uri, meant):
    monkeypatch.setenv("AIRFLOW_CONN_GIVEN", uri)
    if uri.startswith("knowledge_bot"):
        assert Connection.from_uri(uri, "given").conn_type == ""  # hence `Unknown hook type ""`
        with pytest.raises(ConfigurationError, match="has no password"):
            KnowledgeBotHook("given").get_conn()
    elif uri.startswith("knowledge-bot:"):
        assert KnowledgeBotHook("given").settings.base_url == meant
    else:
        assert address(KnowledgeBotLedgerHook("given").get_conn()) == meant


def test_its_first_table_is_the_form_of_the_service():
    form = cells(OF_THE_SERVICE)[1:8]
    labels = [*SERVICE_TYPE["ui-field-behaviour"]["relabeling"].values()]
    labels += [field["label"] for field in SERVICE_TYPE["conn-fields"].values()]
    assert [row[0] for row in form] == labels
    fields = [row[1].partition("`")[0] for row in form]
    assert fields == ["host", "password", *ConnectionExtra.model_fields]
    for row, field in zip(form[2:], ConnectionExtra.model_fields.values(), strict=True):
        assert row[2] == DEFAULTS.get(field.default, str(field.default))


def test_its_second_table_is_the_form_of_a_ledger(monkeypatch):
    labels = {row[0] for row in cells(OF_LEDGERS)}
    assert set(LEDGER_TYPE["ui-field-behaviour"]["relabeling"].values()) <= labels
    (extra,) = [row for row in cells(OF_LEDGERS) if row[1] == "extra"]
    options = re.findall(r"`?(\w+)`", extra[3])
    parts = {"conn_type": "knowledge_bot_ledger", "host": "db.example", "schema": "ledgers"}
    parts["extra"] = dict.fromkeys([*options, "other"], "x")
    monkeypatch.setenv("AIRFLOW_CONN_GIVEN", json.dumps(parts))
    reached = re.findall(r"(\w+)=x", address(KnowledgeBotLedgerHook("given").get_conn()))
    assert sorted(reached) == sorted(options)


SAID = {row[0]: row[1] for row in cells(PAGE) if len(row) == 2}


def test_the_button_says_of_the_service_what_the_page_says(connect, connected):
    said = KnowledgeBotHook().test_connection()
    assert said == (True, SAID["nothing"])
    connected.fail_next(401)
    ok, said = KnowledgeBotHook().test_connection()
    assert not ok
    assert "401" in said
    assert "401" in SAID["the key"]
    connect("http://127.0.0.1:1", max_retries=0)
    connected.reachable = False
    assert "no connection to http://127.0.0.1:1" in KnowledgeBotHook().test_connection()[1]
    connect("https://service.example", password=None)
    missing = SAID["the password or the host is missing"]
    assert missing.startswith(KnowledgeBotHook().test_connection()[1].partition(":")[0])
    connect(None)
    assert "has no host" in KnowledgeBotHook().test_connection()[1]


def test_the_button_says_of_a_ledger_what_the_page_says(monkeypatch, scripted, ledger, tmp_path):
    def tried(host):
        parts = {"conn_type": "knowledge_bot_ledger", "host": str(host)}
        monkeypatch.setenv("AIRFLOW_CONN_BUTTON", json.dumps(parts))
        return KnowledgeBotLedgerHook("button").test_connection()

    assert tried(ledger) == (True, SAID["is not made yet"].replace(FILE, str(ledger)))
    missing = tmp_path / "none" / "ledger.db"
    sentence = SAID["would be in a folder that does not exist"]
    assert tried(missing) == (False, sentence.replace("/var/lib/airflow", str(missing.parent)))
    server = scripted(close)
    with Client("KEY-OF-THE-SERVICE", server.url, timeout=2) as client:
        ingest(client, [Text(name="a", content="a")], collections="col_1", ledger=Ledger(ledger))
    counted = SAID["is there"].replace("118", "1").replace("2 of", "1 of")
    counted = counted.replace(FILE, str(ledger))
    assert tried(ledger) == (True, counted)
