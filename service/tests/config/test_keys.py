"""Keys with names and roles: what each may do, how they end, and how they change meanwhile."""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from in_process import InProcess, OnAPort, web
from knowledge_bot_service import SettingsError
from serve_command import called
from service_calls import problem_of, value_of

TEXT: dict[str, Any] = {
    "value": {"name": "Hours", "collections": ["col_default"], "content": "Open until ten."}
}
QUESTION = {"value": {"bot_id": "bot_default", "content": "Until when is it open?"}}


def status(base_url, key):
    return web.get(f"{base_url}/bots", headers={"X-API-KEY": key}).status_code


TODAY = datetime.now(UTC).date()


@pytest.fixture(scope="module")
def service():
    """A service with the keys of several tests; what one key may and does concerns no other."""
    keys: list[dict[str, Any]] = [
        *({"name": role, "role": role, "key": f"key-to-{role}"} for role in MAY),
        {"name": "ended", "role": "write", "key": "ended", "expires": TODAY.isoformat()},
        {
            "name": "ends-later",
            "role": "read",
            "key": "later",
            "expires": (TODAY + timedelta(days=2)).isoformat(),
        },
    ]
    with OnAPort(settings={"keys": keys}) as running:
        yield running


MAY = {"read": 1, "write": 2, "manage": 3}


@pytest.mark.parametrize("role", MAY)
@pytest.mark.parametrize(
    ("asked", "body", "needed"),
    [
        ("GET /collections", None, "read"),
        ("GET /sources", None, "read"),
        ("POST /messages", QUESTION, "read"),
        ("POST /search", {"value": {"query": "hours"}}, "read"),
        ("POST /sources/write", TEXT, "write"),
        ("POST /sources/webpage", {}, "write"),
        ("POST /sources/upload", {}, "write"),
        ("PUT /sync/write", TEXT, "manage"),
        ("GET /sync?origin=x", None, "manage"),
        ("POST /sync/complete", {}, "manage"),
        ("DELETE /sources/src_x", None, "manage"),
        # A line's end in a path is nothing that a rule stops at.
        ("GET /sync%0A?origin=x", None, "manage"),
        ("DELETE /sources/src_x%0Ay", None, "manage"),
    ],
)
def test_each_role_may_what_it_says_and_nothing_else(service, role, asked, body, needed):
    method, path = asked.split()
    headers = {"X-API-KEY": f"key-to-{role}"}
    answered = web.request(method, f"{service.base_url}{path}", headers=headers, json=body)
    if MAY[role] >= MAY[needed]:
        assert answered.status_code not in {401, 403}
    else:
        refused = problem_of(answered, 403)
        assert refused["code"] == "forbidden"
        assert role in refused["message"]


def test_a_key_ends_on_its_day(service):
    answer = httpx.get(f"{service.base_url}/bots", headers={"X-API-KEY": "ended"})
    assert str(TODAY) in problem_of(answer, 401)["message"]
    assert status(service.base_url, "later") == 200


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


def key(name, text, role="read", **more):
    return {"name": name, "role": role, "key": text, **more}


def keys_command(folder, *arguments):
    return called(folder, "keys", *arguments, "--data", "data")


def made(folder, name, *rights):
    done = keys_command(folder, "add", name, "--role", *rights)
    assert done.returncode == 0
    return done.stdout.strip()


def test_keys_are_made_and_revoked_while_the_service_runs(tmp_path):
    with InProcess(tmp_path / "data") as running:
        for attempt in range(3):  # as fast as a script would
            one = made(tmp_path, f"script-{attempt}", "read")
            assert status(running.base_url, one) == 200
            keys_command(tmp_path, "revoke", f"script-{attempt}")
            assert status(running.base_url, one) == 401
        kept = made(tmp_path, "kiosk", "read", "--expires", "2099-01-01")
        refused = web.post(
            f"{running.base_url}/sources/write", json=TEXT, headers={"X-API-KEY": kept}
        )
        assert problem_of(refused, 403)["code"] == "forbidden"
        (file,) = (tmp_path / "data/keys").iterdir()
        # Neither the key nor what it could be found out from with patience alone.
        assert kept not in file.name + file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600
        file.write_text(file.read_text().replace("2099", "2020"))
        assert status(running.base_url, kept) == 401
        assert keys_command(tmp_path, "list").stdout == (
            "kiosk\tread\texpired 2020-01-01\tall\tall\n"
        )


@pytest.mark.parametrize(
    ("limits", "bots", "collections"),
    [
        ((), ["bot_default"], ["col_default"]),
        (("--bot", "bot_default"), ["bot_default"], ["col_default"]),
        (("--bot", "bot_other", "--config", "kbot.toml"), [], []),
        (("--collection", "col_other", "--config", "kbot.toml"), [], []),
        (
            ("--bot", "bot_default", "--collection", "col_other", "--config", "kbot.toml"),
            ["bot_default"],
            [],
        ),
    ],
)
def test_a_key_made_before_the_service_sees_what_it_is_limited_to(
    tmp_path, limits, bots, collections
):
    (tmp_path / "kbot.toml").write_text(
        'data = "data"\n'
        '[[collections]]\nid = "col_default"\nname = "One"\n'
        '[[collections]]\nid = "col_other"\nname = "Other"\n'
        '[[bots]]\nid = "bot_default"\nname = "One"\ncollections = ["col_default"]\n'
        '[[bots]]\nid = "bot_other"\nname = "Other"\ncollections = ["col_other"]\n'
    )
    key = made(tmp_path, "wiki", "read", *limits)
    with InProcess(tmp_path / "data") as running:
        for path, seen in (("bots", bots), ("collections", collections)):
            listed = web.get(f"{running.base_url}/{path}", headers={"X-API-KEY": key})
            assert [one["id"] for one in value_of(listed)["data"]] == seen


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "team", "--role", "write"),
        ("add", "../team", "--role", "write"),
        ("add", "old", "--role", "read", "--expires", TODAY.isoformat()),
        ("add", "new", "--role", "read", "--bot", "guide"),
        ("add", "new", "--role", "read", "--bot", "bot_no"),
        ("add", "of-the-file", "--role", "read", "--config", "kbot.toml"),
        ("add", "new", "--role", "read", "--bot", "bot_no", "--config", "kbot.toml"),
        ("revoke", "other"),
        ("revoke", "../api-key"),
    ],
)
def test_what_cannot_be_done_changes_no_key(tmp_path, arguments):
    (tmp_path / "kbot.toml").write_text(
        '[[keys]]\nname = "of-the-file"\nrole = "read"\nkey = "the-key"\n'
    )
    made(tmp_path, "team", "read")
    done = keys_command(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert keys_command(tmp_path, "list").stdout == "team\tread\tnever\tall\tall\n"


@pytest.mark.parametrize("day", ["27.11.2027", "11/27/2027", "2027-13-01", "tomorrow"])
def test_a_day_that_cannot_be_read_is_told_how_to_write_it(tmp_path, day):
    done = keys_command(tmp_path, "add", "wiki", "--role", "read", "--expires", day)
    assert (done.returncode, done.stdout) == (2, "")
    assert "2027-11-30" in done.stderr


@pytest.mark.parametrize("text", ["no key", "[]", '{"name": "x", "role": "owner"}'])
def test_a_file_that_is_no_key_keeps_no_other_from_its_service(tmp_path, text):
    kept, revoked = (made(tmp_path, name, "read") for name in ("kept", "revoked"))
    digest = hashlib.sha256(b"key-to-owner").hexdigest()
    (tmp_path / "data/keys" / digest).write_text(text)
    keys_command(tmp_path, "revoke", "revoked")
    with InProcess(tmp_path / "data") as running:
        told = [status(running.base_url, key) for key in (kept, revoked, "key-to-owner")]
    assert told == [200, 401, 401]
