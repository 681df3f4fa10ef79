"""What a site sends, night by night: its pages whose text changed, and nothing else.

`python tests/benchmarks/site_nights.py GIT_DIR NIGHTS`: the folder `docs` of a repository, as some
of its commits had it, is built by the command `mkdocs`, served, and crawled into a ledger. GIT_DIR
is a bare repository or a .git folder.
"""

import html
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from measuring import print_table

from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, from_site, ingest
from knowledge_bot.testing import MemoryService

# Without plugins, since those of old commits are not to be had.
SETTINGS = (
    "site_name: Docs\nplugins: []\nuse_directory_urls: false\nmarkdown_extensions: [attr_list]\n"
)
MAIN = re.compile(r'role="main">(.*?)<footer', re.DOTALL)
TAG = re.compile(r"<[^>]+>")


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing of it."""

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


def git(folder: str, *arguments: str) -> bytes:
    """Return what git prints."""
    return subprocess.run(["git", "-C", folder, *arguments], capture_output=True, check=True).stdout


def build(repository: str, commit: str, work: Path) -> dict[str, str]:
    """Build the site of a commit into `live`; return the text of each page, without white space."""
    source, live = work / "source", work / "live"
    for folder in (source, live):
        shutil.rmtree(folder, ignore_errors=True)
    source.mkdir()
    files = git(repository, "archive", commit, "docs")
    subprocess.run(["tar", "x", "-C", source], input=files, check=True)
    (source / "mkdocs.yml").write_text(SETTINGS)
    command = ["mkdocs", "build", "-q", "-d", live]
    subprocess.run(command, cwd=source, capture_output=True, check=True)
    found = {}
    for file in live.rglob("*.html"):
        if main := MAIN.search(file.read_text()):
            text = html.unescape(TAG.sub("", main[1]))
            found[f"/{file.relative_to(live).as_posix()}"] = "".join(text.split())
    found.pop("/404.html", None)
    return found


def main(repository: str, nights: int, work: Path) -> None:
    """Crawl each night's site, and count."""
    every = git(repository, "log", "--format=%H", "--first-parent", "--", "docs").decode().split()
    every = [each for each in every if git(repository, "ls-tree", each, "docs/index.md")]
    commits = every[:: max(1, len(every) // nights)][:nights][::-1]
    (work / "live").mkdir()
    handler = partial(Quiet, directory=str(work / "live"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    site = from_site(f"http://127.0.0.1:{server.server_port}/index.html", rate=1000)
    service, ledger = MemoryService(collections={"col_1": "All"}), Ledger(work / "ledger.db")
    rows, before, known = list[dict[str, Any]](), dict[str, str](), set[str]()
    with Client("key", "https://service.test", transport=service.transport) as client:
        for night, commit in enumerate(commits):
            now = build(repository, commit, work)
            report = ingest(client, site, collections="col_1", ledger=ledger, gone_limit=1.0)
            told = {entry.key for entry in ledger.gone()}
            row = {
                "night": night,
                "pages": len(now),
                "sent": report.created,
                "changed": sum(before.get(page) != text for page, text in now.items()),
                "told gone": len(told - known),
                "gone": len(before.keys() - now.keys()),
            }
            rows.append(row)
            before, known = now, told
    counted = ("sent", "changed", "told gone", "gone")
    rows.append(
        {"night": "all", "pages": ""} | {name: sum(row[name] for row in rows) for name in counted}
    )
    print_table(rows)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1], int(sys.argv[2]), Path(folder))
