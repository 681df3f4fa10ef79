"""What importing the package costs."""

import subprocess
import sys

import knowledge_bot


def loaded_by(statement: str) -> set[str]:
    code = (
        f"import sys; before = set(sys.modules); {statement}; print(*sys.modules.keys() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    loaded = loaded_by("import knowledge_bot")
    assert len(loaded) <= 80
    assert not loaded & {"httpx", "pydantic", "aiohttp", "click", "sqlalchemy", "asyncio", "ssl"}


def test_the_checks_are_loaded_by_whoever_uses_them():
    loaded = loaded_by("import knowledge_bot; from knowledge_bot import Client; Client")
    assert not [name for name in loaded if name.startswith("knowledge_bot.checks")]
    loaded = loaded_by("import knowledge_bot.checks")
    assert not loaded & {"pydantic", "httpx", "aiohttp", "regex", "yaml", "xml.etree.ElementTree"}
    # The plugin is loaded in every run of pytest.
    assert (
        len(
            loaded_by("import pytest; import knowledge_bot.checks.pytest")
            - loaded_by("import pytest, importlib.metadata")
        )
        <= 8
    )


def test_an_error_class_is_had_without_the_http_library():
    assert not loaded_by("from knowledge_bot import APIError") & {"httpx", "pydantic", "aiohttp"}


def test_a_blocking_client_does_not_load_aiohttp():
    statement = "from knowledge_bot import Client; Client('k', 'https://h.example')"
    assert "aiohttp" not in loaded_by(statement)


def test_every_public_name_is_there():
    for name in knowledge_bot.__all__:
        assert getattr(knowledge_bot, name) is not None
    assert set(dir(knowledge_bot)) == set(knowledge_bot.__all__)
