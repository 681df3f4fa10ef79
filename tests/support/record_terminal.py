"""Records `kbot` on a terminal of 100 columns: `python tests/support/record_terminal.py [NAME …]`.

It starts the embedded service, and runs commands one after the other. What they really wrote
becomes `docs/images/kbot-NAME.svg`: `minute` serves a folder and changes a file in it; `ingest`
feeds a folder, changes a file and removes another.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from knowledge_bot_service import LocalService
from pseudo_terminal import terminal
from waiting import until

ROOT = Path(__file__).parents[2]
COLUMNS = 100
TOOLS = 228

# Rich's picture fetches its fonts from elsewhere; a page shows the reader's own.
PICTURE = re.sub(r"(?s)@font-face \{\{.*?\}\}\s*|<!--.*?-->\s*", "", CONSOLE_SVG_FORMAT)

ASK = "kbot ask 'How long is the loan period for hand tools?'"

# What stands behind "#" is shown in place of the command.
COMMANDS = {
    "minute": (
        "cat served.txt # kbot serve --with handbook",
        ASK,
        "sed -i 's/14 days/21 days/' handbook/borrowing.md",
        f"sleep 5; {ASK} # {ASK}",
    ),
    "ingest": (
        "kbot ingest folder handbook --origin handbook --rate 80",
        "rm handbook/repair-evening.md; sed -i 's/14 days/21 days/' handbook/borrowing.md",
        "kbot ingest folder handbook --origin handbook",
        "kbot sources origins",
    ),
}


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
    """Run a command; return its lines, and before them its progress as it was halfway."""
    screen = Screen()
    halfway: list[str] = []
    with terminal([shutil.which("bash"), "-c", command], environment, COLUMNS) as running:
        seen, more = 0, True
        while more:
            more = running.read(0.05)
            screen.write(running.shown[seen:])
            seen = len(running.shown)
            done = re.search(r"(\d+) of (\d+) items", "\n".join(screen.lines))
            if not halfway and done and int(done[2]) / 2 < int(done[1]) < int(done[2]):
                halfway = [line for line in screen.lines if line]
        assert running.end() == 0, running.shown
    return [*halfway, *(line for line in screen.lines if line)]


@contextmanager
def a_handbook(home: Path) -> Iterator[str]:
    """Make a folder of some files and many tools."""
    shutil.copytree(ROOT / "examples" / "handbook", home / "handbook")
    (home / "handbook" / "tools").mkdir()
    for number in range(1, TOOLS + 1):
        page = f"# Tool {number}\n\nIt hangs on hook {number}, and may be lent for a week.\n"
        (home / "handbook" / "tools" / f"tool-{number:03}.md").write_text(page, encoding="utf-8")
    yield ""


@contextmanager
def a_served_folder(home: Path) -> Iterator[str]:
    """Serve a folder as a newcomer does; yield what was printed."""
    shutil.copytree(ROOT / "examples" / "handbook", home / "handbook")
    kbot = Path(sys.executable).with_name("kbot")
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    with (
        (home / "served.txt").open("wb") as printed,
        subprocess.Popen(
            [kbot, "serve", "--with", "handbook"],
            cwd=home,
            env=environment,
            stdout=printed,
            stderr=printed,
        ) as process,
    ):
        try:
            assert until(lambda: "Fed " in (home / "served.txt").read_text(), 60)
            yield (home / "served.txt").read_text()
        finally:
            process.terminate()


PLACES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "minute": a_served_folder,
    "ingest": a_handbook,
}


def record(name: str) -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    handbook = {"col_default": "Handbook"}
    with (
        tempfile.TemporaryDirectory() as home,
        LocalService(
            collections=handbook,
            bots={"bot_default": ["col_default"]},
        ) as service,
        PLACES[name](Path(home)) as given,
    ):
        served = dict(re.findall(r"(KNOWLEDGE_BOT_[A-Z_]+)=(\S+)", given))
        key = served.get("KNOWLEDGE_BOT_API_KEY", service.api_key)
        environment = {
            "HOME": home,
            "XDG_DATA_HOME": f"{home}/.local/share",
            "KBOT_CONFIG": f"{home}/config.toml",
            "KNOWLEDGE_BOT_BASE_URL": service.base_url,
            "KNOWLEDGE_BOT_API_KEY": service.api_key,
            "KNOWLEDGE_BOT_COLLECTION": "col_default",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            **served,
        }
        for command in COMMANDS[name]:
            console.print(Text(f"$ {command.rpartition('# ')[2]}", style="bold green"))
            for line in recorded(f"cd {home} && {command}", environment):
                console.print(
                    Text.from_ansi(line.replace(home, "~").replace(key, "the-key-that-it-made"))
                )
    svg = console.export_svg(title=f"kbot {name}", code_format=PICTURE, unique_id=f"kbot-{name}")
    (ROOT / "docs" / "images" / f"kbot-{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or COMMANDS:
        record(name)
