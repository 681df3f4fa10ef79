"""`kbot` itself: how it starts, reports what is wrong, and ends."""

import subprocess
import sys

import pytest


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


def test_a_command_of_another_package_says_what_it_misses(kbot, tmp_path):
    about = tmp_path / "other-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[knowledge_bot.commands]\nshine = absent_module:shine\n"
    )
    listed = kbot("--help", PYTHONPATH=str(tmp_path))
    assert "shine" in listed.stdout
    assert "needs absent_module, which is not installed" in " ".join(listed.stdout.split())
    done = kbot("shine", "--with", "handbook", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "Error: `kbot shine` needs absent_module, which is not installed" in done.stderr


@pytest.mark.filterwarnings("default")
def test_an_unencrypted_service_elsewhere_is_warned_of_in_a_sentence(run, standing_in):
    standing_in()
    done = run("--base-url", "http://192.0.2.1", "ping")
    assert done.stderr.startswith("Warning: The API key and all content travel unencrypted")
    assert ".py" not in done.stderr
