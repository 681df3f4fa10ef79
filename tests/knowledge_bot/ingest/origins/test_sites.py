"""A whole site: what is found, what is asked of its server, and where it ends."""

import itertools
import socket
import ssl
from collections import Counter
from urllib.parse import urlsplit

import pytest
import trustme

from knowledge_bot.ingest import (
    Skipped,
    WebPage,
)
from knowledge_bot.origins import (
    Site,
)
from knowledge_bot.origins import _fetching as polite
from knowledge_bot.origins import _html as html
from knowledge_bot.origins import _pages as reading
from knowledge_bot.origins import _site as crawling
from knowledge_bot.origins._pages import Known
from knowledge_bot.testing import no_waiting
from knowledge_bot_web import fetching
from page_server import answer, redirect, serving
from refusals import refused
from trap_site import DEPTH, Response, TrapSite, serving_traps
from waiting import free_port


class Clock:
    """A clock that only sleeping moves on."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Memory:
    """Keeps what is known of pages, as the keeper of a book does."""

    gone_limit = 0.5

    def __init__(self):
        self.note, self.versions = None, {}

    def recall(self, key):
        return self.versions.get(key)

    def entries(self):
        return list(self.versions.items())

    def of(self, site):
        """Return what a run finds, and keep it."""
        found = list(site.items(self))
        there = {item.name for item in found if getattr(item, "gone", "") == "unread"}
        self.versions = {key: each for key, each in self.versions.items() if key in there}
        self.versions |= {item.url: item.version for item in found if isinstance(item, WebPage)}
        return found


@pytest.fixture(autouse=True)
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(polite, "sleep", clock.sleep)
    for module in (polite, fetching, crawling):
        monkeypatch.setattr(module, "monotonic", clock)
    return clock


@pytest.fixture
def plain(monkeypatch) -> None:
    monkeypatch.setattr(html, "_has_trafilatura", lambda: False)


@pytest.fixture
def small(clock):
    """A site that the test fills."""
    with serving_traps(clock, lambda site: site.responses.pop("/robots.txt")) as site:
        yield site


def sent(site: TrapSite, items) -> set[str]:
    return {item.url.removeprefix(site.root) for item in items if isinstance(item, WebPage)}


def reasons(site: TrapSite, items) -> dict[str, str]:
    return {
        item.name.removeprefix(site.root): item.reason.replace(site.root, "")
        for item in items
        if isinstance(item, Skipped)
    }


def versions(items) -> dict[str, str | None]:
    return {item.url: item.digest for item in items if isinstance(item, WebPage)}


# The site of 500 pages ----------------------------------------------------------------------------


def test_of_a_site_full_of_traps_exactly_its_pages_are_sent(clock, plain):
    with serving_traps(clock) as site:
        items = list(Site(f"{site.root}/", depth=DEPTH, rate=4).items())
    pages = [item for item in items if isinstance(item, WebPage)]
    assert len(site.sendable) >= 500
    assert sent(site, items) == site.sendable
    assert len(pages) == len(site.sendable)  # none twice
    assert all(page.name == page.url and page.version for page in pages)
    asked = site.asked()
    # Pages and what they turned out to be, robots.txt, four sitemaps; a page that was busy and one
    # that insists on a session were asked for twice.
    shown = reasons(site, items)
    twice = sorted(path for path in set(asked) if asked.count(path) > 1)
    assert twice == ["/busy"]
    assert len(asked) == 570
    assert {urlsplit(path).path for path in asked} >= {"/robots.txt", "/sitemap.xml"}
    assert not [path for path in asked if path.startswith(("/hidden", "/commented", "/scripted"))]
    assert not [path for path in asked if path.startswith("/private/") and "open" not in path]
    for path, named in {
        "/private/secret.html": "robots.txt",
        "/run.cgi": "robots.txt",
        "/far/6": "5",
        "/circle/self": "circle",
        "/circle/b": "circle",
        "/away": "http://other.invalid/",
        "/file": "file:///etc/passwd",
        "/said/header/ours": "indexed",
        "/copy/by-header": "/kept/by-header",
        "/list?sort=price": "/list?sort=date",
        "/missing/3": "404",
        "/data": "application/json",
        "/": "10",
    }.items():
        assert named in shown[path]
    failed = {item.name.removeprefix(site.root) for item in items if getattr(item, "invalid", 0)}
    assert failed == {"/broken", "/maps/none.xml"}
    # They kept the distance that was asked for.
    gaps = [after.at - before.at for before, after in itertools.pairwise(site.requests)]
    assert len(gaps) > 500
    assert min(gaps) >= 0.25 - 1e-9
    busy = [index for index, request in enumerate(site.requests) if request.path == "/busy"]
    assert gaps[busy[0]] >= 7  # its Retry-After


@pytest.mark.slow
def test_a_second_run_over_the_unchanged_site_changes_no_page_and_is_answered_with_304(
    clock, plain
):
    memory = Memory()
    with serving_traps(clock) as site:
        first = versions(memory.of(Site(f"{site.root}/")))
        asked, site.connections = len(site.requests), 0
        items = list(memory.of(Site(f"{site.root}/")))
        assert site.connections < 5
        again = site.requests[asked:]
    assert versions(items) == first
    assert sent(site, items) == site.sendable
    pages = [each for each in again if each.path in site.sendable and each.status < 400]
    # Each page is asked for with its validators first; the rest has none, or a new one each time.
    # Some are read once more: whether what was linked to from there still is, no 304 says.
    firsts = {each.path: each.status for each in reversed(pages)}
    others = {path for path, status in firsts.items() if status == 200}
    assert others == {"/busy"} | {f"/shop/{number}" for number in range(5)}
    assert max(Counter(each.path for each in pages if "/kept/" not in each.path).values()) == 2


@pytest.mark.slow
def test_a_new_footer_changes_no_page_and_a_new_sentence_one(clock, plain):
    with serving_traps(clock) as site:
        before = versions(Site(f"{site.root}/docs/", include="docs/").items())
        site.footer = "Today is Tuesday, and there is a sale."
        assert versions(Site(f"{site.root}/docs/", include="docs/").items()) == before
        page = site.responses["/docs/3/4.html"]
        page.body = page.body.replace(b"What is to be", b"What was to be")
        after = versions(Site(f"{site.root}/docs/", include="docs/").items())
    assert {url for url in after if after[url] != before[url]} == {f"{site.root}/docs/3/4.html"}


@pytest.mark.slow
def test_the_memory_is_bounded_by_the_pages_that_are_read(clock, plain, monkeypatch):
    crawls = []
    run = crawling._Crawl.run
    monkeypatch.setattr(crawling._Crawl, "run", lambda crawl: crawls.append(crawl) or run(crawl))
    most = 0
    with serving_traps(clock, lambda site: None) as site:
        site.makers["/"] = lambda path: Response(
            path.encode()
            + "".join(f"<a href='{path.rstrip('/')}/{n}'>x</a>" for n in range(300)).encode()
        )
        items = []
        for item in Site(f"{site.root}/", pages=50, depth=1000).items():
            items.append(item)
            (crawl,) = crawls
            most = max(most, len(crawl._waiting))
            assert len(crawl._seen) <= 50
    assert len(sent(site, items)) == 50
    assert most < 50
    shown = "the crawl ended early: 50 addresses were read; there are more"
    assert items[-1] == Skipped(f"{site.root}/", shown, partial=True)


# Bounds -------------------------------------------------------------------------------------------


def test_a_site_without_end_ends_by_time_and_by_bytes(small, clock, plain, monkeypatch):
    small.makers["/"] = lambda path: Response(
        b"<p>%d<a href='%s1'>x</a>" % (len(path), path.encode())
    )
    site = Site(f"{small.root}/", depth=10_000, sitemaps=False)
    monkeypatch.setattr(crawling, "_SECONDS", 30)
    *pages, last = site.items()
    assert "30 seconds" in last.reason
    assert last.partial
    assert len(pages) == 60  # two a second
    monkeypatch.setattr(crawling, "_TOTAL_BYTES", 1000)
    *pages, last = site.items()
    assert "bytes" in last.reason
    assert 20 < len(pages) < 60


@pytest.mark.parametrize(
    ("depth", "expected"), [(0, ["/"]), (1, ["/", "/1"]), (2, ["/", "/1", "/2"])]
)
def test_the_depth_counts_links(small, plain, depth, expected):
    small.page("/", "/1")
    small.page("/1", "/2")
    small.page("/2", "/3", "/4.html")
    items = list(Site(f"{small.root}/", depth=depth).items())
    assert sorted(sent(small, items)) == expected
    assert not any(item.partial for item in items if isinstance(item, Skipped))


def test_a_crawl_that_reads_all_there_is_does_not_say_that_there_is_more(small, plain):
    small.page("/", "/1", "/2.zip", "/x" * 1001)
    small.page("/1")
    assert not any(
        item.partial for item in Site(f"{small.root}/", pages=2).items() if not sent(small, [item])
    )
    shown = reasons(small, Site(f"{small.root}/").items())
    assert "/2.zip" in shown
    assert any("2,000" in reason for reason in shown.values())


def test_a_page_of_100_megabytes_is_cut_off_and_named_and_the_rest_is_done(small, plain):
    taken = itertools.count()

    def much():
        for _ in range(1600):
            next(taken)
            yield b"<p>" + b"x" * 65533

    small.page("/", "/huge", "/small")
    small.page("/small")
    small.responses["/huge"] = Response(b"<a href=/in-huge>x</a>", more=much)
    small.page("/in-huge")
    memory = Memory()
    items = list(memory.of(Site(f"{small.root}/")))
    assert f"{small.root}/small" in memory.versions
    assert f"{small.root}/huge" not in memory.versions  # it is read and named again in the next run
    assert sent(small, items) == {"/", "/small", "/in-huge"}
    assert reasons(small, items)["/huge"] == "it is larger than 5,000,000 bytes"
    assert next(taken) < 400  # what was sent into the closed connection's buffers


NAMED = {"Content-Disposition": 'attachment; filename="The plan.PDF"'}


@pytest.mark.parametrize(
    ("kind", "headers", "is_sent"),
    [
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", {}, True),
        ("application/vnd.ms-excel", {}, True),
        ("text/csv", {}, True),
        ("application/octet-stream", NAMED, True),
        ("application/octet-stream", {}, False),
        ("application/json", NAMED, False),
        ("image/png", {}, False),
    ],
)
def test_a_linked_document_is_sent_by_what_it_is(small, plain, kind, headers, is_sent):
    small.page("/", "/get?id=7")
    small.responses["/get?id=7"] = Response(b"The plan", kind=kind, headers=headers)
    assert ("/get?id=7" in sent(small, Site(f"{small.root}/").items())) == is_sent


def test_a_download_without_a_type_is_known_by_its_address(small, plain):
    small.page("/", "/a.docx", "/b.bin", "/c.json")
    for path in ("/a.docx", "/b.bin", "/c.json"):
        small.responses[path] = Response(b"PK", kind="application/octet-stream")
    assert sent(small, Site(f"{small.root}/").items()) == {"/", "/a.docx"}
    assert small.asked().count("/c.json") == 0


@pytest.mark.parametrize(
    ("start", "found"),
    [
        (b"<frameset cols='1,2'><frame src=/menu><frame src=/text></frameset>", ["/menu", "/text"]),
        (b"<meta http-equiv=refresh content='0; url=/text'>", ["/text"]),
        (b"<div id=app></div><noscript>You need JavaScript.</noscript>", []),
    ],
)
def test_a_page_without_text_is_not_sent_and_is_a_fault_where_it_leads_nowhere(
    small, plain, start, found
):
    small.responses["/"] = Response(start)
    small.page("/menu")
    small.page("/text")
    items = list(Site(f"{small.root}/", sitemaps=False).items())
    assert sent(small, items) == set(found)
    (left_out,) = [item for item in items if isinstance(item, Skipped)]
    assert (left_out.invalid, left_out.partial) == (not found, not found)


@pytest.mark.parametrize("script", ["", "<script src=/app.js></script>"])
def test_a_page_that_speaks_of_javascript_is_hollow_only_if_it_has_some(small, plain, script):
    small.responses["/"] = Response(f"<p>You need JavaScript.</p>{script}".encode())
    assert sent(small, Site(f"{small.root}/", sitemaps=False).items()) == ({"/"} - {script and "/"})


def test_a_page_that_is_nested_too_deep_is_named_and_the_rest_is_done(small, plain):
    small.page("/", "/deep", "/folded", "/other")
    small.page("/other")
    small.responses["/deep"] = Response(b"<div>" * 3000 + b"<a href=/in-deep>x</a>")
    small.responses["/folded"] = Response(b"<i>" * 1000 + b"<a href=/in-folded>x</a>")
    small.page("/in-folded")
    items = list(Site(f"{small.root}/").items())
    assert sent(small, items) == {"/", "/other", "/folded", "/in-folded"}
    assert "nested more than 2000 deep" in reasons(small, items)["/deep"]


def test_a_page_that_drips_is_given_up(small, plain, clock):
    def drops():
        for _ in range(100):
            clock.now += 29
            yield b"x" * 10

    small.page("/", "/slow", "/other")
    small.responses["/slow"] = Response(b"", more=drops)
    small.page("/other")
    items = list(Site(f"{small.root}/").items())
    assert sent(small, items) == {"/", "/other"}
    assert "longer than 120 s" in reasons(small, items)["/slow"]


def test_a_site_that_stops_to_answer_is_left_alone(small, plain):
    small.page("/", *[f"/n/{number}" for number in range(100)])
    small.makers["/n/"] = lambda path: Response(b"", 503)
    items = list(Site(f"{small.root}/", sitemaps=False).items())
    assert sent(small, items) == {"/"}
    assert "10 requests in a row had no answer" in items[-1].reason
    assert items[-1].partial
    assert len(small.requests) == 2 + 10 * 3


# robots.txt ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("robots", "allowed", "shown"),
    [
        (Response(b"", 404), True, None),
        (Response(b"", 403), True, None),
        (Response(b"", 503), False, "503; without it nothing may be read"),
        (Response(b"", 500), False, "answered 500, so nothing may be read"),
        (Response(b"", 429), False, "429; without it nothing may be read"),
        (Response(b"<html>Not found</html>"), True, None),
        (Response(b"User-agent: *\nDisallow: /"), False, "robots.txt does not allow it"),
        (Response(b"User-agent: *\nDisallow: /\nUser-agent: knowledge-bot\nAllow: /"), True, None),
        (Response(b"# x\n" * 2_500_000), True, "only its first 512,000 bytes are read"),
    ],
    ids=["404", "403", "503", "500", "429", "a page", "all", "but us", "10 MB"],
)
def test_robots_txt_decides_whether_a_site_is_read(small, plain, robots, allowed, shown):
    small.responses["/robots.txt"] = robots
    small.page("/")
    items = list(Site(f"{small.root}/").items())
    assert sent(small, items) == ({"/"} if allowed else set())
    assert ("/" in small.asked()) is allowed
    assert (
        (shown in " ".join(reasons(small, items).values())) if shown else not reasons(small, items)
    )


@pytest.mark.parametrize(("hops", "obeyed"), [(5, True), (6, False)])
def test_robots_txt_may_be_five_redirects_away(small, plain, hops, obeyed):
    small.redirect("/robots.txt", "/r/1")
    for hop in range(1, hops):
        small.redirect(f"/r/{hop}", f"/r/{hop + 1}")
    small.responses[f"/r/{hops}"] = Response(b"User-agent: *\nDisallow: /x")
    small.page("/", "/x")
    small.page("/x")
    assert sent(small, Site(f"{small.root}/").items()) == ({"/"} if obeyed else {"/", "/x"})


@pytest.mark.parametrize(("asked", "kept"), [(5, 5), (0.1, 0.5), (3600, 30)])
def test_a_crawl_delay_is_kept_up_to_half_a_minute(small, plain, asked, kept):
    small.responses["/robots.txt"] = Response(f"User-agent: *\nCrawl-delay: {asked}".encode())
    small.page("/", "/1", "/2")
    list(Site(f"{small.root}/").items())
    gaps = [after.at - before.at for before, after in itertools.pairwise(small.requests)]
    assert gaps[1:] == [pytest.approx(kept)] * 3


# Where a site is ----------------------------------------------------------------------------------


@pytest.fixture
def names(monkeypatch):
    """Host names, and the addresses that they resolve to from one time to the next."""
    known: dict[str, list[str]] = {}
    resolve = socket.getaddrinfo

    def resolved(host, port, *args, **options):
        if host not in known:
            return resolve(host, port, *args, **options)
        addresses = known[host]
        address = addresses.pop(0) if len(addresses) > 1 else addresses[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    return known


def test_a_start_that_redirects_to_another_host_is_no_site(plain):
    with serving() as old, serving() as new:
        old.answers["/robots.txt"] = answer(b"", status="404 No")
        old.answers["/"] = redirect(new.url("/home"))
        (told,) = Site(old.url()).items()
        assert (told.invalid, told.partial, told.gone) == (True, True, "unread")
        assert new.requests == []


@pytest.mark.parametrize(("one", "other"), [("", "www."), ("www.", "")], ids=["to www", "from www"])
def test_a_start_that_redirects_to_its_name_with_or_without_www_names_the_site(
    web, names, plain, one, other
):
    names["library.example"] = names["www.library.example"] = ["127.0.0.1"]
    web.answers["/robots.txt"] = answer(b"", status="404 No")
    web.answers["/"] = redirect(web.url("/home", f"{other}library.example"))
    web.answers["/home"] = answer(b"<p>The library opens at nine.<a href=/a>x</a>")
    start = web.url("/", f"{one}library.example")
    site = Site(start, sitemaps=False, headers={"Authorization": "secret-1"})
    items = list(site.items())
    assert sorted(versions(items)) == [
        web.url(p, f"{other}library.example") for p in ("/a", "/home")
    ]
    assert ["secret-1" in request for request in web.requests] == [True, True, False, False, False]
    assert not any(item.headers for item in items if isinstance(item, WebPage))


def test_headers_are_for_their_own_host_only(plain):
    with serving() as own, serving() as other:
        own.answers["/robots.txt"] = redirect(other.url("/robots.txt"))
        own.answers["/sitemap.xml"] = answer(b"", status="404 No")
        site = Site(own.url(), headers={"X-Key": "secret-1"})
        (page,) = site.items()
        assert "secret-1" not in repr(site) + repr(page)
        assert page.headers[0][1].get_secret_value() == "secret-1"
        assert all("x-key: secret-1" in request.lower() for request in own.requests)
        assert not any("secret-1" in request for request in other.requests)


def test_a_public_start_leads_to_no_private_address(web, names, plain, monkeypatch):
    connected = []
    connect = socket.create_connection

    def connecting(address, *args, **options):
        connected.append(address[0])
        return connect(("127.0.0.1", address[1]), *args, **options)

    monkeypatch.setattr(socket, "create_connection", connecting)
    names["public.example"] = ["93.184.216.34"]
    names["inside.example"] = ["10.0.0.1"]
    web.answers["/robots.txt"] = redirect(web.url("/robots.txt", "inside.example"))
    start = web.url("/", "public.example")
    (shown,) = Site(start).items()
    assert "inside.example is at 10.0.0.1, which is not a public address" in shown.reason
    assert connected == ["93.184.216.34"]
    assert len(web.requests) == 1
    web.answers["/robots.txt"] = answer(b"", status="404 No")
    web.answers["/"] = answer(b"<p>x<a href=/meta>x</a>")
    web.answers["/meta"] = redirect("http://169.254.169.254/latest/meta-data")
    items = list(Site(start, sitemaps=False).items())
    assert [item.gone for item in items if isinstance(item, Skipped)] == ["excluded"]
    assert "169.254.169.254" not in connected
    # The name of a public host that comes to mean another one, as an attack does.
    names["public.example"] = ["93.184.216.34", "127.0.0.1"]
    web.answers["/"] = answer(b"<p>x")
    (shown,) = Site(start).items()
    assert "public.example is at 127.0.0.1, which is not a public address" in shown.reason


def test_a_private_start_or_permission_leads_there(web, names, plain):
    web.answers["/robots.txt"] = answer(b"", status="404 No")
    web.answers["/sitemap.xml"] = answer(b"", status="404 No")
    names["public.example"] = ["93.184.216.34", "127.0.0.1"]
    assert len(list(Site(web.url("/", "public.example"), allow_private=True).items())) == 1
    assert len(list(Site(web.url("/", "localhost")).items())) == 1


def test_a_certificate_that_fails_is_named_without_a_second_try(plain, clock):
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with serving(context) as server:
        (shown,) = Site(f"https://127.0.0.1:{server.port}/").items()
    assert clock.slept == []
    assert shown.invalid
    assert shown.partial


def test_a_proxy_of_the_environment_is_used_and_leads_to_no_private_address(
    web, plain, monkeypatch
):
    """The proxy knows names that are not known here, as in many companies."""
    monkeypatch.setenv("HTTP_PROXY", web.url())
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    start = "http://beyond.invalid/"
    web.answers[f"{start}robots.txt"] = answer(b"", status="404 No")
    web.answers[f"{start}sitemap.xml"] = redirect("http://10.0.0.1/sitemap.xml")
    web.answers[start] = answer(b"<p>x")
    (page,) = Site(start).items()
    assert page.url == start
    assert not any("10.0.0.1" in request.partition("\r\n")[0] for request in web.requests)


def test_a_server_that_is_not_there_is_reported(clock):
    (shown,) = Site(f"http://127.0.0.1:{free_port()}/").items()
    assert shown.partial
    assert clock.slept[0] >= 2  # it was tried again


# Options ------------------------------------------------------------------------------------------


def test_include_and_exclude_say_what_is_read_and_sent(small, plain):
    small.page("/", "/docs/a.html", "/docs/b.html?v=1", "/docs/old/c.html", "/blog/d.html")
    for path in ("/docs/a.html", "/docs/b.html?v=1", "/docs/old/c.html", "/blog/d.html"):
        small.page(path)
    site = Site(f"{small.root}/", include="docs/", exclude=["old/", "*.html?v=*"])
    assert sent(small, site.items()) == {"/docs/a.html"}
    assert "/blog/d.html" not in small.asked()
    assert "/docs/old/c.html" not in small.asked()
    assert site.name == f"{small.root}/ [docs/]"
    assert Site(f"{small.root}#x").name == f"{small.root}/"


TRAVEL = "<main><h1>Travel</h1><p>" + "Expenses are refunded within a month. " * 20 + "</main>"


@pytest.mark.parametrize("validators", [True, False])
def test_an_extractor_that_is_installed_later_changes_no_page(small, monkeypatch, validators):
    pytest.importorskip("trafilatura")
    memory = Memory()
    small.responses["/"] = Response(TRAVEL.encode(), validators=validators)
    with monkeypatch.context() as without:
        without.setattr(html, "_has_trafilatura", lambda: False)
        (first,) = memory.of(Site(f"{small.root}/"))
    (second,) = memory.of(Site(f"{small.root}/"))
    assert first.digest == second.digest
    small.responses["/"] = Response(TRAVEL.replace("month", "week").encode())
    (changed,) = memory.of(Site(f"{small.root}/"))
    assert changed.digest != first.digest
    (elsewhere,) = Site(f"{small.root}/").items()
    readers = [Known.of(each.version).reader for each in (changed, elsewhere)]
    assert readers == ["plain", "trafilatura"]


def test_an_extractor_that_is_gone_is_missed_and_no_page_counts_as_changed(small, monkeypatch):
    pytest.importorskip("trafilatura")
    memory = Memory()
    small.responses["/"] = Response(TRAVEL.encode())
    (first,) = memory.of(Site(f"{small.root}/"))
    assert Known.of(first.version).reader == "trafilatura"
    monkeypatch.setattr(html, "_has_trafilatura", lambda: False)
    (shown,) = memory.of(Site(f"{small.root}/"))
    assert (shown.invalid, shown.partial) == (True, True)
    assert shown.reason.startswith(
        "it was compared with trafilatura before, which is not installed"
    )


def test_what_a_304_says_of_robots_counts(small, plain):
    memory = Memory()
    small.page("/", "/a")
    small.page("/a")
    assert len(versions(memory.of(Site(f"{small.root}/")))) == 2
    small.responses["/"].headers["X-Robots-Tag"] = "none"
    assert versions(memory.of(Site(f"{small.root}/"))) == {}


# What a page is -----------------------------------------------------------------------------------


def test_a_page_keeps_its_place_before_its_copies_whatever_links_come_first(small, plain):
    memory = Memory()
    small.page("/", "/a", "/b")
    small.page("/a", like="/a")
    small.page("/b", like="/a")
    site = Site(f"{small.root}/")
    assert sent(small, memory.of(site)) == {"/", "/a"}
    small.page("/", "/b", "/a", like="/other")
    assert sent(small, memory.of(site)) == {"/", "/a"}
    del small.responses["/a"]
    assert sent(small, memory.of(site)) == {"/", "/b"}
    small.page("/a", like="/a")
    small.page("/b", like="/b")
    assert sent(small, memory.of(site)) == {"/", "/a", "/b"}


def test_two_pages_that_each_call_the_other_one_canonical_are_one(small, plain):
    for path, other in (("/a", "/b"), ("/b", "/a")):
        small.page(path, like="/a", head=f"<link rel=canonical href={other}>")
    small.page("/", "/a", "/b")
    assert len(sent(small, Site(f"{small.root}/").items())) == 2


def test_a_chain_of_copies_ends_and_what_a_copy_links_to_is_found(small, plain):
    small.makers["/month/"] = lambda path: Response(
        b"<main>No events.</main><a href=%d>next</a>" % (int(path.rpartition("/")[2]) + 1)
    )
    small.page("/", "/month/1", "/moved/1", "/moved/2")
    for number in (1, 2):
        refresh = f"<meta http-equiv=refresh content='0; url=/there/{number}'>Redirecting"
        small.responses[f"/moved/{number}"] = Response(refresh.encode())
        small.page(f"/there/{number}")
    items = list(Site(f"{small.root}/", depth=1000).items())
    assert sent(small, items) == {"/", "/month/1", "/moved/1", "/there/1", "/there/2"}
    months = [path for path in small.asked() if path.startswith("/month/")]
    assert months == [f"/month/{number}" for number in range(1, 6)]  # of three copies, the links


def test_an_expression_says_what_does_not_count(small, plain):
    words = itertools.cycle(["an egg", "a bird", "rain"])
    small.makers["/"] = lambda path: Response(f"<p>Open at six.<p>Today: {next(words)}.".encode())
    pages = Site(f"{small.root}/", ignore="Today: .*", sitemaps=False)
    assert versions(pages.items()) == versions(pages.items())
    pages = Site(f"{small.root}/", sitemaps=False)
    assert versions(pages.items()) != versions(pages.items())


def test_a_page_that_seems_changed_is_read_twice_and_an_advert_is_no_change_from_then_on(
    small, plain
):
    ticks, memory = itertools.count(), Memory()
    small.makers["/"] = lambda path: Response(f"<p>Open at six.<p>Word{next(ticks) * 'x'}".encode())
    site, asked, seen = Site(f"{small.root}/", sitemaps=False), [], []
    for _ in range(4):
        seen.append(versions(memory.of(site)))
        asked.append(len(small.requests))
    assert seen[0] != seen[1] == seen[2] == seen[3]
    # robots.txt and the page, which is read twice in the night in which it seems changed.
    assert [after - before for before, after in itertools.pairwise(asked)] == [3, 2, 2]


def test_a_page_of_the_day_is_sent_each_day(small, plain):
    dishes, memory = iter(("lentil soup", "trout", "pea curry", "plum cake")), Memory()
    seen = []
    for dish in dishes:
        small.page("/", text=f"The dish of the day is {dish}.", like="/")
        seen.append(str(versions(memory.of(Site(f"{small.root}/", sitemaps=False)))))
    assert len(set(seen)) == 4


# What a server says without sending the page ------------------------------------------------------


@pytest.fixture
def day(monkeypatch):
    """Moves the clock on by so many days."""
    now = [1_800_000_000.0]
    for module in (reading, crawling):
        monkeypatch.setattr(module.time, "time", lambda: now[0])

    def moved(days=1.0):
        now[0] += days * 86_400

    return moved


def test_a_server_that_calls_a_new_page_unchanged_is_believed_for_a_week_and_never_again(
    small, plain, day, caplog
):
    memory, site = Memory(), Site(f"{small.root}/", sitemaps=False)
    small.responses["/"] = Response(b"<p>Open at six.", tag='"template"')
    seen = [versions(memory.of(site))]
    for text in (b"<p>Open at seven.", b"<p>Open at eight."):
        small.responses["/"].body = text
        for _ in range(8):
            day()
            seen.append(versions(memory.of(site)))
    assert seen[0] == seen[1] != seen[8] != seen[9]
    assert "and it is not" in caplog.text
    small.responses["/"] = Response(b"<p>Open at nine.", tag='"template"')
    everything = Site(f"{small.root}/", sitemaps=False, reread=True)
    assert versions(memory.of(everything)) != seen[-1]


def test_what_a_quiet_page_links_to_is_found_as_long_as_it_is_there(small, plain, day):
    memory, site = Memory(), Site(f"{small.root}/", sitemaps=False)
    small.page("/", "/list")
    small.page("/list", "/a", "/moved")
    small.page("/a")
    small.redirect("/moved", "/b")
    small.page("/b")
    every = {"/", "/list", "/a", "/b"}
    for _ in range(3):
        assert sent(small, memory.of(site)) == every
        day()
    del small.responses["/b"]
    small.responses["/list"].status = 503
    with no_waiting():
        found = memory.of(site)
    assert sent(small, found) == {"/", "/a"}  # what it linked to is looked for all the same
    assert {item.name.removeprefix(small.root): item.gone for item in found if item.name[-1] in "tb"
    } == {"/list": "unread", "/b": "404"}  # fmt: skip
    small.responses["/list"].status = 200
    small.page("/list", "/a", "/new")
    small.page("/new")
    assert sent(small, memory.of(site)) == {"/", "/list", "/a", "/new"}


def test_a_page_that_failed_and_is_not_known_is_looked_for_in_the_next_run(small, plain, day):
    memory, site = Memory(), Site(f"{small.root}/", sitemaps=False)
    small.page("/", "/new")
    small.responses["/new"] = Response(b"", 500)
    assert sent(small, memory.of(site)) == {"/"}
    small.page("/new")
    day()
    assert sent(small, memory.of(site)) == {"/", "/new"}


def test_a_page_that_always_changes_is_named(small, plain, caplog):
    memory, words = Memory(), itertools.count()
    small.page("/", "/a")
    for _ in range(6):
        small.page("/a", text=" ".join(f"Word {next(words) * 'x'}" for _ in range(2)), like="/a")
        body = small.responses["/a"].body
        extra = "".join(f"<p>{n * 'y'}</p>" for n in range(next(words)))
        small.responses["/a"].body = body.replace(b"<ul>", extra.encode())
        list(memory.of(Site(f"{small.root}/")))
    (shown,) = (each for each in caplog.messages if "changed in each" in each)
    assert f"{small.root}/a;" in shown


@pytest.mark.parametrize(
    "options",
    [
        *({"url": one} for one in ("ftp://h.example/", "h.example")),
        *({"pages": one} for one in (0, True)),
        *({"rate": one} for one in (0, float("nan"))),
        *({"ignore": "("}, {"reread": 1}, {"depth": -1}),
        *({"headers": {"a b": "c"}}, {"include": 5}, {"exclude": [5]}),
        *({"allow_private": "no"}, {"sitemaps": 0}),
    ],
    ids=str,
)
def test_an_option_that_cannot_be_used_is_named_at_once(options):
    with refused(*options):
        Site(**{"url": "https://h.example/"} | options)


def test_nothing_is_asked_before_the_first_page_is_wanted_and_each_time_anew(small, plain):
    small.page("/")
    site = Site(f"{small.root}/")
    assert small.requests == []
    assert versions(site.items()) == versions(site.items())
