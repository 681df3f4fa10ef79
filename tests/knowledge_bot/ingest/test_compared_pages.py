"""Pages that are read to see whether they changed, over several nights with a ledger."""

import socket
import time
from collections import Counter

import pytest

from calls import KEY
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Skipped, WebPage, ingest
from knowledge_bot.origins import (
    Feed,
    Site,
    Sitemap,
    Urls,
)
from knowledge_bot.origins._origin import NoMemory
from knowledge_bot.testing import MemoryService, no_waiting
from page_server import answer, redirect, serving
from refusals import refused
from trap_site import Response, TrapSite, serving_traps
from waiting import free_port

FAST = {"rate": 1000}


def few_pages(site: TrapSite) -> None:
    del site.responses["/robots.txt"]
    site.page("/", "/a", "/b")
    site.page("/a")
    site.page("/b")
    site.responses["/manual.pdf"] = Response(b"%PDF 1", kind="application/pdf")


@pytest.fixture
def site():
    with serving_traps(filling=few_pages) as site:
        yield site


@pytest.fixture
def impatient():
    with no_waiting():
        yield


@pytest.fixture
def ledger(ledger_address) -> Ledger:
    return Ledger(ledger_address)


def listed(kind: str, site: TrapSite, *paths: str):
    """Publish a list of pages; return what makes its items."""
    urls = [site.root + path for path in paths]
    if kind == "urls":
        return lambda **how: Urls(urls, **FAST, **how)
    if kind == "sitemap":
        body = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
        body, find = f"<urlset>{body}</urlset>", Sitemap
    else:
        body = "".join(f"<item><title>Page</title><link>{url}</link></item>" for url in urls)
        body, find = f'<rss version="2.0"><channel>{body}</channel></rss>', Feed
    site.responses["/list.xml"] = Response(body.encode(), kind="text/xml")
    return lambda **how: find(f"{site.root}/list.xml", **FAST, **how)


def read(site: TrapSite) -> dict[str, int]:
    """Return how the pages were answered since the last look, but for the list itself."""
    found = {each.path: each.status for each in site.requests if each.path != "/list.xml"}
    site.requests.clear()
    return found


# What a ledger remembers --------------------------------------------------------------------------


def test_the_ledger_lets_a_site_answer_that_nothing_changed(run, ledger, site):
    def night(**options):
        report = run(Site(f"{site.root}/", sitemaps=False, **FAST), ledger=ledger, **options)
        return report, {path: status for path, status in read(site).items() if "robots" not in path}

    report, answers = night(dry_run=True)
    assert (report.created, set(answers.values())) == (3, {200})  # a dry run keeps nothing
    report, answers = night()
    assert (report.created, set(answers.values())) == (3, {200})
    report, answers = night()
    assert (report.created, report.unchanged) == (0, 3)
    # Where they stand is read once more: that they are still there, no 304 says.
    assert answers == {"/": 200, "/a": 304, "/b": 304}
    site.page("/a", text="Something else is to be said")
    report, answers = night(dry_run=True)
    assert (report.created, report.unchanged, answers["/a"]) == (1, 2, 200)
    report, answers = night()
    assert (report.created, report.unchanged, answers["/a"], answers["/b"]) == (1, 2, 200, 304)
    report, answers = night()
    assert (report.created, report.unchanged, answers["/a"]) == (0, 3, 304)


def test_what_is_gone_is_looked_for_no_more(send, ledger, site):
    def night(*paths: str):
        locations = "".join(f"<url><loc>{site.root}{path}</loc></url>" for path in paths)
        site.responses["/list.xml"] = Response(f"<urlset>{locations}</urlset>".encode())
        robots = f"Sitemap: {site.root}/list.xml".encode()
        site.responses["/robots.txt"] = Response(robots, kind="text/plain")
        report = send(Site(f"{site.root}/", **FAST), ledger=ledger)
        return report, {path for path, status in read(site).items() if status == 200}

    assert night("/", "/a", "/b")[0].created == 3
    site.page("/", "/a")
    assert night("/", "/a")[0].gone == 1
    report, whole = night("/", "/a")
    assert (report.unchanged, whole) == (2, {"/robots.txt"})


def test_a_page_that_is_forgotten_is_read_and_sent_anew(send, ledger, site):
    pages = listed("urls", site, "/a", "/b")
    send(pages(compare="content"), ledger=ledger)
    assert ledger.forget(f"{site.root}/a") == 1
    read(site)
    assert send(pages(compare="content"), ledger=ledger).created == 1
    assert read(site) == {"/a": 200, "/b": 304}


# Lists --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sitemap", "feed", "urls"])
def test_a_page_of_a_list_is_sent_again_when_its_main_text_changes(send, ledger, site, kind):
    pages = listed(kind, site, "/a", "/b", "/manual.pdf")
    assert send(pages(compare="content"), ledger=ledger).created == 3
    site.footer = "Another banner."
    report = send(pages(compare="content"), ledger=ledger)
    assert (report.created, report.unchanged, report.unversioned) == (0, 3, 0)
    site.page("/a", text="Something else is to be said")
    site.responses["/manual.pdf"].body = b"%PDF 2"
    read(site)
    report = send(pages(compare="content"), ledger=ledger)
    assert (report.created, report.unchanged, report.superseded) == (2, 1, 2)
    assert read(site) == {"/a": 200, "/b": 304, "/manual.pdf": 200}


def dated(kind: str, site: TrapSite, day: str, *paths: str):
    """Publish a list of pages with the time of their last change; return what makes its items."""
    made, end = listed(kind, site, *paths), "url>" if kind == "sitemap" else "item>"
    shown = {"sitemap": f"<lastmod>{day}</lastmod>", "feed": f"<pubDate>{day}</pubDate>"}[kind]
    body = site.responses["/list.xml"].body.decode()
    site.responses["/list.xml"].body = body.replace(f"</{end}", f"{shown}</{end}").encode()
    return made


@pytest.fixture
def sleep(monkeypatch):
    """`sleep(days)`: from then on it is later."""
    real, slept = time.time, 0.0
    monkeypatch.setattr(time, "time", lambda: real() + slept)

    def go(days: float):
        nonlocal slept
        slept += 86_400 * days

    return go


@pytest.fixture
def night(sleep, tmp_path):
    """`night(origin, keeper)`: a run, a day after the last one."""
    services = {}

    def go(origin, keeper: str):
        sleep(1)
        extensions = {"sources", "sync"} if keeper == "sync" else set()
        made = MemoryService(collections=["col_1"], extensions=extensions)
        service = services.setdefault("service", made)
        with Client(KEY, "https://service.test", transport=service.transport) as client:
            ledger = None if keeper == "sync" else tmp_path / "ledger.db"
            return ingest(client, origin, collections="col_1", ledger=ledger)

    return go


@pytest.mark.parametrize("keeper", ["sync", "plain"])
@pytest.mark.parametrize("kind", ["sitemap", "feed"])
def test_a_list_s_own_times_are_compared_and_each_page_is_read_every_eighth_day(
    night, site, caplog, kind, keeper
):
    def nights(count: int, day: str = "2026-01-02"):
        """Return how many were sent, and how often each page was read."""
        sent, times = 0, Counter[str]()
        for _ in range(count):
            report = night(dated(kind, site, day, "/a", "/b")(), keeper)
            assert (report.ok, report.unversioned) == (True, 0)
            sent, times = sent + report.sent, times + Counter(read(site).keys())
        return sent, times

    assert nights(1) == (2, {})
    sent, times = nights(15)  # the first time is a day of some eight
    assert (sent, times.keys()) == (0, {"/a", "/b"})
    assert nights(8) == (0, {"/a": 1, "/b": 1})
    site.page("/a", text="It was changed, and nobody says so.")
    sent, times = nights(8)
    assert (sent, times["/b"], times["/a"] > 0) == (1, 1, True)
    assert [f"{site.root}/a changed" in one.getMessage() for one in caplog.records].count(True) == 1
    site.page("/a", text="It was changed again.")
    assert nights(1)[0] == 1
    assert nights(1, "2026-01-03")[0] == 2
    assert nights(1, "2026-01-03")[0] == 0


class Versions(NoMemory):
    """Remembers the versions of items."""

    def __init__(self):
        super().__init__()
        self.versions = {}

    def recall(self, key):
        return self.versions.get(key)


@pytest.mark.parametrize("days", [1 / 24, 1, 2, 7])
def test_each_page_of_a_list_is_read_on_any_schedule(site, sleep, days):
    paths = {f"/{number}" for number in range(8)}
    for path in paths:
        site.page(path)
    pages, memory, times = dated("sitemap", site, "2026-01-02", *paths), Versions(), Counter()
    for _ in range(1000):  # the days of a page are drawn: on no schedule it takes as long
        for page in pages().items(memory):
            memory.versions[page.url] = page.version
        times += Counter(read(site).keys())
        if paths == times.keys():
            break
        sleep(days)
    assert paths == times.keys()
    assert days >= 1 or max(times.values()) <= 2


@pytest.mark.usefixtures("impatient")
def test_a_page_that_cannot_be_read_tonight_is_not_sent_again(send, ledger, site):
    pages = listed("urls", site, "/a", "/b")
    send(pages(compare="content"), ledger=ledger, origin="list")
    fine = site.responses["/a"]
    for status in (503, 403, 404):
        site.responses["/a"] = Response(b"Not now", status)
        report = send(pages(compare="content"), ledger=ledger, origin="list")
        assert (report.created, report.unchanged, report.invalid) == (0, 1, 1)
        assert f"answered {status}" in report.failures[0].error
        # Its address is still in the list, but what answers 404 is not there any more.
        assert report.gone == (1 if status == 404 else 0)
    site.responses["/a"] = fine
    report = send(pages(compare="content"), ledger=ledger, origin="list")
    assert (report.created, report.unchanged, report.gone) == (0, 2, 0)


def test_a_redirect_is_followed_to_what_is_compared(send, ledger, site):
    pages = listed("urls", site, "/old", "/circle")
    site.redirect("/old", "/newer")
    site.redirect("/newer", "/a")
    site.redirect("/circle", "/circle")
    report = send(pages(compare="content"), ledger=ledger)
    assert (report.created, report.failures[0].error) == (1, "it redirects more than 5 times")
    site.page("/a", text="Something else is to be said")
    assert send(pages(compare="content"), ledger=ledger).created == 1


@pytest.mark.usefixtures("impatient")
def test_a_host_that_does_not_answer_is_left_alone_and_the_others_are_read(site):
    dead = f"http://127.0.0.1:{free_port()}"
    urls = [f"{dead}/{number}" for number in range(15)]
    items = list(Urls([*urls, f"{site.root}/a"], compare="content", **FAST).items())
    shown = [item.reason for item in items[:-1]]
    assert all("could not be reached" in reason for reason in shown[:10])
    assert all("it was not read" in reason for reason in shown[10:])
    assert isinstance(items[-1], WebPage)


def test_a_large_document_is_sent_without_a_version(site, monkeypatch):
    monkeypatch.setattr("knowledge_bot.origins._lists._LARGEST", 1000)
    site.page("/a", text="x" * 2000)
    site.responses["/manual.pdf"].body = b"%PDF" + b"x" * 2000
    paths = ("/a", "/manual.pdf", "/b")
    versions = [item.version for item in listed("urls", site, *paths)(compare="content").items()]
    assert versions[:2] == [None, None]
    assert versions[2]


# What gave a version before ----------------------------------------------------------------------


def test_to_begin_to_compare_and_to_leave_it_sends_nothing_again(run, ledger, site):
    def night(**how):
        report = run(listed("urls", site, "/a", "/b")(**how), ledger=ledger)
        return report.created, report.unchanged

    assert night() == (2, 0)
    for how in ("content", None, "content"):
        assert night(compare=how) == (0, 2), how


def test_a_version_that_is_missing_for_a_night_is_no_change(run, ledger):
    def night(version):
        page = WebPage(name="n", url="https://h.example/", version=version)
        report = run([page], ledger=ledger, origin="list")
        return report.created, report.unchanged, report.unversioned

    assert night("2026-01-02") == (1, 0, 0)
    assert night(None) == (0, 1, 1)
    assert night("2026-01-02") == (0, 1, 0)
    assert night(None) == (0, 1, 1)
    assert night("2026-01-03") == (1, 0, 0)
    assert night("2026-01-02") == (1, 0, 0)


def test_a_page_that_changes_its_kind_or_its_headers_is_sent_again(send, ledger, site):
    pages = listed("urls", site, "/a")
    send(pages(compare="content"), ledger=ledger)
    site.responses["/a"] = Response(b"%PDF", kind="application/pdf")
    assert send(pages(compare="content"), ledger=ledger).created == 1
    page = {"name": "n", "url": "https://h.example/"}
    assert send([WebPage(**page)], ledger=ledger).created == 1
    changed = WebPage(**page, headers={"X-Team": "a"}, version="2")
    assert send([changed], ledger=ledger).created == 1


def test_a_changed_page_that_a_list_names_twice_is_sent_once(run, ledger, site):
    pages = listed("urls", site, "/a", "/b", "/a")
    counts = []
    for text in ("One", "One", "Another"):
        site.page("/a", text=text)
        report = run(pages(compare="content"), ledger=ledger)
        counts.append((report.created, report.unchanged, report.skipped, report.invalid))
    assert counts == [(2, 0, 1, 0), (0, 2, 1, 0), (1, 1, 1, 0)]
    site.page("/a", text="A third")
    report = run(pages(compare="content"), ledger=ledger, dry_run=True)
    assert (report.created, report.unchanged, report.skipped) == (1, 1, 1)


# What a stranger's list may lead to ---------------------------------------------------------------


@pytest.fixture
def public(monkeypatch):
    """The loopback address under a public one's name and number."""
    resolve, connect = socket.getaddrinfo, socket.create_connection
    connected = []

    def resolved(host, port, *args, **options):
        if host != "public.example":
            return resolve(host, port, *args, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", port))]

    def connecting(address, *args, **options):
        connected.append(address[0])
        return connect(("127.0.0.1", address[1]), *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setattr(socket, "create_connection", connecting)
    return connected


def sitemap_of(*urls: str) -> bytes:
    return f"<urlset>{''.join(f'<url><loc>{url}</loc></url>' for url in urls)}</urlset>".encode()


def test_a_public_list_leads_to_no_private_page(public):
    with serving() as web:
        inside = web.url("/inside")
        web.answers["/s.xml"] = answer(sitemap_of(inside, web.url("/a", "public.example")))
        start = web.url("/s.xml", "public.example")
        refused, page = Sitemap(start, compare="content", **FAST).items()
        assert isinstance(refused, Skipped)
        assert isinstance(page, WebPage)
        assert "127.0.0.1" not in public
        allowed = Sitemap(start, compare="content", allow_private=True, **FAST)
        assert [type(item) for item in allowed.items()] == [WebPage, WebPage]


def test_a_public_sitemap_is_not_redirected_into_a_network(public):
    with serving() as web:
        web.answers["/s.xml"] = redirect(web.url("/inside.xml"))
        web.answers["/inside.xml"] = answer(sitemap_of("https://h.example/"))
        (shown,) = Sitemap(web.url("/s.xml", "public.example")).items()
        assert isinstance(shown, Skipped)
        assert (
            len(list(Sitemap(web.url("/s.xml", "public.example"), allow_private=True).items())) == 1
        )
        assert len(list(Sitemap(web.url("/s.xml")).items())) == 1  # private from the beginning


def test_a_list_of_one_s_own_may_name_private_pages_that_public_ones_may_not_lead_to(public):
    with serving() as web:
        web.answers["/to-inside"] = redirect(web.url("/inside"))
        urls = [web.url("/to-inside", "public.example"), web.url("/inside")]
        refused, page = Urls(urls, compare="content", **FAST).items()
        assert isinstance(refused, Skipped)
        assert isinstance(page, WebPage)


# What cannot be compared --------------------------------------------------------------------------


def test_pages_without_a_version_are_counted_each_night(run, ledger):
    pages = [f"https://h.example/{number}" for number in range(3)]
    for unchanged in (0, 3):
        report = run(Urls(pages), ledger=ledger)
        assert (report.unversioned, report.unchanged) == (3, unchanged)
    versioned = WebPage(name="n", url="https://h.example/v", version="1")
    assert run([versioned], ledger=ledger).unversioned == 0


@pytest.mark.parametrize("find", [Urls, Sitemap, Feed])
@pytest.mark.parametrize("how", [{"compare": "etag"}, {"rate": 0}, {"rate": "fast"}], ids=str)
def test_an_option_that_cannot_be_used_is_reported_at_once(find, how):
    with refused(*how):
        find("https://h.example/list" if find is not Urls else [], **how)
