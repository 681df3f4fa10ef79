"""`kbot doctor`: where settings come from, and what works."""

import contextlib
import json
import sqlite3

import pytest

from calls import KEY
from knowledge_bot import Client
from pseudo_terminal import terminal
from served import served

HANDBOOK = {"bots": {"bot_guide": {}}, "collections": ["col_handbook"]}
URL = "https://service.test"


@pytest.fixture
def service(standing_in):
    return standing_in(**HANDBOOK)


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


def test_all_that_works_is_reported_with_where_it_comes_from(
    examined, service, tmp_path, monkeypatch
):
    monkeypatch.setenv("KNOWLEDGE_BOT_COLLECTION", "col_handbook")
    code, settings, checks = examined()
    assert code == 0
    assert settings["address"] == (URL, "KNOWLEDGE_BOT_BASE_URL")
    assert settings["key"] == ("set", "KNOWLEDGE_BOT_API_KEY")
    assert settings["collections"] == ("col_handbook", "KNOWLEDGE_BOT_COLLECTION")
    assert settings["ledger"] == (f"{tmp_path}/data/kbot/ledger.db", "default")
    assert settings["timeout"] == ("60 s", "default")
    assert settings["profile"] == (None, None)
    assert checks["ledger"][0] is None
    for name, said in {"service": "", "key": "1 bot", "collections": "col_handbook"}.items():
        assert checks[name][0] is True
        assert said in checks[name][1]
    assert not (tmp_path / "data").exists()


def test_options_and_profiles_are_named_as_where_it_comes_from(
    examined, service, settings_file, tmp_path, monkeypatch
):
    monkeypatch.delenv("KNOWLEDGE_BOT_BASE_URL")
    monkeypatch.delenv("KNOWLEDGE_BOT_API_KEY")
    settings_file.parent.mkdir()
    settings_file.write_text(
        f'[work]\nbase_url = "{URL}"\napi_key = "{KEY}"\ncollections = ["col_handbook"]\n'
    )
    settings_file.chmod(0o600)
    origin = f"profile work in {settings_file}"
    code, settings, _ = examined()
    assert code == 0
    assert settings["file"] == (str(settings_file), "KBOT_CONFIG")
    assert settings["profile"][0] == "work"
    assert settings["address"] == (URL, origin)
    assert settings["key"] == ("set", origin)
    assert settings["collections"] == ("col_handbook", origin)
    _, settings, _ = examined("--timeout", "3", KBOT_PROFILE="work")
    assert settings["profile"] == ("work", "KBOT_PROFILE")
    assert settings["timeout"] == ("3 s", "--timeout")
    ledger = str(tmp_path / "l.db")
    _, settings, _ = examined("--profile", "work", "--base-url", URL, more=("--ledger", ledger))
    assert settings["profile"] == ("work", "--profile")
    assert settings["address"] == (URL, "--base-url")
    assert settings["ledger"] == (ledger, "--ledger")


@pytest.mark.slow
def test_people_get_two_tables(program, service):
    with served(service) as url:
        environment = {"NO_COLOR": "1", "KNOWLEDGE_BOT_BASE_URL": url}
        with terminal([program, "doctor"], environment, columns=160) as screen:
            assert screen.end() == 0
    assert "setting" in screen.shown
    assert "check " in screen.shown
    assert KEY not in screen.shown


def test_a_ledger_that_cannot_be_used_is_a_failure_and_shows_no_password(
    examined, service, tmp_path
):
    for name in ("accounts", "kbot_items"):  # of another program, and of an older schema
        with contextlib.closing(sqlite3.connect(tmp_path / name)) as connection:
            connection.execute(f"CREATE TABLE {name} (id)")
    (tmp_path / "no.db").write_bytes(b"not a database at all, but long enough to look at")
    for address in (
        *(f"{tmp_path}/{name}" for name in ("accounts", "kbot_items", "no.db")),
        *("postgresql://me:hidden-word@127.0.0.1:9/db", "mysql://me:hidden-word@h/db"),
    ):
        code, settings, checks = examined(KNOWLEDGE_BOT_LEDGER=address)
        assert (code, checks["ledger"][0]) == (1, False)
        assert "hidden-word" not in str((settings, checks))


@pytest.mark.parametrize("address", ["http://me:hidden@proxy.example:3128", "me:hidden@proxy:3128"])
def test_proxies_are_named_without_their_passwords(examined, service, address):
    _, settings, _ = examined(HTTP_PROXY=address)
    value, origin = settings["proxy"]
    # In parentheses: that it is not for this service.
    assert value.startswith(f"{address.replace('me:hidden', '***')} (")
    assert origin == "HTTP_PROXY"


def test_a_proxy_that_is_used_is_shown_as_such(examined):
    proxy = {"HTTPS_PROXY": "http://127.0.0.1:9", "KNOWLEDGE_BOT_BASE_URL": "https://h.example"}
    _, settings, _ = examined(**proxy, KNOWLEDGE_BOT_API_KEY="k")
    assert settings["proxy"] == ("http://127.0.0.1:9", "HTTPS_PROXY")


def test_it_says_what_is_announced_and_what_is_not(examined, service):
    service.announcement = "sources=1;manage, com.example.acl=1"
    _, _, checks = examined()
    assert checks["extension sources"] == (True, "manage")
    assert checks["extension com.example.acl"][0] is True
    assert checks["extension idempotency"][0] is None
    assert checks["extension passages"][0] is None


def test_it_says_what_the_service_holds_of_each_origin(examined, standing_in):
    service = standing_in(**HANDBOOK, extensions={"sync"})
    service.fail_source("b")
    with Client(KEY, URL, transport=service.transport) as client:
        for key in "abc":
            client.put_text_source(
                origin="/srv/o", key=key, digest=key, name=key, collections="col_handbook",
                content=key,
            )  # fmt: skip
        code, _, checks = examined()
        assert (code, checks["origin /srv/o"][0]) == (1, False)
        assert "sources 3, pending 0, failed 1" in checks["origin /srv/o"][1]
        told = [("b", "it cannot be read")]
        client.complete_origin("/srv/o", "run", limit=0, told=told)
        code, _, checks = examined()
        assert (code, checks["origin /srv/o"][0]) == (0, True)
        for number in range(30):
            client.complete_origin(f"{number}", "run", limit=0)
    _, _, checks = examined()
    assert checks["origins"] == (None, "11 more: `kbot sources origins` lists them.")


@pytest.mark.parametrize("lost", [0, 2])
def test_it_says_which_sources_of_the_ledger_are_not_in_the_service(
    examined, standing_in, run, lost
):
    service = standing_in(**HANDBOOK, extensions={"sources"})
    items = "\n".join(json.dumps({"name": f"n{n}", "content": f"{n}"}) for n in range(5))
    done = run("ingest", "jsonl", "-", "--collection", "col_handbook", stdin=items)
    assert done.exit_code == 0, done.output
    del service.sources[:lost]
    code, _, checks = examined()
    assert (code, checks["ledger and service"][0]) == ((1, False) if lost else (0, True))
    assert ("n1" in checks["ledger and service"][1]) == bool(lost)
