"""`kbot login --keyring`, with a package keyring of this test's own: the real one is not needed."""

import os
import tomllib

import pytest

from calls import KEY
from scripted_server import answer

pytestmark = pytest.mark.integration

ONE = answer(body={"data": [{"id": "col_1", "name": "Handbook"}]})

# The functions of keyring 25 that are used, over a file of JSON.
FAKE = """
import json, os, pathlib

FILE = pathlib.Path(os.environ["FAKE_KEYRING"])

class Backend:
    priority = float(os.environ.get("FAKE_PRIORITY", "5"))

def get_keyring():
    return Backend()

def _kept():
    if "FAKE_LOCKED" in os.environ:
        raise RuntimeError("the collection is locked")
    return json.loads(FILE.read_text()) if FILE.exists() else {}

def get_password(service_name, username):
    return _kept().get(f"{service_name}/{username}")

def set_password(service_name, username, password):
    FILE.write_text(json.dumps(_kept() | {f"{service_name}/{username}": password}))

def delete_password(service_name, username):
    kept = _kept()
    del kept[f"{service_name}/{username}"]
    FILE.write_text(json.dumps(kept))
"""


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The file of a keyring that processes find installed."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "keyring.py").write_text(FAKE)
    with_it = os.pathsep.join(filter(None, [str(packages), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", with_it)
    monkeypatch.setenv("FAKE_KEYRING", str(tmp_path / "keyring.json"))
    return tmp_path / "keyring.json"


@pytest.fixture
def login(kbot):
    def login(server, *options, **environment):
        url = ("--base-url", server.url)
        return kbot(*url, "login", "--key-stdin", *options, stdin=f"{KEY}\n", **environment)

    return login


def test_the_key_is_in_the_keyring_alone_and_is_used(kbot, scripted, settings_file, kept, login):
    server = scripted(ONE)
    done = login(server, "--keyring")
    assert done.returncode == 0, done.stderr
    profile = tomllib.loads(settings_file.read_text())["profiles"]["default"]
    assert profile == {"base_url": server.url, "keyring": True, "collections": ["col_1"]}
    assert KEY in kept.read_text()
    assert kbot("collections").returncode == 0
    assert server.requests[-1].headers["x-api-key"] == KEY
    assert kbot("profiles").stdout.split("\t")[2] == "keyring"


def test_each_profile_has_a_key_of_its_own(kbot, scripted, kept, login):
    server = scripted(ONE)
    for name in ("work", "home"):
        kbot(
            *("--base-url", server.url, "login", "--profile", name, "--keyring", "--key-stdin"),
            stdin=f"key-of-{name}",
        )
    for name in ("work", "home"):
        kbot("--profile", name, "bots")
        assert server.requests[-1].headers["x-api-key"] == f"key-of-{name}"
    assert kbot("logout", "--profile", "work").returncode == 0
    assert "key-of-work" not in kept.read_text()
    assert kbot("logout", "--all").returncode == 0
    assert kept.read_text() == "{}"


def test_a_key_stays_where_it_was_until_somebody_says_otherwise(
    scripted, settings_file, kept, login
):
    server = scripted(ONE)
    login(server, "--keyring")
    assert login(server).returncode == 0
    assert KEY not in settings_file.read_text()
    assert login(server, "--no-keyring").returncode == 0
    assert KEY in settings_file.read_text()
    assert kept.read_text() == "{}"


def test_the_key_is_for_the_address_that_it_was_given_for(
    kbot, scripted, settings_file, kept, login
):
    server, other = scripted(ONE), scripted(ONE)
    login(server, "--keyring")
    settings_file.write_text(settings_file.read_text().replace(server.url, other.url))
    done = kbot("bots")
    assert (done.returncode, other.requests) == (4, [])
    assert f"no key for the profile default and {other.url}" in done.stderr
    assert "kbot login --profile default" in done.stderr


def test_a_login_to_another_address_leaves_no_key_behind(scripted, kept, login):
    first, second = scripted(ONE), scripted(ONE)
    login(first, "--keyring")
    login(second, "--keyring")
    assert first.url not in kept.read_text()
    assert second.url in kept.read_text()


def test_a_keyring_that_is_not_needed_is_not_asked(kbot, scripted, kept, login):
    server = scripted(ONE)
    login(server, "--keyring")
    assert kbot("bots", KNOWLEDGE_BOT_API_KEY="k", FAKE_LOCKED="1").returncode == 0
    assert kbot("profiles", FAKE_LOCKED="1").returncode == 0


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"FAKE_LOCKED": "1"}, "the collection is locked"),
        ({"FAKE_PRIORITY": "0"}, "(keyring)"),
    ],
)
def test_a_keyring_that_cannot_be_used_is_a_sentence(
    kbot, scripted, settings_file, kept, login, *, environment, reason
):
    server = scripted(ONE)
    done = login(server, "--keyring", **environment)
    assert (done.returncode, server.requests, settings_file.exists()) == (4, [], False)
    assert reason in done.stderr
    assert "--no-keyring" in done.stderr
    login(server, "--keyring")
    locked = kbot("ask", "bot_1", "When?", **environment)
    assert locked.returncode == 4
    assert reason in locked.stderr
    left = kbot("logout", **environment)
    assert left.returncode == 4
    assert KEY in kept.read_text()
    assert kbot("logout", "--all", **environment).returncode == 0


def test_without_the_package_it_says_what_to_install(scripted, login, kept, tmp_path):
    # As if it were not installed, also where it is.
    missing = "raise ModuleNotFoundError(\"No module named 'keyring'\", name='keyring')"
    (tmp_path / "packages" / "keyring.py").write_text(missing)
    server = scripted(ONE)
    done = login(server, "--keyring")
    assert (done.returncode, server.requests) == (4, [])
    assert "'knowledge-bot[keyring]'" in done.stderr
