"""What a bot knows after many nights: how many answers come from documents of an earlier one.

`python tests/benchmarks/service_nights.py GIT_DIR FOLDER NIGHTS STEP`: the history of a folder of
documentation is fed night by night, each night some commits later, and at its end the bot is asked
about the headings of the last one. GIT_DIR is a bare repository or a .git folder; the last of
NIGHTS, STEP of the folder's commits apart, is HEAD. Twice: as to a service that offers the bare
interface, and with `prune` and `wait_ready`.
"""

import itertools
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
from measuring import print_table

from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, ingest
from knowledge_bot.origins import Folder
from knowledge_bot_service import LocalService

QUESTIONS = 120
_SUFFIXES = (".md", ".rst", ".txt")
_UNDERLINE = re.compile(r"[=\-~^`\"']{4,}")


class History:
    """The states of a folder of a git repository, oldest first."""

    def __init__(self, repository: str, folder: str, nights: int, step: int) -> None:
        self._repository, self._folder = repository, folder
        commits = self._git("log", "--first-parent", "--format=%H", "HEAD", "--", folder)
        self.commits = commits.decode().split()[: nights * step : step][::-1]

    def _git(self, *arguments: str) -> bytes:
        command = ["git", "--git-dir", self._repository, *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout

    def files(self, commit: str) -> dict[str, str]:
        """Return the documents of a commit: their paths, and the names of their contents."""
        listed = self._git("ls-tree", "-r", commit, "--", self._folder).decode().splitlines()
        rows = [line.split("\t") for line in listed]
        return {path: row.split()[2] for row, path in rows if path.endswith(_SUFFIXES)}

    def check_out(self, folder: Path, before: dict[str, str], commit: str) -> dict[str, str]:
        """Make a folder of the files of `before` one of the files of `commit`."""
        now = self.files(commit)
        for path in before.keys() - now.keys():
            (folder / path).unlink()
        for path, name in now.items():
            if before.get(path) != name:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(self._git("cat-file", "blob", name))
        return now


def headings(folder: Path) -> list[str]:
    """Return some headings of all documents, in an order that is always the same."""
    found: list[str] = []
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        lines = file.read_text(errors="replace").splitlines()
        pairs = itertools.pairwise(line.strip() for line in lines)
        found += [line for line, below in pairs if _UNDERLINE.fullmatch(below)]
        found += [line.lstrip("# ") for line in lines if line.startswith("#")]
    chosen = [heading for heading in found if 10 < len(heading) < 70]
    random.Random(1).shuffle(chosen)
    return chosen[:QUESTIONS]


def as_bare(response: httpx.Response) -> None:
    """Take what a service announces from its answer."""
    response.headers.pop("Knowledge-Bot-Extensions", None)


def measure(history: History, *, bare: bool) -> dict[str, Any]:
    """Feed every night, and ask after the last one."""
    hooks = {"response": [as_bare]} if bare else {}
    options: dict[str, Any] = {} if bare else {"prune": True, "wait_ready": 300}
    counts: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory() as work,
        LocalService() as service,
        httpx.Client(event_hooks=hooks) as http,
        Client(service.api_key, service.base_url, http_client=http) as client,
    ):
        folder, ledger = Path(work, "docs"), Ledger(f"{work}/ledger.db")
        folder.mkdir()
        files: dict[str, str] = {}
        for commit in history.commits:
            files = history.check_out(folder, files, commit)
            report = ingest(
                client,
                Folder(folder),
                collections="col_default",
                ledger=ledger,
                origin="docs",
                gone_limit=1,
                **options,
            )
            counts.update(
                {
                    name: getattr(report, name)
                    for name in ("created", "replaced", "moved", "removed", "superseded", "unknown")
                }
            )
        service.wait_until_ready(1500)
        if bare:
            stale = {row.source_id for row in (*ledger.superseded(), *ledger.gone())}
        else:  # what is not of the last night; and of that, nothing is to be sent
            stale = {one.id for one in client.list_sources() if one.name not in files}
            again = ingest(client, Folder(folder), collections="col_default", origin="docs")
            assert again.unchanged == len(files), again
        answers, first, cited, old = 0, 0, 0, 0
        for heading in headings(folder):
            message = client.send_message(bot_id="bot_default", content=f"What about {heading}?")
            named = [source["id"] for source in (message.model_extra or {}).get("sources") or []]
            answers += bool(named)
            first += bool(named) and named[0] in stale
            cited += len(named)
            old += sum(each in stale for each in named)
        with Client(service.api_key, service.base_url) as manager:
            there = sum(1 for _ in manager.list_sources())
    return {
        "service": "bare interface" if bare else "prune, wait_ready",
        "nights": len(history.commits),
        "files": len(files),
        **{name: counts[name] for name in ("created", "replaced", "moved", "removed", "unknown")},
        "sources": there,
        "answers with sources": answers,
        "first source stale": first,
        "citations": cited,
        "stale citations": old,
    }


def main() -> None:
    """Measure both, and print them below one another."""
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    repository, folder, nights, step = sys.argv[1:]
    history = History(repository, folder, int(nights), int(step))
    print_table([measure(history, bare=bare) for bare in (True, False)])


if __name__ == "__main__":
    main()
