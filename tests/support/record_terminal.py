"""Records `kbot` on a terminal of 100 columns: `python tests/support/record_terminal.py`.

A folder is served as a newcomer does it, asked about, and a file in it changes. What was really
written becomes `docs/images/kbot-minute.svg`.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from pseudo_terminal import terminal
from waiting import until

ROOT = Path(__file__).parents[2]
COLUMNS = 100

# Rich's picture fetches its fonts from elsewhere; a page shows the reader's own.
PICTURE = re.sub(r"(?s)@font-face \{\{.*?\}\}\s*|<!--.*?-->\s*", "", CONSOLE_SVG_FORMAT)

SERVE = "kbot serve --with handbook"
ASK = "kbot ask 'How long is the loan period for hand tools?'"

# What stands behind "#" is shown in place of the command.
COMMANDS = (
    f"cat served.txt # {SERVE}",
    ASK,
    "sed -i 's/14 days/21 days/' handbook/borrowing.md",
    f"sleep 5; {ASK} # {ASK}",
)


class Screen:
    """What a terminal shows: lines, of which a program may take back the last ones."""

    def __init__(self) -> None:
        self.lines, self._row = [""], 0

    def write(self, output: str) -> None:
        for number, final, text in re.findall(r"\x1b\[([?\d;]*)([A-Za-z])|([^\x1b])", output):
            if text == "\n":
                self._row += 1
                self.lines += [""] * (self._row == len(self.lines))
            elif final == "A":
                self._row -= int(number or 1)
            elif final == "K":
                self.lines[self._row] = ""
            elif final == "m":
                self.lines[self._row] += f"\x1b[{number}m"
            elif text == "\t":
                self.lines[self._row] += " " * (8 - len(self.lines[self._row]) % 8)
            elif text not in ("", "\r"):
                self.lines[self._row] += text


def recorded(command: str, environment: dict[str, str]) -> list[str]:
    """Run a command; return its lines."""
    screen = Screen()
    with terminal([shutil.which("bash"), "-c", command], environment, COLUMNS) as running:
        assert running.end() == 0, running.shown
        screen.write(running.shown)
    return [line for line in screen.lines if line]


def record(home: Path, console: Console) -> None:
    """Serve a folder, and run the commands."""
    shutil.copytree(ROOT / "examples" / "handbook", home / "handbook")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"HOME": str(home), "PATH": path}
    told = home / "served.txt"
    with (
        told.open("wb") as printed,
        subprocess.Popen(
            SERVE.split(), cwd=home, env=environment, stdout=printed, stderr=printed
        ) as process,
    ):
        try:
            assert until(lambda: "Fed " in told.read_text(), 60)
            served = dict(re.findall(r"(KNOWLEDGE_BOT_[A-Z_]+)=(\S+)", told.read_text()))
            key = served["KNOWLEDGE_BOT_API_KEY"]
            for command in COMMANDS:
                console.print(Text(f"$ {command.rpartition('# ')[2]}", style="bold green"))
                for line in recorded(f"cd {home} && {command}", environment | served):
                    shown = line.replace(str(home), "~").replace(key, "the-key-that-it-made")
                    console.print(Text.from_ansi(shown))
        finally:
            process.terminate()


if __name__ == "__main__":
    recording = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder), recording)
    svg = recording.export_svg(title="kbot", code_format=PICTURE, unique_id="kbot-minute")
    (ROOT / "docs" / "images" / "kbot-minute.svg").write_text(svg, encoding="utf-8")
