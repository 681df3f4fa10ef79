"""A web site of 500 pages over a real socket, with everything that crawlers fall into.

`TrapSite.sendable` is built page by page beside the site itself, from what each page is; it holds
the paths of the pages that a crawl with manners sends, and nothing else does.
"""

import gzip
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, urlsplit

DEPTH = 10

# Ten encodings, the way each is told, and words in it.
ENCODINGS = (
    ("utf-8", "header", "Größe"),
    ("utf-8-sig", "mark", "Übersicht"),
    ("utf-16", "mark", "日本語"),
    ("iso-8859-1", "header", "très élevé"),
    ("windows-1252", "nothing", "naïve"),
    ("iso-8859-2", "meta", "źródło"),
    ("windows-1251", "http-equiv", "страница"),
    ("koi8-r", "header", "указатель"),
    ("shift_jis", "meta", "目次"),
    ("gb2312", "header", "目录"),
)

ROBOTS = """\
User-agent: *
Disallow: /private/
Disallow: /*?print=
Disallow: /*.cgi$
Allow: /private/open.html

User-agent: other-bot
Disallow: /

Sitemap: {root}/maps/index.xml
"""


@dataclass
class Response:
    body: bytes = b""
    status: int = 200
    kind: str = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    validators: bool = True
    tag: str = ""  # the ETag; by default one that changes with the body
    # What is sent after the body, piece by piece, without a length given.
    more: Callable[[], Iterator[bytes]] | None = None


@dataclass
class Request:
    """A request as it arrived, and its answer."""

    path: str
    agent: str
    at: float
    status: int = 0
    kind: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class TrapSite:
    """The pages, what was asked for, and what should be found."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.clock = clock
        self.requests: list[Request] = []
        self.connections = 0
        self.sendable: set[str] = set()
        self.read: set[str] = set()  # those that are read, and not sent
        self.responses: dict[str, Response] = {}
        self.makers: dict[str, Callable[[str], Response]] = {}
        self.root = ""
        self.footer = "Today is Monday."
        self._sessions = itertools.count(10**15)
        self._busy = itertools.count()

    def page(
        self,
        path: str,
        *links: str,
        sent: bool = True,
        read: bool = True,
        head: str = "",
        text: str = "",
        like: str = "",
        **options: object,
    ) -> str:
        """Add a page, with the text of the page `like` if it is given, and return its path."""
        self.responses[path] = Response(_html(like or path, links, head, text), **options)
        if sent:
            self.sendable.add(path)
        elif read:
            self.read.add(path)
        return path

    def redirect(self, path: str, to: str, status: int = 302) -> str:
        self.responses[path] = Response(b"", status, headers={"Location": to})
        return path

    def answer(self, path: str) -> Response:
        if path in self.responses:
            return self.responses[path]
        parts = urlsplit(path)
        for prefix, maker in self.makers.items():
            if parts.path.startswith(prefix):
                return maker(path)
        bare = parts.path.partition(";")[0]
        return self.responses.get(bare, Response(b"Nothing here", 404))

    def session(self) -> str:
        return f"{next(self._sessions):032x}"

    def asked(self, agent: str = "knowledge-bot") -> list[str]:
        """Return what a crawler asked for, in the order of arrival."""
        return [each.path for each in self.requests if each.agent.startswith(agent)]


def _html(path: str, links: tuple[str, ...], head: str = "", text: str = "") -> bytes:
    anchors = "\n".join(
        link if link.startswith("<") else f'<li><a href="{link}">to {link}</a>' for link in links
    )
    return (
        f"<!doctype html><html><head><title>{path}</title>{head}</head><body>"
        f"<header><a href=/>home</a></header><main><h1>About {path}</h1>"
        f"<p>{text or 'What is to be said of ' + path}.<ul>{anchors}</ul></main>"
        "<footer>FOOTER</footer></body></html>"
    ).encode()


def fill(site: TrapSite) -> None:  # noqa: C901, PLR0915 - one trap after the other
    """Add the pages: 20 sections of 20 pages that all is well with, and then the traps."""
    seeds = []
    sections = [f"/docs/{number}/" for number in range(20)]
    for number, section in enumerate(sections):
        names = [f"{section}{page}.html" for page in range(20)]
        site.page(section, *names, "../", f"?utm_source=x{number}")
        for page, path in enumerate(names):
            site.page(
                path,
                f"{(page + 1) % 20}.html#top",
                f"../{number}/./{(page + 7) % 20}.html?utm_campaign=a&gclid=b",
                f"/docs/%37/../{(number + 1) % 20}/",
                "mailto:someone@h.example",
                "javascript:void(0)",
                "http://other.invalid/page",
                "//other.invalid/",
                "http://[half",
                "tel:+1",
            )
    site.page("/docs/", *sections)
    seeds.append("/docs/")

    # Loops, and what never ends: the depth ends it.
    seeds.append(site.page("/loop/a", "/loop/b", "/loop/a"))
    site.page("/loop/b", "/loop/a", "b")
    seeds.append("/grow/")
    site.makers["/grow/"] = lambda path: Response(_html(path, ("x/",)))
    site.sendable |= {"/grow/" + "x/" * times for times in range(DEPTH)}
    seeds.append("/calendar?month=0")
    site.makers["/calendar"] = _month
    site.sendable |= {f"/calendar?month={month}" for month in range(-DEPTH + 1, DEPTH)}

    # Sessions: a new one in every link of every page.
    seeds.append("/shop/0")
    site.makers["/shop/"] = lambda path: _shop(site, path)
    site.sendable |= {f"/shop/{number}" for number in range(5)}
    # A page that insists on a session in its address.
    seeds.append("/desk")
    site.responses["/desk"] = Response(b"", 302, headers={"Location": "/desk;jsessionid=A1"})
    site.responses["/desk;jsessionid=A1"] = Response(_html("/desk", ()))
    site.sendable.add("/desk")

    # Redirects.
    for number in range(1, 5):
        site.redirect(f"/moved/{number}", f"/moved/{number + 1}", 301 + number % 2)
    seeds.append("/moved/1")
    site.redirect("/moved/5", "/moved/here")
    site.page("/moved/here", "/moved/from-here")
    site.page("/moved/from-here")
    for number in range(1, 9):
        site.redirect(f"/far/{number}", f"/far/{number + 1}")
    site.page("/far/9", sent=False, read=False)
    seeds.append("/far/1")
    site.redirect("/circle/a", "/circle/b", 307)
    site.redirect("/circle/b", "/circle/a", 308)
    site.redirect("/circle/self", "/circle/self")
    seeds += ["/circle/a", "/circle/self"]
    site.redirect("/away", "http://other.invalid/")
    site.redirect("/file", "file:///etc/passwd")
    site.redirect("/to-private", "/private/secret.html")
    seeds += ["/away", "/file", "/to-private"]

    # What robots.txt says.
    site.page("/private/secret.html", "/private/more.html", sent=False, read=False)
    seeds += ["/private/secret.html", "/docs/?print=1", "/run.cgi", "/private/open.html"]
    site.page("/private/open.html")

    # What pages say.
    robots = '<meta name="{}" content="{}">'
    seeds.append(
        site.page("/said/noindex", "/said/a", sent=False, head=robots.format("robots", "NOINDEX"))
    )
    site.page("/said/a")
    seeds.append(site.page("/said/nofollow", "/hidden/1", head=robots.format("robots", "nofollow")))
    seeds.append(
        site.page("/said/none", "/hidden/2", sent=False, head=robots.format("ROBOTS", "none"))
    )
    ours = robots.format("Knowledge-Bot", "noindex, nofollow")
    seeds.append(site.page("/said/ours", "/hidden/3", sent=False, head=ours))
    theirs = robots.format("other-bot", "noindex, nofollow")
    seeds.append(site.page("/said/theirs", "/said/b", head=theirs))
    site.page("/said/b")
    for name, tag, sent, follows in (
        ("all", "noindex", False, True),
        ("ours", "other-bot: all, knowledge-bot: noindex, nofollow", False, False),
        ("theirs", "other-bot: noindex, nofollow", True, True),
        ("later", "unavailable_after: 25 Jun 2030 15:00:00 PST, nofollow", True, False),
    ):
        link = f"/said/header/{name}/on" if follows else f"/hidden/header-{name}"
        path = f"/said/header/{name}"
        seeds.append(site.page(path, link, sent=sent, headers={"X-Robots-Tag": tag}))
        site.page(link, sent=follows, read=False)
    seeds.append(
        '<a href="/hidden/4" rel="external NoFollow">a link that is not to be followed</a>'
    )
    for number in range(1, 5):
        site.page(f"/hidden/{number}", sent=False, read=False)

    # Addresses that pages give themselves.
    for number in range(3):
        canonical = f'<link href="/kept/{number}#x" rel="canonical">'
        copied = f"/kept/{number}"
        seeds.append(site.page(f"/copy/{number}", sent=False, head=canonical, like=copied))
        site.page(f"/kept/{number}", head=f'<link rel=canonical href="/kept/{number}?utm_id=1">')
    by_header = {"Link": '</style.css>; rel=preload, </kept/by-header>; rel="canonical"'}
    seeds.append(
        site.page("/copy/by-header", sent=False, headers=by_header, like="/kept/by-header")
    )
    site.page("/kept/by-header")
    seeds.append(
        site.page("/kept/abroad", head='<link rel=canonical href="http://other.invalid/">')
    )
    for number, wrong in enumerate(("/no-such-page", "/")):  # as a template may have it
        head = f'<link rel=canonical href="{wrong}">'
        seeds.append(site.page(f"/kept/wrong/{number}", f"/kept/wrong/{number}/on", head=head))
        site.page(f"/kept/wrong/{number}/on")
    # One text at many addresses.
    for order in ("date", "name", "price"):
        seeds.append(site.page(f"/list?sort={order}", sent=order == "date", like="/list"))
    for number in range(4):
        seeds.append(site.page(f"/soft/{number}", sent=not number, text="Sorry", like="/soft"))
    seeds.append(site.page("/based/index.html", "one", "two", head='<base href="/elsewhere/x">'))
    site.page("/elsewhere/one")
    site.page("/elsewhere/two")
    seeds.append('<map><area href="/mapped" alt=""></map>')
    site.page("/mapped")
    refresh = '<meta http-equiv="Refresh" content="0; URL=/refreshed">'
    seeds.append(site.page("/refreshing", head=refresh))
    site.page("/refreshed")
    seeds.append("<!-- <a href=/commented>no link</a> --><script>'<a href=/scripted>'</script>")

    # Encodings, each with a link that only who decodes it finds.
    for name, told, words in ENCODINGS:
        link = f"/words/{words}"
        path = f"/encodings/{name}"
        head = {"meta": f"<meta charset={name}>", "http-equiv": _equivalent(name)}.get(told, "")
        kind = f"text/html; charset={name}" if told == "header" else "text/html"
        text = _html(path, (link,), head, words).decode()
        site.responses[path] = Response(text.encode(name), kind=kind)
        site.sendable.add(path)
        seeds.append(path)
        site.page(quote(link))

    # What is not there, or is no page.
    seeds += [f"/missing/{number}" for number in range(5)]
    site.responses["/gone"] = Response(b"", 410)
    site.responses["/members"] = Response(b"Who are you?", 403)
    site.responses["/data"] = Response(b"{}", kind="application/json")
    site.responses["/manual.pdf"] = Response(b"%PDF", kind="application/pdf")
    site.sendable.add("/manual.pdf")
    site.responses["/text"] = Response(b"plain", kind="text/plain")
    site.sendable.add("/text")
    seeds += ["/gone", "/members", "/data", "/manual.pdf", "/text"]
    site.makers["/busy"] = lambda path: _busy(site)
    site.sendable.add("/busy")
    seeds.append("/busy")
    site.responses["/broken"] = Response(b"Oh", 500)
    seeds.append("/broken")

    # Pages that only the sitemaps name.
    orphans = [site.page(f"/orphan/{number}") for number in range(12)]
    maps = _loc("/maps/pages.xml.gz", "sitemap") + _loc("/maps/none.xml", "sitemap")
    index = f"<sitemapindex>{maps}</sitemapindex>"
    pages = "".join(_loc(path, "url", "2026-01-02") for path in ["/", *orphans])
    away = _loc("http://other.invalid/x", "url")
    site.responses["/maps/index.xml"] = Response(index.encode(), kind="text/xml")
    site.responses["/maps/pages.xml.gz"] = Response(
        gzip.compress(f"<urlset>{pages}{away}</urlset>".encode()), kind="application/gzip"
    )
    site.page("/", *seeds)


def _loc(path: str, kind: str, modified: str = "") -> str:
    changed = f"<lastmod>{modified}</lastmod>" if modified else ""
    return f"<{kind}><loc>{path}</loc>{changed}</{kind}>"


def _equivalent(name: str) -> str:
    return f'<meta http-equiv="Content-Type" content="text/html; charset={name}">'


def _month(path: str) -> Response:
    month = int(path.partition("month=")[2] or 0)
    return Response(_html(path, (f"?month={month + 1}", f"?month={month - 1}")))


def _shop(site: TrapSite, path: str) -> Response:
    number = int(urlsplit(path).path.partition(";")[0].rpartition("/")[2] or 0)
    session = site.session
    links = tuple(
        f'<li><a href="/shop/{other};jsessionid={session()}'
        f'?PHPSESSID={session()}&amp;sid={session()}">item {other}</a>'
        for other in range(5)
    )
    return Response(_html(f"/shop/{number}", links))


def _busy(site: TrapSite) -> Response:
    if next(site._busy) % 2 == 0:
        return Response(b"", 503, headers={"Retry-After": "7"})
    return Response(_html("/busy", ()), validators=False)


@contextmanager
def serving_traps(  # noqa: C901 - a server, whole
    clock: Callable[[], float] = lambda: 0.0, filling: Callable[[TrapSite], None] = fill
) -> Iterator[TrapSite]:
    site = TrapSite(clock)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one write for head and body

        def setup(self) -> None:
            site.connections += 1
            super().setup()

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            agent = self.headers.get("User-Agent", "")
            asked = Request(self.path, agent, site.clock(), headers=dict(self.headers.items()))
            site.requests.append(asked)
            found = site.answer(self.path)
            body = found.body.replace(b"FOOTER", site.footer.encode())
            status = found.status
            tag = found.tag or f'"{sha256(body).hexdigest()[:16]}"'
            if status == 200 and found.validators and self.headers.get("If-None-Match") == tag:
                status, body = 304, b""
            asked.status, asked.kind = status, found.kind
            self.send_response(status)
            if status != 304:
                self.send_header("Content-Type", found.kind)
                if found.more is None:
                    self.send_header("Content-Length", str(len(body)))
                else:
                    self.send_header("Connection", "close")
            if found.validators and found.status == 200:
                self.send_header("ETag", tag)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                if self.command == "GET":
                    self.wfile.write(body)
                    for piece in found.more() if found.more else ():
                        self.wfile.write(piece)
                self.wfile.flush()
            except OSError:
                self.close_connection = True

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *args: object) -> None:
            pass  # a client that went away

    with Server(("127.0.0.1", 0), Handler) as server:
        site.root = f"http://127.0.0.1:{server.server_port}"
        robots = ROBOTS.format(root=site.root).encode()
        site.responses["/robots.txt"] = Response(robots, kind="text/plain")
        filling(site)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join(5)
