"""The built site: strict, whole, by itself, and good HTML for everybody."""

import fcntl
import html
import json
import os
import re
import shutil
import subprocess
import threading
import zlib
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import pytest

import chromium
from docs.names import PUBLIC
from docs.pages import ROOT

playwright = pytest.importorskip("playwright.sync_api")

SITE = ROOT / "site"
CHECKERS = {"axe-core": "4.14.1", "vnu-jar": "26.9.27"}
WIDTHS = (1200, 390)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """`once(name, do)`: what all workers of a run share is made by one, and the others wait."""

    def made(name, do):
        folder = tmp_path_factory.getbasetemp()
        folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
        with (folder / name).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if not file.read():
                do()
                file.write("made")

    return made


@pytest.fixture(scope="module")
def site(once):
    """The site as `scripts/docs` builds it: any warning is an error."""

    def build():
        command = [ROOT / "scripts" / "docs"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    once("site", build)
    return SITE


class Page(HTMLParser):
    """What a page refers to, and what can be referred to in it."""

    def __init__(self, file):
        super().__init__()
        self.links, self.loaded, self.ids = [], [], []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given[name] for name in ("id", "name") if given.get(name)]
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in ("img", "script", "link", "iframe", "source"):
            self.loaded += [given[name] for name in ("src", "href") if given.get(name)]


def test_every_link_and_anchor_leads_somewhere(site):
    pages = {file: Page(file) for file in site.rglob("*.html") if file.name != "404.html"}
    ids = {file: {*page.ids} for file, page in pages.items()}
    broken = set()
    for file, page in pages.items():
        here = f"https://site.test/{file.relative_to(site).as_posix()}"
        for link in [*page.links, *page.loaded]:
            address, anchor = urldefrag(urljoin(here, link))
            if not address.startswith("https://site.test/"):
                continue
            target = site / unquote(address.removeprefix("https://site.test/"))
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (
                anchor and unquote(anchor) not in ids.get(target, {anchor})
            ):
                broken.add(f"{file.relative_to(site)}: {link}")
    assert not broken, "\n".join(sorted(broken))


def test_every_public_name_is_in_the_inventory(site):
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    names = {line.split(" ")[0] for line in zlib.decompress(inventory).decode().splitlines()}
    assert not [name for name in PUBLIC if name not in names]


def test_language_models_get_a_list_of_the_pages(site):
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    for link in set(re.findall(r"\]\((.*?)\)", listed)):
        assert (site / link / "index.html").exists(), link


def test_the_button_of_a_console_copies_commands_alone(site):
    copied = [
        html.unescape(found)
        for page in site.rglob("index.html")
        for found in re.findall(
            r'language-console highlight"(?: data-copy="([^"]*)")?>', page.read_text("utf-8")
        )
    ]
    assert len(copied) > 20
    assert all(copied)
    for commands in copied:
        assert not re.search(r"^\$ |\s# ", commands, re.MULTILINE), commands
        subprocess.run(["bash", "-n", "-c", commands], check=True)


@pytest.fixture(scope="module")
def checkers(once):
    """The folder of two checkers that npm has."""
    folder = ROOT / "build" / "checkers" / "node_modules"

    def install():
        if all((folder / name).exists() for name in CHECKERS):
            return
        wanted = [f"{name}@{version}" for name, version in CHECKERS.items()]
        command = ["npm", "install", "--silent", "--no-save", "--prefix", folder.parent, *wanted]
        subprocess.run(command, capture_output=True, check=True)

    once("checkers", install)
    return folder


@pytest.mark.skipif(shutil.which("java") is None, reason="the HTML checker runs on Java")
def test_the_html_is_valid(site, checkers):
    jar = checkers / "vnu-jar" / "build" / "dist" / "vnu.jar"
    done = subprocess.run(
        ["java", "-jar", jar, "--errors-only", "--format", "json", "--skip-non-html", site],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stderr)["messages"]
    said = {f"{Path(one['url']).parent.name}: {one['message']} {one['extract']}" for one in found}
    assert not said, "\n".join(sorted(said))


@pytest.fixture(scope="module")
def browser():
    options = chromium.options()
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(**options)
        yield launched
        launched.close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(site):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def pages_of(site):
    return sorted(file.parent.relative_to(site).as_posix() for file in site.rglob("index.html"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible_and_asks_nobody_else(site, address, browser, checkers, scheme):
    axe = (checkers / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    context = browser.new_context(color_scheme=scheme, viewport={"width": WIDTHS[0], "height": 900})
    page = context.new_page()
    asked, problems = set(), []
    # The dark pages differ in their colours alone.
    rules = "{runOnly: ['color-contrast']}" if scheme == "dark" else ""
    page.on("request", lambda request: asked.add(request.url))
    for name in pages_of(site):
        page.goto(f"{address}{name}/")
        page.evaluate(axe)
        for found in page.evaluate(f"async () => (await axe.run({rules})).violations"):
            where = [node["html"][:150] for node in found["nodes"][:2]]
            problems.append(f"{name}: {found['id']}, {found['help']} ({found['impact']}): {where}")
    context.close()
    assert {url for url in asked if not url.startswith((address, "data:", "blob:"))} == set()
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_the_window(site, address, browser, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    too_wide = []
    for name in pages_of(site):
        page.goto(f"{address}{name}/")
        if page.evaluate("document.documentElement.scrollWidth") > width:
            too_wide.append(name)
    page.close()
    assert not too_wide


def test_the_search_finds_without_a_network(address, browser):
    page = browser.new_page()
    page.route(
        "**/*", lambda route: route.continue_() if address in route.request.url else route.abort()
    )
    page.goto(address)
    while not page.locator("input:focus").count():  # it opens once the page's script has started
        page.keyboard.press("Control+k")
        page.wait_for_timeout(500)
    page.keyboard.type("ledger", delay=20)
    page.get_by_text(re.compile(r"\d+ results")).wait_for(timeout=20000)
    assert page.get_by_text("LedgerError").count()
    page.close()


TYPED = {
    "alarm": "recipes/every-night/",
    "audit": "how-to/audit/",
    "cron": "recipes/every-night/",
    "share": "recipes/sharepoint-and-drives/",
    "why": "recipes/why-not/",
    "docker": "recipes/containers/",
    "jupyter": "recipes/notebooks/",
    "sharepoint": "recipes/sharepoint-and-drives/",
    "slack": "recipes/slack/",
    "gitlab": "recipes/ci/",
    "402": "recipes/hosted/",
    "departments": "recipes/departments/",
    "kbotignore": "how-to/ingest/",
    "celery": "how-to/engines/",
    "webdav": "how-to/from-elsewhere/",
    "duplicate": "promises/",
    "streaming": "langchain/chat-model/",
    "upload_encoding": "reference/client/",
    "certificate": "recipes/network/",
    "async": "reference/client/",
    "pdf": "service/reading/",
    "chat": "langchain/chat-model/",
    "ci": "recipes/every-night/",
    "delete": "langchain/collection/",
    "fastapi": "recipes/fastapi/",
    "github": "recipes/ci/",
    "idempotency": "extensions/",
    "langgraph": "langchain/langgraph/",
    "mail": "recipes/every-night/",
    "openai": "gateway/openai/",
    "postgresql": "many-workers/",
    "proxy": "recipes/network/",
    "retry": "airflow/",
    "stale": "what-the-bot-knows/",
    "systemd": "recipes/every-night/",
    "timeout": "configuration/",
    "unknown": "airflow/settle/",
}


def test_the_first_result_is_the_page_that_is_meant(address, browser):
    page = browser.new_page()
    page.goto(address)
    while not page.locator("input:focus").count():
        page.keyboard.press("Control+k")
        page.wait_for_timeout(500)
    for word, meant in TYPED.items():
        page.locator("input:focus").fill(word)
        # The results of the word before stay for a moment, with the new one in their address.
        first = page.locator('a[href*="?h="]').first
        there = re.compile(rf"/{meant}\?h={word}")
        playwright.expect(first).to_have_attribute("href", there, timeout=20_000)
    page.close()
