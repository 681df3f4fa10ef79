"""The configuration file: what it declares, and how it says what is wrong."""

import os
import re
from ipaddress import ip_network

import pytest

from knowledge_bot_service.config.settings import (
    KeySettings,
    ServiceConfiguration,
    SettingsError,
    overridden,
    read_settings,
)


def write(folder, text):
    file = folder / "service.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_file_declares_everything(tmp_path):
    settings = read_settings(
        write(
            tmp_path,
            """
            host = "0.0.0.0"
            port = 8800
            data = "here"
            allow_fetch = ["10.0.0.0/8"]
            wait_for_sources = 2.5

            [limits]
            sources = 100

            [[collections]]
            id = "col_handbook"
            name = "Handbook"

            [[keys]]
            name = "ci"
            role = "write"
            key = "first-key"

            [[bots]]
            id = "bot_guide"
            name = "Guide"
            collections = ["col_handbook"]
            """,
        )
    )
    assert (settings.host, settings.port) == ("0.0.0.0", 8800)
    assert settings.data == tmp_path / "here"
    assert settings.allow_fetch == (ip_network("10.0.0.0/8"),)
    assert settings.limits.sources == 100
    assert settings.limits.request_bytes == 50 * 1024 * 1024
    assert settings.bots[0].collections == ("col_handbook",)
    assert "first-key" not in repr(settings)


@pytest.mark.parametrize("mark", ["", "\ufeff"])  # as some editors write it
def test_a_file_may_be_empty(tmp_path, mark):
    assert read_settings(write(tmp_path, mark)) == ServiceConfiguration()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("colour = 'red'", ["colour: "]),
        ("[limits]\nsauces = 5", ["limits, sauces: "]),
        (
            "collections = [{id = 'handbook', name = 'x'}]",
            ["collections, item 1, id: must be col_ and then"],
        ),
        (
            "collections = [{id = 'col_a', name = ''}]",
            ["collections, item 1, name: must have at least 1 character"],
        ),
        (
            "collections = [{id = 'col_a', name = 'x'}, {id = 'col_a', name = 'y'}]",
            ["col_a is declared twice"],
        ),
        (
            "bots = [{id = 'bot_a', name = 'A', collections = ['col_missing']}]",
            ["bot_a", "col_missing", "col_default"],
        ),
        ("allow_fetch = ['fd12::1/129']", ["allow_fetch, item 1: 'fd12::1/129' does not appear"]),
        ("x = ", ["not a TOML file"]),
        ("allow_fetch = '10.0.0.0/8'", ["allow_fetch: must be a list in brackets"]),
        ("workers = 0", ["workers: must be greater than or equal to 1"]),
        (
            "keys = [{name='ci', role='read', key='k-1', bots=['bot_x'], collections=['col_y']}]",
            ["the key ci is limited to bot_x, col_y, which is not here"],
        ),
        (
            "[[keys]]\nname = 'ci'\nrole = 'read'\nkey = 'key'\nbots = ['x']",
            ["keys, item 1, bots, item 1: must be bot_ and then"],
        ),
        ("port = '8700'", ["port: must be"]),
        ("limits = {sources = true}", ["limits, sources: must be"]),
        (
            "keys = [{name = 'ci', role = 'read', key = 'x'}]",
            ["keys, item 1, key: must be 3 to 200"],
        ),
        ("workers = 'four'", ["workers: must be"]),
        ("prot = 8700", ["prot: ", "did you mean port"]),
        ("limits = {source = 5}", ["limits, source: ", "did you mean sources"]),
        ("port = 99999", ["port: must be less than or equal to 65535"]),
        ("host = 7", ["host: must be"]),
        ("data = 7", ["data: must be"]),
        ("limits = 5", ["limits: must have"]),
        ("limits = {connections = 'x'}", ["limits, connections: must be"]),
        ("bots = 5", ["bots: must be a list in brackets"]),
        (
            "[keys]\nname = 'ci'\nrole = 'read'",
            ["keys: must be a list in brackets"],
        ),
        ("keys = [{name = 'ci', role = 'read', key = ''}]", ["3 to 200 visible ASCII characters"]),
        ("bots = ['bot_a']", ["bots, item 1: must have"]),
        (
            "[[bots]]\nid = 'bot_a'\nname = 'A'",
            ["bots, item 1, collections: is missing"],
        ),
        (
            "[[bots]]\nid = 'bot_a'\nname = 'A'\ncollections = []",
            ["bots, item 1, collections: must have at least 1 item"],
        ),
        (
            "[[bots]]\nid = 'bot_a'\nname = 'A'\ncollections = ['default']",
            ["bots, item 1, collections, item 1: must be col_ and then"],
        ),
        (
            "keys = [{name = 'ci', role = 'read'}]",
            ["the key ci must have one of key, key_env and key_file"],
        ),
        ("keys = [{name = 'ci', role = 'read', key = 'key', key_env = 'X'}]", ["it has 2"]),
        ("keys = [{name = 'ci', role = 'read', key = 'with a space'}]", ["3 to 200 visible ASCII"]),
        (
            "keys = [{name = 'a b', role = 'read', key = 'key'}]",
            ["keys, item 1, name: must be 1 to 60"],
        ),
        (
            "keys = [{name='ci', role='read', key='key'}, {name='ci', role='read', key='one'}]",
            ["key ci is declared twice"],
        ),
        ("[[keys]]\nname = 'ci'\nrole = 'admin'", ["keys, item 1, role: must be 'read'"]),
        ("[answers]\nbase_url = 'x'\nmodel = 'm'", ["answers, base_url: must be an http"]),
        ("[answers]\nmodel = 'm'", ["answers, base_url: "]),
        ("[answers]\nbase_url = 'http://a/v1'", ["answers, model: "]),
        *(
            (f"[answers]\nbase_url = '{url}'\nmodel = 'm'", ["answers, base_url: "])
            for url in (
                "http://me:secret@a/v1",
                "http://a/v1?key=secret",
                "http://a:eleven/v1",
                "http://a:99999/v1",
            )
        ),
        *(
            (
                f"[answers]\nbase_url = 'http://a/v1'\nmodel = 'm'\n{name} = {value}",
                [f"answers, {name}: "],
            )
            for name, value in (("timeout", 0), ("key", "'secret'"))
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, named):
    file = write(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        read_settings(file)
    assert all(name in str(caught.value) for name in [str(file), *named])
    assert not re.search("with a space|secret", str(caught.value))
    for word in ("Input", "Value error", "tuple", "String", "instance", "dictionary", ".0"):
        assert word not in str(caught.value).replace(str(file), "").replace("10.0.0", "")


@pytest.mark.skipif(os.name == "nt", reason="there are no such modes")
@pytest.mark.parametrize(
    ("mode", "key", "warned"),
    [
        (0o644, 'key = "abcdef"', True),
        (0o640, 'key = "abcdef"', True),
        (0o600, 'key = "abcdef"', False),
        (0o644, 'key_env = "THE_KEY"', False),
    ],
)
def test_who_keeps_keys_in_a_file_that_others_may_read_is_warned(
    tmp_path, caplog, mode, key, warned
):
    file = tmp_path / "kbot.toml"
    file.write_text(f'[[keys]]\nname = "one"\nrole = "read"\n{key}\n')
    file.chmod(mode)
    read_settings(file)
    assert bool(caplog.records) is warned


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"none\.toml: No such file"):
        read_settings(tmp_path / "none.toml")


def test_the_command_line_goes_over_the_file_and_beside_its_lists():
    old = KeySettings(name="old", role="read", key="old-key")
    settings = overridden(
        ServiceConfiguration(keys=(old,), port=1),
        {
            "host": None,
            "port": 2,
            "keys": ({"name": "api-key", "role": "manage", "key": "new-key"},),
            "allow_fetch": ("127.0.0.1/32",),
        },
    )
    assert settings.port == 2
    assert [(key.name, key.role) for key in settings.keys] == [
        ("old", "read"),
        ("api-key", "manage"),
    ]
    assert settings.allow_fetch == (ip_network("127.0.0.1/32"),)
    with pytest.raises(SettingsError, match=r"command line: allow_fetch, item 2: .*'nowhere'"):
        overridden(settings, {"allow_fetch": ("nowhere",)})
