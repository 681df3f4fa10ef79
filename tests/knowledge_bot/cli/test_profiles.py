"""Several services, each a profile: kept by `kbot login`, taken by --profile and KBOT_PROFILE."""

import json
import tomllib

import pytest

from calls import KEY, SOURCE
from pseudo_terminal import terminal
from scripted_server import answer

ONE = answer(body={"data": [{"id": "col_1", "name": "Handbook"}]})
TEXT = ("add", "text", "--name", "A", "--content", "x")


@pytest.fixture
def two(run, scripted):
    """Two services, kept as the profiles `work`, the default, and `home`."""
    services = {name: scripted(ONE) for name in ("work", "home")}
    for name, server in services.items():
        login = ("--base-url", server.url, "login", "--profile", name, "--key-stdin")
        done = run(*login, stdin=f"key-of-{name}")
        assert done.exit_code == 0, done.stderr
        server.requests.clear()
    return services


def reached(services):
    """Return the names of the services that were asked since, with the keys they saw."""
    found = {
        name: server.requests[-1].headers.get("x-api-key")
        for name, server in services.items()
        if server.requests
    }
    for server in services.values():
        server.requests.clear()
    return found


def test_the_first_one_is_the_default_and_others_are_named(run, two):
    assert run("bots").exit_code == 0
    assert reached(two) == {"work": "key-of-work"}
    assert run("--profile", "home", "bots").exit_code == 0
    assert reached(two) == {"home": "key-of-home"}
    assert run("bots", KBOT_PROFILE="home").exit_code == 0
    assert reached(two) == {"home": "key-of-home"}
    assert run("--profile", "work", "bots", KBOT_PROFILE="home").exit_code == 0
    assert reached(two) == {"work": "key-of-work"}


def test_the_default_is_changed(run, two, settings_file):
    assert run("profiles", "--default", "home").exit_code == 0
    run("bots")
    assert reached(two) == {"home": "key-of-home"}
    assert settings_file.stat().st_mode & 0o777 == 0o600


def test_they_are_listed_without_their_keys(run, two):
    done = run("profiles")
    assert done.stdout.splitlines() == [
        f"work\t{two['work'].url}\tfile\tcol_1\tdefault",
        f"home\t{two['home'].url}\tfile\tcol_1\t",
    ]
    (_, second) = json.loads(run("profiles", "--json").stdout)
    assert second == {
        "name": "home",
        "base_url": two["home"].url,
        "key": "file",
        "collections": ["col_1"],
        "default": False,
    }
    assert "key-of" not in done.output


def test_without_any_the_way_to_one_is_reported(run):
    done = run("profiles")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "kbot login" in done.stderr
    missing = run("--profile", "work", "bots")
    assert missing.exit_code == 2
    assert "`kbot login --profile work` makes it" in missing.stderr


@pytest.mark.parametrize("how", ["option", "variable", "default", "logout"])
def test_a_name_that_is_unknown_is_answered_with_those_there_are(run, two, how):
    done = {
        "option": lambda: run("--profile", "hom", "bots"),
        "variable": lambda: run("bots", KBOT_PROFILE="hom"),
        "default": lambda: run("profiles", "--default", "hom"),
        "logout": lambda: run("logout", "--profile", "hom"),
    }[how]()
    assert done.exit_code == 2
    assert "There is no profile 'hom'. Did you mean home? There are home, work." in done.stderr
    assert reached(two) == {}


def test_a_variable_wins_over_the_default_profile_and_an_option_over_the_variable(
    run, two, scripted, monkeypatch
):
    other = scripted(ONE)
    services = {**two, "other": other}
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", other.url)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key-of-the-environment")
    run("bots")
    assert reached(services) == {"other": "key-of-the-environment"}
    run("bots", KBOT_PROFILE="home")
    assert reached(services) == {"other": "key-of-the-environment"}
    run("--profile", "home", "bots")
    assert reached(services) == {"home": "key-of-home"}
    run("--profile", "home", "--base-url", other.url, "bots")
    assert reached(services) == {"other": "key-of-the-environment"}


def test_nothing_of_another_service_goes_to_a_profile_that_is_named(
    run, two, scripted, settings_file
):
    settings_file.write_text(f'[profiles.bare]\nbase_url = "{two["work"].url}"\n')
    elsewhere = {
        "KNOWLEDGE_BOT_BASE_URL": "http://127.0.0.1:9",
        "KNOWLEDGE_BOT_API_KEY": "key-of-another",
        "KNOWLEDGE_BOT_COLLECTION": "col_of_another",
    }
    done = run("--profile", "bare", *TEXT, **elsewhere)
    assert done.exit_code == 4
    assert "No API key" in done.stderr
    assert reached(two) == {}
    # An environment that names no other service may complete a profile.
    del elsewhere["KNOWLEDGE_BOT_BASE_URL"]
    run("--profile", "bare", "bots", **elsewhere)
    assert reached(two) == {"work": "key-of-another"}


def test_the_collections_are_those_of_the_profile(run, scripted, settings_file):
    server = scripted(answer(body=SOURCE))
    settings_file.parent.mkdir()
    settings_file.write_text(
        "".join(
            f'[profiles.{name}]\nbase_url = "{server.url}"\napi_key = "k"\n'
            f'collections = ["col_{name}"]\n'
            for name in ("a", "b")
        )
    )
    settings_file.chmod(0o600)
    assert run("--profile", "b", *TEXT, KNOWLEDGE_BOT_COLLECTION="col_e").exit_code == 0
    assert run(*TEXT, KNOWLEDGE_BOT_COLLECTION="col_e", KBOT_PROFILE="a").exit_code == 0
    assert run(*TEXT, KBOT_PROFILE="a").exit_code == 0
    sent = [request.json()["value"]["collections"] for request in server.requests]
    assert sent == [["col_b"], ["col_e"], ["col_a"]]
    undecided = run(*TEXT)
    assert undecided.exit_code == 2
    assert "Which profile? There are a, b." in undecided.stderr


def test_a_key_of_another_profile_is_named_and_not_taken(run, two):
    done = run("--base-url", two["home"].url, "ask", "bot_1", "When?")
    assert done.exit_code == 4
    assert "--profile home has one" in done.stderr
    assert reached(two) == {}


def test_a_file_from_before_there_were_profiles_is_one_and_stays_when_others_come(
    run, scripted, settings_file
):
    old, new = scripted(ONE), scripted(ONE)
    settings_file.parent.mkdir()
    settings_file.write_text(f'base_url = "{old.url}"\napi_key = "key-of-old"\n')
    settings_file.chmod(0o600)
    assert run("bots").exit_code == 0
    run("--base-url", new.url, "login", "--profile", "new", "--key-stdin", stdin="key-of-new")
    assert reached({"old": old, "new": new}) == {"old": "key-of-old", "new": "key-of-new"}
    kept = tomllib.loads(settings_file.read_text())
    assert kept["default"] == "default"
    assert sorted(kept["profiles"]) == ["default", "new"]
    assert run("bots").exit_code == 0
    assert reached({"old": old, "new": new}) == {"old": "key-of-old"}


def test_a_logout_removes_one_and_the_file_with_the_last(run, two, settings_file):
    done = run("logout", "--profile", "home")
    assert "The profile home is removed; work stay" in done.stderr
    assert run("--profile", "home", "bots").exit_code == 2
    assert run("bots").exit_code == 0
    assert "is removed" in run("logout").stderr
    assert not settings_file.exists()


def test_after_the_default_is_gone_the_one_that_is_left_is_it(run, two):
    assert run("logout").exit_code == 0
    assert run("bots").exit_code == 0
    assert reached(two) == {"home": "key-of-home"}


def test_the_profile_without_a_name_is_the_default_once_more(run, two, scripted):
    unnamed = scripted(ONE)
    login = ("--base-url", unnamed.url, "login", "--profile", "default", "--key-stdin")
    run(*login, stdin="key-of-default")
    assert "the default is default" in run("logout").stderr
    run("bots")
    assert reached({**two, "unnamed": unnamed}) == {"unnamed": "key-of-default"}


def test_of_several_that_are_left_none_is_taken(run, two, scripted):
    third = scripted(ONE)
    run("--base-url", third.url, "login", "--profile", "third", "--key-stdin", stdin=KEY)
    assert run("logout").exit_code == 0
    done = run("bots")
    assert done.exit_code == 2
    assert "Which profile? There are home, third." in done.stderr


def test_all_are_removed_at_once(run, two, settings_file):
    assert run("--profile", "home", "logout", "--all").exit_code == 2
    assert run("logout", "--all").exit_code == 0
    assert not settings_file.exists()


def test_a_login_to_a_profile_that_is_there_asks_with_its_address(program, two):
    set_elsewhere = {"KNOWLEDGE_BOT_BASE_URL": "http://127.0.0.1:9"}
    with terminal([program, "login", "--profile", "home"], set_elsewhere) as screen:
        screen.expect(f"Base URL [{two['home'].url}]: ")
        screen.type("\n")
        screen.expect("API key (not shown): ")
        screen.type("another-key\n")
        assert screen.end() == 0
    assert reached(two) == {"home": "another-key"}


def test_a_new_key_for_a_profile_can_be_piped(run, two):
    assert run("login", "--profile", "home", "--key-stdin", stdin="rotated").exit_code == 0
    assert reached(two) == {"home": "rotated"}


@pytest.mark.parametrize("name", ["", "a b", "-x", "../x", "ä"])
def test_a_name_that_would_need_quotes_is_refused(run, scripted, name):
    server = scripted(ONE)
    done = run("--base-url", server.url, "login", "--profile", name, "--key-stdin", stdin=KEY)
    if name:
        assert (done.exit_code, server.started) == (2, 0)
        assert "cannot name a profile" in done.stderr
    else:
        assert done.exit_code == 0  # as if it were left out


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("[profiles.a]\n", "profiles.a.base_url is missing"),
        ("[profiles.a]\nbase_url = 3\n", "profiles.a.base_url is not a string"),
        ("[profiles.a]\nurl = 'x'\n", "'profiles.a.url' is not a setting"),
        ("[profiles]\na = 'hidden-key'\n", "profiles.a is not a table"),
        ("profiles = 1\n", "profiles is not a table"),
        ("[profiles.a]\nbase_url = 'http://h'\nkeyring = 'yes'\n", "keyring is not true or false"),
        ("api_key = 'hidden-key'\n", "base_url is missing"),
    ],
)
def test_a_profile_that_is_wrong_is_named_with_the_reason(run, settings_file, content, word):
    settings_file.parent.mkdir()
    settings_file.write_text(content)
    settings_file.chmod(0o600)
    done = run("bots")
    assert done.exit_code == 2
    assert word in done.stderr
    assert "hidden-key" not in done.stderr
