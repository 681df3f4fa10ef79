"""The page on checks: its blocks run one after the other, and print what it shows."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from knowledge_bot import Client
from knowledge_bot_service import LocalService
from pseudo_terminal import terminal
from record_terminal import Screen

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/how-to/check.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COLUMNS = 100


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A folder, and a service that was fed with the examples' handbook."""
    home = tmp_path_factory.mktemp("check")
    with (
        LocalService(
            collections={"col_handbook": "Handbook"}, bots={"bot_guide": ["col_handbook"]}
        ) as service,
        Client(service.api_key, service.base_url) as client,
    ):
        for file in sorted((ROOT / "examples" / "handbook").iterdir()):
            client.upload_source(name=file.name, collections="col_handbook", file=file)
        deadline = time.monotonic() + 60
        last = "Which protection is compulsory at the table saw?"
        while "ear protection" not in ask(client, last).lower() and time.monotonic() < deadline:
            time.sleep(0.2)
        yield {
            "HOME": str(home),
            "KBOT_CONFIG": str(home / "config.toml"),
            "KNOWLEDGE_BOT_BASE_URL": service.base_url,
            "KNOWLEDGE_BOT_API_KEY": service.api_key,
            "KNOWLEDGE_BOT_COLLECTION": "col_handbook",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTEST_ADDOPTS": "-p no:cacheprovider -p knowledge_bot.checks.pytest",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }


def ask(client, question):
    return client.send_message(bot_id="bot_guide", content=question).answer


def test_every_block_runs_and_prints_what_is_shown(environment):
    if shutil.which("jq") is None:
        pytest.skip("the page uses jq")
    page = PAGE.read_text(encoding="utf-8")
    assert played(page, environment) == page


def played(page, environment):
    """Run the page's blocks; return it with what they print now, where that says something else."""
    home = Path(environment["HOME"])

    def play(found):
        kind, text = found.groups()
        if kind == "console":
            shown = "\n\n".join(run(command, environment) for command in commands(text))
            return found[0] if timeless(shown) == timeless(text.rstrip("\n")) else wrapped(shown)
        if kind in ("toml", "yaml"):
            name = re.match(r"# (\S+)\n", text)[1]
            (home / name).write_text(text)
        elif kind == "python":
            subprocess.run(
                [sys.executable, "-c", text],
                cwd=home,
                env={**os.environ, **environment},
                check=True,
                timeout=120,
            )
        return found[0]

    return BLOCK.sub(play, page)


def commands(text):
    return re.findall(r"^\$ (.*)$", text, re.MULTILINE)


def run(command, environment):
    """Return the command as it was typed, and the lines that are left on a terminal."""
    screen = Screen()
    home = environment["HOME"]
    bash = [shutil.which("bash"), "-c", f"cd {home} && {command}"]
    with terminal(bash, environment, COLUMNS) as running:
        running.end(60)
        screen.write(running.shown)
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in screen.lines]
    return "\n".join([f"$ {command}", *(line.replace(home, "~") for line in lines if line)])


def wrapped(shown):
    return f"```console\n{shown}\n```"


def timeless(text):
    return re.sub(r" *\d+\.\d+(?= ?s\b| {2})|(?<= {2})\d(?= {2})", " 0", text)


@pytest.mark.parametrize(
    "target", sorted(set(re.findall(r"\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8"))))
)
def test_a_link_leads_somewhere(target):
    path, _, heading = target.partition("#")
    file = (PAGE.parent / path).resolve() if path else PAGE
    assert file.exists()
    if heading:
        headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
        assert heading in anchors
