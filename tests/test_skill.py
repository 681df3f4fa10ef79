"""The skill for agents: in the form that they read, and every line of it is true."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import knowledge_bot
from calls import KEY
from knowledge_bot.cli import main
from knowledge_bot.testing import MemoryService

FILE = Path(knowledge_bot.__file__).parent / ".agents/skills/knowledge-bot/SKILL.md"
_, HEAD, BODY = FILE.read_text(encoding="utf-8").split("---\n", 2)
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", BODY, re.MULTILINE | re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]
NAMED = re.findall(r"`(kbot [a-z][^`]*)`", BODY)


def test_its_head_is_as_the_open_format_has_it():
    head = yaml.safe_load(HEAD)
    assert head.keys() <= {"name", "description", "license", "compatibility", "metadata"}
    assert head["name"] == FILE.parent.name
    assert 100 < len(head["description"]) <= 1024
    assert len(head["compatibility"]) <= 500
    assert len(BODY.splitlines()) < 500


@pytest.mark.parametrize("line", [*COMMANDS, *NAMED])
def test_its_commands_and_their_options_are_there(line):
    _, *words = shlex.split(line, comments=True)
    filled = ["GET" if one == "POST" else one for one in words]
    done = CliRunner().invoke(main, [*filled, "--help"], prog_name="kbot")
    assert done.exit_code == 0, done.output


def test_its_codes_are_those_of_the_commands():
    from knowledge_bot.cli.exits import Exit

    told = {int(code) for code in re.findall(r"^\| (\d+) \|", BODY, re.MULTILINE)}
    assert told == {*Exit} - {Exit.INTERRUPTED}


def test_its_python_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    text = "The museum opens its doors on Saturdays at half past nine in the morning."
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "opening.md").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", "https://service.test")
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    service = MemoryService(
        bots={"bot_guide": lambda _: text}, collections=["col_handbook"], extensions={"sync"}
    )
    (code,) = (text for kind, text in BLOCKS if kind == "python")
    with service.standing_in():
        exec(compile(code, FILE, "exec"), {})
    assert capsys.readouterr().out == f"1.0 []\n{text}\n"


def test_it_says_what_is_never_repeated():
    never = BODY.partition("## Never")[2]
    assert all(word in never for word in ("unknown", "`--on-unknown resend`", "`--gone-limit 1`"))
