"""The README, the start page and the tutorials, as a new user pastes them: with Python and a clone.

Every block is pasted as it stands, in order, and prints what is shown behind it. Only the port is
another one, since it may be taken here.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from docs.pages import ROOT, blocks
from docs.test_blocks import Cells, timeless
from waiting import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

DONE = "--- pasted"
UV = Path(sys.executable).with_name("uv")


class Terminal:
    """A shell that is pasted into."""

    def __init__(self, folder, variables):
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines, self._came = [], threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._shell.stdout:
            with self._came:
                self.lines.append(line)
                self._came.notify_all()
        with self._came:
            self.lines.append("--- the shell has ended\n")
            self._came.notify_all()

    def paste(self, text, until=DONE):
        """Paste a text; return what it printed, and keep how its last command ended."""
        begun = len(self.lines)
        end = f"echo '{DONE}' $?\n" if until == DONE else ""
        self._shell.stdin.write(f"{text}\n{end}")
        self._shell.stdin.flush()
        with self._came:
            there = self._came.wait_for(lambda: self._seen(begun, until), 1800)
        printed = "".join(self.lines[begun:])
        assert there, f"still running: {text}\n{printed}"
        assert until in printed, f"{text}\n{printed}"
        printed, _, self.ended = printed.partition(until)
        return printed

    def _seen(self, begun, until):
        return any(until in one or "shell has ended" in one for one in self.lines[begun:])

    def variables(self):
        """Return the environment of what is started here."""
        return dict(one.split("=", 1) for one in self.paste("env").splitlines() if "=" in one)

    def folder(self):
        return Path(self.paste("pwd").strip())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self._shell.pid, signal.SIGTERM)
        self._shell.wait(30)


@pytest.fixture
def user(tmp_path):
    """An empty home, a clone, and the environment of somebody who has just logged in."""
    for folder in ("home", "clone", "bin"):
        (tmp_path / folder).mkdir()
    files = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "x"], cwd=tmp_path / "clone", input=files.stdout, check=True)
    (tmp_path / "bin" / "python3").symlink_to(os.path.realpath(sys.executable))
    kept = ("LANG", "PIP_", "UV_", "SSL_")  # where a machine has its mirror and its certificates
    variables = {name: text for name, text in os.environ.items() if name.startswith(kept)}
    variables |= {"HOME": str(tmp_path / "home"), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    return tmp_path / "clone", variables | {"UV_SYSTEM_CERTS": "1"}


def as_typed(text, installer, port):
    text = text.replace("kbot serve", f"kbot serve --port {port}").replace(":8700", f":{port}")
    if installer == "uv":
        text = text.replace("python3 -m venv", f"{UV} venv --python python3")
        text = text.replace("pip install", f"{UV} pip install")
    return text


PASTED = [
    "README.md",
    "docs/start.md",
    *(f"docs/tutorials/{one}.md" for one in ("airflow", "langchain", "llama-index", "python")),
]


@pytest.mark.parametrize("installer", ["pip", "uv"])
@pytest.mark.parametrize("page", PASTED)
def test_every_block_can_be_pasted_in_order(page, installer, user, record_property):
    clone, variables = user
    port = free_port()
    text = (ROOT / page).read_text(encoding="utf-8")
    with Terminal(clone, variables) as server, Terminal(clone, variables) as mine:
        cells, is_served = None, False
        for block in blocks(ROOT / page):
            began = time.monotonic()
            if block.skipped and not block.terminal:
                continue
            if block.file:
                (mine.folder() / block.file).write_text(block.text)
            elif block.language == "python":
                cells = cells or Cells(mine.variables(), variables["HOME"] + "/kbot/bin/python")
                printed = cells.run(block, f"{page}:{block.line}")
                assert not block.shown or timeless(printed) == timeless(block.shown)
            elif "kbot serve" in block.text:
                server.paste(as_typed(block.text, installer, port), until="Stop with Ctrl-C")
                is_served = True
            elif block.language == "sh":
                used = mine if is_served else server
                printed = used.paste(as_typed(block.text, installer, port))
                assert used.ended.split() == ["0"] or "Error:" in block.shown, printed
            record_property(f"{page}:{block.line}", f"{time.monotonic() - began:.1f} s")
        if cells:
            cells.__exit__()
    assert is_served or "kbot serve" not in text
