"""Crawls the site of traps with `wget -r`, with Scrapy and with `from_site`, and compares.

    python -m venv others; others/bin/pip install scrapy -e ".[ingest]"
    python tests/support/other_crawlers.py --scrapy-python others/bin/python

Each crawler's set is what the site's own log says that it was answered with as a page, spelled as
`from_site` spells it. It ends with an error where a difference has no explanation here. Of wget
1.21.3 and Scrapy 2.19.0 (with the rules in `trap_spider.py`) it told: of the 523 pages that
`from_site` reads, wget read 501, and 6 that it should not; Scrapy 522, and no others.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from knowledge_bot.ingest import WebPage, from_site
from knowledge_bot.ingest.sources import _fetching as fetching
from knowledge_bot.ingest.sources._addresses import cleaned
from trap_site import DEPTH, TrapSite, serving_traps

SPIDER = Path(__file__).parent / "trap_spider.py"

# Of what only one of the two reads: who, a pattern for the paths, and why.
EXPLAINED: dict[str, tuple[tuple[str, str, str], ...]] = {
    "wget": (
        ("from_site", r"/orphan/\d+", "wget reads no sitemaps"),
        ("from_site", r"/kept/by-header", "wget reads no canonical address in a header"),
        (
            "from_site",
            r"/shop/[1-4]",
            "only links with a session lead there, which it is to reject",
        ),
        ("from_site", r"/private/open.html", "its robots.txt takes the first rule that fits"),
        (
            "from_site",
            r"/words/na%C3%AFve",
            "it sends a link's bytes as they are where no encoding is told",
        ),
        ("from_site", r"/words/.*", "it knows no <meta charset>, and no mark of UTF-16"),
        ("wget", r"/docs/\?print=1", "its robots.txt knows no wildcards"),
        ("wget", r"/private/secret.html", "it does not ask robots.txt about redirects"),
        ("wget", r"/hidden/3", "that nofollow is for the knowledge-bot"),
        ("wget", r"/hidden/4", "it does not know rel=nofollow"),
        ("wget", r"/hidden/header-.*", "it does not know X-Robots-Tag"),
    ),
    "scrapy": (
        ("from_site", r"/words/na%C3%AFve", "it takes an encoding that is not told for cp775"),
    ),
}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--scrapy-python", default=shutil.which("python3"))
    python = options.parse_args().scrapy_python
    fetching.sleep = lambda seconds: None  # nobody else is served here
    sent: set[str] = set()

    def ours(site: TrapSite) -> None:
        pages = [page for page in from_site(f"{site.root}/") if isinstance(page, WebPage)]
        sent.update(page.url.removeprefix(site.root) for page in pages)
        missing, more = sorted(site.sendable - sent), sorted(sent - site.sendable)
        told(f"from_site: {len(sent)} pages sent; not sent: {missing}; sent wrongly: {more}")

    read = read_by(ours)
    told(f"from_site: {len(read)} pages read")
    unexplained = compare("wget", read, read_by(wget))
    unexplained += compare("scrapy", read, read_by(lambda site: scrapy(site, python)))
    sys.exit(f"{unexplained} differences are not explained" if unexplained else 0)


def compare(name: str, ours: set[str], theirs: set[str]) -> int:
    told(f"{name}: {len(theirs)} pages read, {len(theirs & ours)} of them by from_site too")
    unexplained = 0
    for who, paths in (("from_site", ours - theirs), (name, theirs - ours)):
        reasons: dict[str, list[str]] = {}
        for path in sorted(paths):
            found = [
                why
                for whose, pattern, why in EXPLAINED[name]
                if whose == who and re.fullmatch(pattern, path)
            ]
            unexplained += not found
            reasons.setdefault(found[0] if found else "NOT EXPLAINED", []).append(path)
        for reason, several in reasons.items():
            told(f"  only {who}: {len(several)}, {reason}: {' '.join(several)}")
    return unexplained


def read_by(crawl: Callable[[TrapSite], None]) -> set[str]:
    """Return the paths that a crawler was answered with as a page, each in one spelling."""
    with serving_traps() as site:
        crawl(site)
        told(f"{len(site.requests)} requests")
        found = {cleaned(path, f"{site.root}/") for path in site.pages_read("")}
        return {address.removeprefix(site.root) for address in found if address}


def wget(site: TrapSite) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                "wget",
                *("--recursive", f"--level={DEPTH}", "--execute=robots=on", "--no-verbose"),
                *("--retry-on-http-error=503", "--tries=2", "--waitretry=0", "--timeout=10"),
                *("--max-redirect=5", "--delete-after", f"--directory-prefix={folder}"),
                # It knows neither visits nor sessions: in every page of the shop it would find new
                # ones, for ever.
                "--reject-regex=[?;&](utm_|gclid|jsessionid|PHPSESSID|sid)",
                f"{site.root}/",
            ],
            check=False,  # it tells of broken links by its status
            capture_output=True,
            timeout=300,
        )


def scrapy(site: TrapSite, python: str) -> None:
    settings = {
        "ROBOTSTXT_OBEY": True,
        "DEPTH_LIMIT": DEPTH,
        "REDIRECT_MAX_TIMES": 5,
        "CONCURRENT_REQUESTS": 1,
        "DEPTH_PRIORITY": 1,
        "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
        "DOWNLOAD_DELAY": 0,
        "RETRY_TIMES": 1,
        "USER_AGENT": "knowledge-bot",
        "LOG_LEVEL": "CRITICAL",
        "COOKIES_ENABLED": False,
    }
    flags = [f"--set={name}={value}" for name, value in settings.items()]
    packages = Path(__file__).parents[2] / "connectors"
    subprocess.run(
        [python, "-m", "scrapy", "runspider", *flags, "-a", f"root={site.root}", str(SPIDER)],
        check=True,
        env=os.environ | {"PYTHONPATH": str(packages)},
        timeout=300,
    )


def told(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
