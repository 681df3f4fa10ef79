"""`kbot` itself: how it starts, reports what is wrong, and ends."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from knowledge_bot.cli.kbot import _unavailable, why_not_loaded


def test_the_help_shows_the_commands_the_environment_and_the_exit_codes(run):
    done = run("--help")
    assert done.exit_code == 0
    for command in ("login", "ping", "ask", "add", "api", "serve"):
        assert f"\n  {command} " in done.stdout
    assert "KNOWLEDGE_BOT_API_KEY" in done.stdout
    assert "KBOT_CONFIG" in done.stdout
    for code in ("0 ", "1 ", "2 ", "3 ", "4 ", "8 ", "130"):
        assert f"\n  {code}" in done.stdout.partition("Exit codes:")[2]


def commands():
    from click import Context, Group

    from knowledge_bot.cli import main

    def below(command, *names):
        if isinstance(command, Group):
            context = Context(command)
            for name in command.list_commands(context):
                yield from below(command.get_command(context, name), *names, name)
        else:
            yield names

    return list(below(main))


@pytest.mark.parametrize("names", commands(), ids=" ".join)
def test_the_help_of_every_command_shows_an_example(run, names):
    done = run(*names, "--help")
    assert done.exit_code == 0
    assert f"kbot {' '.join(names)}" in done.stdout.partition("\n")[2]
    assert "\x08" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "loaded", "not_loaded"),
    [
        (["--help"], set(), {"httpx", "pydantic", "rich", "psycopg", "aiohttp", "asyncio", "ssl"}),
        (
            ["ask", "--help"],
            {"knowledge_bot.cli.asking"},
            {"knowledge_bot.cli.adding", "knowledge_bot_service", "fastapi"},
        ),
    ],
)
def test_the_help_loads_nothing_that_it_does_not_show(arguments, loaded, not_loaded):
    code = (
        "import sys\n"
        "from knowledge_bot.cli import main\n"
        f"try: main({arguments})\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(done.stderr.split())
    assert loaded <= modules
    assert not modules & not_loaded


@pytest.fixture
def shining(tmp_path):
    """`shining("import x")`: where a package lies that adds the command `shine`."""

    def put(code, module="shining"):
        about = tmp_path / "other-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(
            f"[knowledge_bot.commands]\nshine = {module}:shine\n"
        )
        (tmp_path / "shining.py").write_text(code)
        return str(tmp_path)

    return put


def test_a_command_of_another_package_says_what_it_misses_whatever_it_is_given(kbot, shining):
    there = shining("", module="absent_module")
    listed = kbot("--help", PYTHONPATH=there)
    assert "needs absent_module, which is not installed" in " ".join(listed.stdout.split())
    done = kbot("shine", "--with", "handbook", PYTHONPATH=there)
    assert done.returncode == 1
    assert "Error: `kbot shine` needs absent_module, which is not installed" in done.stderr


@pytest.mark.parametrize("given", [["--help"], ["-v"], ["keys", "add", "--bot", "x"], ["--port=8"]])
def test_the_stand_in_of_a_command_takes_everything(given):
    done = CliRunner().invoke(_unavailable("serve", "needs fastapi"), given)
    assert (done.exit_code, done.stderr) == (1, "Error: `kbot serve` needs fastapi\n")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ModuleNotFoundError("No module named 'uvicorn2'", name="uvicorn2"), "needs uvicorn2"),
        (ModuleNotFoundError("gone", name="knowledge_bot_service.web"), "cannot be loaded"),
        (ModuleNotFoundError("its path is None", name="json"), "cannot be loaded"),
        (ImportError("cannot import name 'a' from 'b'"), "cannot be loaded"),
        (SyntaxError("invalid syntax"), "cannot be loaded"),
    ],
)
def test_only_what_is_not_there_is_called_not_installed(error, why):
    said = why_not_loaded(error, "serve")
    assert said.startswith(why)
    assert ("not installed" in said) is why.startswith("needs")


def test_a_command_that_is_broken_leaves_the_others_alone(kbot, shining):
    there = shining("from json import nothing_of_it")
    assert kbot("ping", "--help", PYTHONPATH=there).returncode == 0
    done = kbot("shine", PYTHONPATH=there)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "cannot be loaded: ImportError" in done.stderr


@pytest.mark.filterwarnings("default")
def test_an_unencrypted_service_elsewhere_is_warned_of_in_a_sentence(run, standing_in):
    standing_in()
    done = run("--base-url", "http://192.0.2.1", "ping")
    assert done.stderr.startswith("Warning: The API key and all content travel unencrypted")
    assert ".py" not in done.stderr
