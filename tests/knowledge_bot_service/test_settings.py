"""The configuration file: what it declares, and how it says what is wrong."""

from ipaddress import ip_network
from pathlib import Path

import pytest

from knowledge_bot_service.settings import Settings, SettingsError, overridden, read_settings


def write(folder: Path, text: str) -> Path:
    file = folder / "service.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_file_declares_everything(tmp_path: Path) -> None:
    settings = read_settings(
        write(
            tmp_path,
            """
            data = "here"
            api_keys = ["first-key", "second-key"]
            allow_fetch = ["10.0.0.0/8"]
            wait_for_sources = 2.5

            [limits]
            sources = 100

            [[collections]]
            id = "col_handbook"
            name = "Handbook"

            [[bots]]
            id = "bot_guide"
            name = "Guide"
            collections = ["col_handbook"]
            """,
        )
    )
    assert settings.data == tmp_path / "here"
    assert settings.allow_fetch == (ip_network("10.0.0.0/8"),)
    assert settings.limits.sources == 100
    assert settings.limits.request_bytes == 50 * 1024 * 1024
    assert settings.bots[0].collections == ("col_handbook",)
    assert "first-key" not in repr(settings)


def test_a_file_may_be_empty(tmp_path: Path) -> None:
    assert read_settings(write(tmp_path, "")) == Settings()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("colour = 'red'", ["colour", "no such setting"]),
        ("[limits]\nsauces = 5", ["limits.sauces", "no such setting"]),
        ("collections = [{id = 'handbook', name = 'x'}]", ["collections.0.id"]),
        ("collections = [{id = 'col_a', name = ''}]", ["collections.0.name"]),
        (
            "collections = [{id = 'col_a', name = 'x'}, {id = 'col_a', name = 'y'}]",
            ["col_a is declared twice"],
        ),
        (
            "bots = [{id = 'bot_a', name = 'A', collections = ['col_missing']}]",
            ["bot_a", "col_missing", "col_default"],
        ),
        ("allow_fetch = ['10.0.0.1/8']", ["allow_fetch.0"]),
        ("api_keys = ['with a space']", ["api_keys"]),
        ("x = ", ["not a TOML file"]),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, named: list[str]) -> None:
    file = write(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        read_settings(file)
    assert all(name in str(caught.value) for name in [str(file), *named])
    assert "with a space" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml: No such file"):
        read_settings(tmp_path / "none.toml")


def test_the_command_line_goes_beside_the_file() -> None:
    settings = overridden(
        Settings(api_keys=("old",)), api_keys=["new"], allow_fetch=["127.0.0.1/32"]
    )
    assert [key.get_secret_value() for key in settings.api_keys] == ["old", "new"]
    assert settings.allow_fetch == (ip_network("127.0.0.1/32"),)
    with pytest.raises(SettingsError, match=r"command line: allow_fetch\.1: .*'nowhere'"):
        overridden(settings, allow_fetch=["nowhere"])
