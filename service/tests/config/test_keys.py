"""Keys with names and roles: what each may do, how they end, and how they change meanwhile."""

import hashlib
import json
import os
import re
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from in_process import InProcess, OnAPort, web
from knowledge_bot import Client, PermissionDeniedError, RateLimitError
from knowledge_bot.errors import Delivery
from knowledge_bot_service import SettingsError
from serve_command import SERVE, called, serving
from service_calls import problem_of
from waiting import until

pytestmark = pytest.mark.integration

TEXT: dict[str, Any] = {
    "value": {"name": "Hours", "collections": ["col_default"], "content": "Open until ten."}
}
QUESTION = {"value": {"bot_id": "bot_default", "content": "Until when is it open?"}}


def status(base_url, key):
    return web.get(f"{base_url}/bots", headers={"X-API-KEY": key}).status_code


def keys_command(folder, *arguments):
    return called(folder, "keys", *arguments)


TODAY = datetime.now(UTC).date()


@pytest.fixture(scope="module")
def service():
    """A service with the keys of several tests; what one key may and does concerns no other."""
    keys: list[dict[str, Any]] = [
        {"name": "reader", "role": "read", "key": "key-of-a-reader"},
        {"name": "ended", "role": "write", "key": "ended", "expires": TODAY.isoformat()},
        {
            "name": "ends-later",
            "role": "read",
            "key": "later",
            "expires": (TODAY + timedelta(days=2)).isoformat(),
        },
        {"name": "few", "role": "write", "key": "few", "requests_per_minute": 3},
        {"name": "one", "role": "write", "key": "one", "requests_per_minute": 60},
    ]
    limits = {"requests_per_minute": 1000}
    with OnAPort(settings={"keys": keys, "limits": limits}) as running:
        yield running


def test_a_reader_lists_and_asks_and_changes_nothing(service):
    with httpx.Client(base_url=service.base_url, headers={"X-API-KEY": "key-of-a-reader"}) as http:
        assert http.get("/collections").status_code == 200
        assert http.get("/sources").is_success
        assert http.post("/messages", json=QUESTION).status_code == 200
        refused = problem_of(http.post("/sources/write", json=TEXT), 403)
        assert refused["code"] == "read_only_key"
        assert "reader" in refused["message"]
        problem_of(http.post("/sources/webpage", json=TEXT), 403)
        problem_of(http.post("/sources/upload", files={"file": b"x"}), 403)
        problem_of(http.delete("/sources/x"), 403)
        names = http.get(service.base_url.replace("/public/v1", "/openapi.json")).text
        assert "bot_default" in names
    with (
        Client("key-of-a-reader", service.base_url) as client,
        pytest.raises(PermissionDeniedError) as caught,
    ):
        client.create_text_source(**TEXT["value"])
    assert caught.value.delivery is Delivery.REFUSED
    assert service.sources() == []


def test_a_key_ends_on_its_day(service):
    answer = httpx.get(f"{service.base_url}/bots", headers={"X-API-KEY": "ended"})
    assert str(TODAY) in problem_of(answer, 401)["message"]
    assert status(service.base_url, "later") == 200


def test_more_requests_than_a_key_may_make_are_told_when_to_come_again(service):
    answers = [
        httpx.get(f"{service.base_url}/bots", headers={"X-API-KEY": "few"}) for _ in range(4)
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    problem_of(answers[-1], 429)
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 20
    with (
        Client("few", service.base_url, max_retries=0) as client,
        pytest.raises(RateLimitError) as caught,
    ):
        client.create_text_source(**TEXT["value"])
    assert caught.value.delivery is Delivery.REFUSED
    assert caught.value.retry_after is not None
    # Nobody else waits for it.
    assert status(service.base_url, service.api_key) == 200


def test_a_key_of_an_earlier_version_may_what_it_could(tmp_path):
    folder = tmp_path / "kbot-data" / "keys"
    folder.mkdir(parents=True)
    for role in ("write", "read", "owner"):
        digest = hashlib.sha256(f"key-to-{role}".encode()).hexdigest()
        kept = {"role": role, "sha256": digest, "expires": None}
        (folder / role).write_text(json.dumps(kept))
    with InProcess(tmp_path / "kbot-data") as service:
        headers = {"X-API-KEY": "key-to-write"}
        assert web.post(f"{service.base_url}/sources/write", json=TEXT, headers=headers).is_success
        page = service.base_url.replace("/public/v1", "/page")
        assert web.get(f"{page}/about", headers=headers).json()["role"] == "write"
        refused = web.delete(f"{service.base_url}/sources/src_x", headers=headers)
        assert problem_of(refused, 403)["code"] == "key_may_not_manage"
        assert status(service.base_url, "key-to-read") == 200
        # What it may is not known.
        assert status(service.base_url, "key-to-owner") == 401


def test_a_client_that_waits_as_it_is_told_gets_its_answer(service):
    with Client("one", service.base_url) as client:
        for _ in range(61):
            client.list_bots()


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ({"key_env": "TESTS_NO_SUCH_KEY"}, "key a: the environment variable TESTS_NO_SUCH_KEY"),
        ({"key_file": "/nowhere/key"}, "key a: cannot read /nowhere/key: No such file"),
    ],
)
def test_a_key_that_is_nowhere_is_told_at_the_start(key, told):
    with pytest.raises(SettingsError, match=re.escape(told)):
        InProcess(settings={"keys": [{"name": "a", "role": "read", **key}]}).start()


def test_two_names_for_one_key_are_refused_at_the_start():
    same = [{"name": name, "role": "read", "key": "the-same"} for name in ("a", "b")]
    with pytest.raises(SettingsError, match="a and b are the same key") as caught:
        InProcess(settings={"keys": same}).start()
    assert "the-same" not in str(caught.value)


def test_hanging_up_reads_the_keys_of_the_configuration_again(tmp_path):
    (tmp_path / "team.key").write_text("key-of-the-team\n")
    file = tmp_path / "service.toml"
    team = '[[keys]]\nname = "team"\nrole = "write"\nkey_file = "team.key"\n'
    reader = '[[keys]]\nname = "kiosk"\nrole = "read"\nkey = "key-of-the-kiosk"\n'
    ended = team.replace("team", "gone") + "expires = 2020-01-31\n"
    (tmp_path / "gone.key").write_text("key-of-the-gone\n")
    file.write_text('api_keys = ["old-key"]\n' + team + ended)
    warned = " warning the key gone of the configuration is not taken: it ended on 2020-01-31"
    with serving(tmp_path, "--config", "service.toml") as (base_url, shown, process):
        assert shown.count(warned) == 1

        def told(text):
            return lambda: text in (tmp_path / "printed.txt").read_text()

        assert status(base_url, "old-key") == status(base_url, "key-of-the-team") == 200
        file.write_text(team + reader + ended)
        process.send_signal(signal.SIGHUP)
        assert until(
            told("taken are now: team (write), kiosk (read). Other settings need a restart")
        )
        assert status(base_url, "old-key") == 401
        assert status(base_url, "key-of-the-team") == status(base_url, "key-of-the-kiosk") == 200
        file.write_text(reader + "role = 'none'\n")
        process.send_signal(signal.SIGHUP)
        assert until(told("the keys were not read again, and the old ones are still taken"))
        assert status(base_url, "key-of-the-team") == 200
        printed = (tmp_path / "printed.txt").read_text()
    assert printed.count(warned) == 2
    assert not re.search("key-of-the|old-key", printed)


def test_keys_are_made_and_revoked_while_the_service_runs(tmp_path):
    with InProcess(tmp_path / "kbot-data") as service:
        made = keys_command(tmp_path, "add", "kiosk", "--role", "read")
        key = made.stdout.strip()
        assert status(service.base_url, key) == 200
        refused = web.post(
            f"{service.base_url}/sources/write", json=TEXT, headers={"X-API-KEY": key}
        )
        assert "kiosk" in problem_of(refused, 403)["message"]
        assert f"The service of {tmp_path / 'kbot-data'} takes the key kiosk" in made.stderr
        ended = keys_command(tmp_path, "add", "old", "--role", "write", "--expires", "2099-01-01")
        file = tmp_path / "kbot-data/keys/old"
        later = file.with_name(".later")
        later.touch(0o600)
        later.write_text(file.read_text().replace("2099", "2020"))
        later.replace(file)
        assert status(service.base_url, ended.stdout.strip()) == 401
        listed = keys_command(tmp_path, "list").stdout
        assert listed == (
            "kiosk\tread\tnever\tall\tall\nold\twrite\texpired 2020-01-01\tall\tall\n"
        )
        for attempt in range(3):  # as fast as a script would
            name = f"script-{attempt}"
            one = keys_command(tmp_path, "add", name, "--role", "read").stdout.strip()
            assert status(service.base_url, one) == 200
            keys_command(tmp_path, "revoke", name)
            assert status(service.base_url, one) == 401
        assert keys_command(tmp_path, "revoke", "kiosk").returncode == 0
        assert status(service.base_url, key) == 401
    # Neither the key nor what it could be found out from with patience alone.
    kept = [path for path in (tmp_path / "kbot-data").rglob("*") if path.is_file()]
    assert all(key.encode() not in path.read_bytes() for path in kept)
    assert (tmp_path / "kbot-data/keys/old").stat().st_mode & 0o777 == 0o600


def test_a_key_for_a_folder_without_a_service_is_said_to_wait(tmp_path):
    assert "there is no data folder kbot-data" in keys_command(tmp_path, "list").stderr
    made = keys_command(tmp_path, "add", "wiki", "--role", "read")
    assert f"No service has used {tmp_path / 'kbot-data'} yet" in made.stderr
    with InProcess(tmp_path / "kbot-data") as service:
        assert status(service.base_url, made.stdout.strip()) == 200


def test_a_name_that_cannot_be_or_is_taken_is_a_clear_error(tmp_path):
    assert keys_command(tmp_path, "add", "team", "--role", "read").returncode == 0
    for arguments, told in (
        (("add", "team", "--role", "write"), "there is a key team already"),
        (("add", "../team", "--role", "write"), "no key was made: '../team' in name must be"),
        (
            ("add", "old", "--role", "read", "--expires", TODAY.isoformat()),
            "would have ended already",
        ),
        (("revoke", "other"), "has no key other; those that it has: team"),
        (("revoke", "../api-key"), "has no key ../api-key"),
    ):
        done = keys_command(tmp_path, *arguments)
        assert done.returncode == 1
        assert done.stderr.startswith("Error: ")
        assert told in done.stderr
        assert done.stdout == ""
    assert keys_command(tmp_path, "list").stdout == "team\tread\tnever\tall\tall\n"


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no terminals here")
def test_a_service_whose_terminal_is_closed_ends(tmp_path):
    leader, terminal = os.openpty()
    process = subprocess.Popen(
        [*SERVE, "--port", "0"],
        cwd=tmp_path,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(terminal)
    assert process.stdout is not None
    process.stdout.readline()
    os.close(leader)
    process.send_signal(signal.SIGHUP)
    process.wait(20)
    process.stdout.close()


def test_a_key_that_cannot_be_read_keeps_no_other(tmp_path):
    with InProcess(tmp_path / "kbot-data") as service:
        kept, revoked = (
            keys_command(tmp_path, "add", name, "--role", "read").stdout.strip()
            for name in ("kept", "revoked")
        )
        assert status(service.base_url, kept) == status(service.base_url, revoked) == 200
        (tmp_path / "kbot-data" / "keys" / "README").write_text("no key")
        keys_command(tmp_path, "revoke", "revoked")
        assert status(service.base_url, revoked) == 401
        assert status(service.base_url, kept) == 200
    with InProcess(tmp_path / "kbot-data") as service:
        assert status(service.base_url, kept) == 200
