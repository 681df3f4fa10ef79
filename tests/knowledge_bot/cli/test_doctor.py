"""`kbot doctor`: where settings come from, and what works."""

import json
import sqlite3

import pytest

from calls import KEY
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest
from pseudo_terminal import terminal
from scripted_server import answer, close


@pytest.fixture
def examined(run):
    """`kbot doctor --json`: the exit code, the settings and the checks by their names."""

    def examine(*options, more=(), **environment):
        done = run(*options, "doctor", "--json", *more, **environment)
        found = json.loads(done.stdout)
        settings = {one["name"]: (one["value"], one["from"]) for one in found["settings"]}
        checks = {one["name"]: (one["ok"], one["detail"]) for one in found["checks"]}
        assert found["ok"] == (done.exit_code == 0)
        assert KEY not in done.output
        return done.exit_code, settings, checks

    return examine


def test_all_that_works_is_reported_with_where_it_comes_from(examined, of_the_service, tmp_path):
    code, settings, checks = examined()
    assert code == 0
    assert settings["address"] == (of_the_service.base_url, "KNOWLEDGE_BOT_BASE_URL")
    assert settings["key"] == ("set", "KNOWLEDGE_BOT_API_KEY")
    assert settings["collections"] == ("col_handbook", "KNOWLEDGE_BOT_COLLECTION")
    assert settings["ledger"] == (f"{tmp_path}/data/kbot/ledger.db", "default")
    assert settings["timeout"] == ("60 s", "default")
    assert settings["profile"] == (None, None)
    assert checks["service"] == (True, "It answers.")
    assert checks["key"] == (True, "With it the service lists 1 bot.")
    assert checks["collections"] == (True, "The service has col_handbook.")
    assert checks["ledger"][0] is None
    assert "Not there yet" in checks["ledger"][1]
    assert checks["kbot serve"][0] is True
    assert not (tmp_path / "data").exists()


def test_options_and_profiles_are_named_as_where_it_comes_from(
    examined, service, settings_file, tmp_path
):
    settings_file.parent.mkdir()
    settings_file.write_text(
        f'[profiles.work]\nbase_url = "{service.base_url}"\napi_key = "{KEY}"\n'
        'collections = ["col_handbook"]\n'
    )
    settings_file.chmod(0o600)
    origin = f"profile work in {settings_file}"
    code, settings, _ = examined()
    assert code == 0
    assert settings["file"] == (str(settings_file), "KBOT_CONFIG")
    assert settings["profile"] == ("work", "default of the file")
    assert settings["address"] == (service.base_url, origin)
    assert settings["key"] == ("set", origin)
    assert settings["collections"] == ("col_handbook", origin)
    _, settings, _ = examined("--timeout", "3", KBOT_PROFILE="work")
    assert settings["profile"] == ("work", "KBOT_PROFILE")
    assert settings["timeout"] == ("3 s", "--timeout")
    ledger = str(tmp_path / "l.db")
    _, settings, _ = examined(
        "--profile", "work", "--base-url", service.base_url, more=("--ledger", ledger)
    )
    assert settings["profile"] == ("work", "--profile")
    assert settings["address"] == (service.base_url, "--base-url")
    assert settings["ledger"] == (ledger, "--ledger")


def test_people_get_two_tables(program, of_the_service):
    with terminal([program, "doctor"], {"NO_COLOR": "1"}, columns=160) as screen:
        assert screen.end() == 0
    assert "setting" in screen.shown
    assert "check " in screen.shown
    assert KEY not in screen.shown


def test_what_the_ledger_knows_is_counted(examined, of_the_service, scripted, tmp_path):
    file = tmp_path / "ledger.db"
    server = scripted(close)
    for url in (of_the_service.base_url, server.url):
        with Client(KEY, url, max_retries=0) as client:
            item = Text(name="A", content="x")
            ingest(client, [item], collections="col_handbook", ledger=Ledger(file))
    _, settings, checks = examined(KNOWLEDGE_BOT_LEDGER=str(file))
    assert settings["ledger"] == (str(file), "KNOWLEDGE_BOT_LEDGER")
    shown = "It can be read: created 1, unknown 1. `kbot ledger unknown` lists them."
    assert checks["ledger"] == (True, shown)


def test_without_a_service_it_is_said_how_to_name_one(examined):
    code, settings, checks = examined()
    assert (code, settings["address"]) == (1, (None, None))
    assert checks["service"][0] is False
    assert "kbot login" in checks["service"][1]


def test_without_a_key_the_exit_code_is_that_of_the_account(examined, of_the_service, monkeypatch):
    monkeypatch.delenv("KNOWLEDGE_BOT_API_KEY")
    code, settings, checks = examined()
    assert (code, settings["key"]) == (4, (None, None))
    assert checks["service"][0] is True
    assert checks["key"][0] is False


@pytest.mark.parametrize(
    ("replies", "code", "failed"),
    [
        ([answer(body=b"pong"), answer(401)], 4, {"key", "collections"}),
        ([answer(body=b"pong"), answer(403)], 4, {"key", "collections"}),
        ([answer(body=b"pong"), answer(404)], 1, {"key", "collections"}),
        ([answer(404)], 1, {"service"}),
        ([answer(body=b"no pong")], 1, {"service"}),
    ],
)
def test_what_does_not_work_is_named(examined, answering, replies, code, failed):
    answering(*replies, on_ping=None)
    found, _, checks = examined()
    assert found == code
    assert {name for name, (ok, _) in checks.items() if ok is False} == failed


def test_a_service_that_is_away_is_a_failure(examined):
    code, _, checks = examined(
        KNOWLEDGE_BOT_BASE_URL="http://127.0.0.1:9", KNOWLEDGE_BOT_API_KEY="k"
    )
    assert code == 1
    assert checks["service"][0] is False
    assert "no connection" in checks["service"][1]
    assert "key" not in checks


@pytest.mark.parametrize("address", ["nonsense", "http://u:pw@h.example", "http://["])
def test_an_address_that_is_none_is_a_failure(examined, address):
    code, _, checks = examined(KNOWLEDGE_BOT_BASE_URL=address, KNOWLEDGE_BOT_API_KEY="k")
    assert code == 1
    assert "base_url" in checks["service"][1]


def test_a_collection_that_is_not_there_is_a_failure(examined, of_the_service):
    code, _, checks = examined(KNOWLEDGE_BOT_COLLECTION="col_handbook col_nowhere")
    assert code == 1
    assert checks["collections"] == (False, "The service has no col_nowhere.")


@pytest.mark.parametrize(
    ("content", "word"), [("base_url = ", "not valid TOML"), ("x = 1", "not a setting")]
)
def test_a_file_that_is_broken_is_a_failure(examined, settings_file, content, word):
    settings_file.parent.mkdir()
    settings_file.write_text(content)
    code, _, checks = examined()
    assert code == 1
    assert word in checks["settings"][1]


def test_a_profile_that_is_not_there_is_a_failure(examined, settings_file):
    settings_file.parent.mkdir()
    settings_file.write_text('[profiles.work]\nbase_url = "http://127.0.0.1:9"\n')
    code, _, checks = examined("--profile", "wrk")
    assert code == 1
    assert "Did you mean work?" in checks["settings"][1]


def test_a_ledger_of_another_schema_is_a_failure(examined, of_the_service, tmp_path):
    for name, statement in {
        "other.db": "CREATE TABLE accounts (id)",
        "older.db": "CREATE TABLE kbot_items (id)",
    }.items():
        connection = sqlite3.connect(tmp_path / name)
        connection.execute(statement)
        connection.close()
        code, _, checks = examined(KNOWLEDGE_BOT_LEDGER=str(tmp_path / name))
        assert (code, checks["ledger"][0]) == (1, False)


def test_a_ledger_that_cannot_be_read_is_a_failure_and_shows_no_password(
    examined, of_the_service, tmp_path
):
    (tmp_path / "no.db").write_bytes(b"not a database at all, but long enough to look at")
    code, _, checks = examined(KNOWLEDGE_BOT_LEDGER=str(tmp_path / "no.db"))
    assert (code, checks["ledger"][0]) == (1, False)
    for address in ("postgresql://me:hidden-word@127.0.0.1:9/db", "mysql://me:hidden-word@h/db"):
        code, settings, checks = examined(KNOWLEDGE_BOT_LEDGER=address)
        assert (code, checks["ledger"][0]) == (1, False)
        assert "hidden-word" not in str((settings, checks))


@pytest.mark.parametrize("address", ["http://me:hidden@proxy.example:3128", "me:hidden@proxy:3128"])
def test_proxies_are_named_without_their_passwords(examined, of_the_service, address):
    _, settings, _ = examined(HTTPS_PROXY=address)
    value, origin = settings["proxy"]
    assert "hidden" not in value
    assert value.startswith(("http://***@proxy", "***@proxy"))
    assert value.endswith("(not for this service)")
    assert origin == "HTTPS_PROXY"


def test_a_proxy_that_is_used_is_shown_as_such(examined):
    proxy = {"HTTPS_PROXY": "http://127.0.0.1:9", "KNOWLEDGE_BOT_BASE_URL": "https://h.example"}
    _, settings, _ = examined(**proxy, KNOWLEDGE_BOT_API_KEY="k")
    assert settings["proxy"] == ("http://127.0.0.1:9", "HTTPS_PROXY")


def test_extras_that_are_installed_are_listed_with_their_versions(examined, of_the_service):
    _, _, checks = examined()
    assert checks["extra serve"][0] is True
    assert "knowledge-bot-service " in checks["extra serve"][1]


def test_it_says_what_is_announced_and_what_is_not(examined, answering):
    header = {"Knowledge-Bot-Extensions": "sources=1;manage, com.example.acl=1"}
    answering(answer(body={"data": []}), on_ping=answer(body="pong", headers=header))
    _, _, checks = examined()
    assert checks["extension sources"] == (True, "manage")
    assert checks["extension com.example.acl"][0] is True
    assert checks["extension idempotency"][0] is None
    assert checks["extension passages"][0] is None
