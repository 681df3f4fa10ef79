"""A folder, or another place, that is fed each night, and everything that can go wrong with it."""

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from knowledge_bot.origins import Feed, Folder, JsonLines, Site, Sitemap, Sql, Urls
from knowledge_bot.testing import MemoryService, ReceivedRequest
from trap_site import Response, TrapSite, serving_traps

COLLECTION = "col_1"
HTML = b"<!doctype html><html><body>It works!</body></html>"
PAGES = tuple(f"/{n}" for n in range(6))
SIGN_IN = b"<h1>Members</h1><form action=/login><input name=u><input type=password></form>"
SHELL = (
    b"<html><body><noscript>You need to enable JavaScript to run this app.</noscript>"
    b"<div id=root></div><script src=/a.js></script></body></html>"
)
_TABLE = "create table if not exists article (id text primary key, body text)"


class World:
    """What stands around a nightly run; `kind` is the command that feeds the place.

    It has 30 files, ten of them in `team`; or 12 pages, lines or rows.
    """

    def __init__(self, kind: str, path: Path, service: MemoryService) -> None:
        self.kind, self.path, self.service = kind, path, service
        self.folder, self.more = path / "handbook", list[str]()
        self.site: TrapSite | None = None
        self._closing = ExitStack()
        getattr(self, f"_make_{kind}")()

    def close(self) -> None:
        self._closing.close()

    @property
    def arguments(self) -> list[str]:
        """What the command names."""
        return [*map(str, self._given), *self.more]

    # The places -----------------------------------------------------------------------------------

    def _make_folder(self) -> None:
        for n in range(20):
            self.write(f"{n}.md", f"The text of {n}.")
        for n in range(10):
            self.write(f"team/{n}.md", f"The text of the team's {n}.")
        self._given: tuple[object, ...] = (self.folder,)
        self.origin: Any = Folder(self.folder, name="handbook")

    def _make_jsonl(self) -> None:
        self.lines(*(f'{{"name": "t{n}", "content": "The text of {n}."}}' for n in range(12)))
        self._given, self.origin = (self.list,), JsonLines(str(self.list), name="handbook")

    def _make_sql(self) -> None:
        rows = [(f"r{n}", f"The text of {n}.") for n in range(12)]
        with self.database() as database:
            database.executemany("insert into article values (?, ?)", rows)
        query = "select id, body from article"
        columns = {"key": "id", "text": "body"}
        address = str(self.path / "shop.db")
        self._given = (address, query, "--key", "id", "--text", "body")
        self.origin = Sql(query, database=address, name="handbook", **columns)

    def _make_site(self) -> None:
        site = self._serving()
        site.page("/", *PAGES)
        for name in PAGES:
            site.page(name, "/")
        self._given = (f"{site.root}/", "--requests", 1000)
        self.origin = Site(f"{site.root}/", rate=1000, name="handbook")

    def _make_sitemap(self) -> None:
        site = self._serving()
        site.responses["/map.xml"] = Response(self.map_of(*range(12)), kind="application/xml")
        self._given = (f"{site.root}/map.xml",)
        self.origin = Sitemap(f"{site.root}/map.xml", name="handbook")

    def _make_feed(self) -> None:
        site = self._serving()
        site.responses["/feed.xml"] = Response(self.feed_of(*range(12)), kind="application/xml")
        self._given = (f"{site.root}/feed.xml",)
        self.origin = Feed(f"{site.root}/feed.xml", name="handbook")

    def _make_urls(self) -> None:
        self.lines(*(f"https://library.example/{n}" for n in range(12)))
        self._given, self.origin = (self.list,), Urls(str(self.list), name="handbook")

    def _serving(self) -> TrapSite:
        def empty(site: TrapSite) -> None:
            del site.responses["/robots.txt"]

        self.site = self._closing.enter_context(serving_traps(filling=empty))
        return self.site

    # What happens to them -------------------------------------------------------------------------

    def write(self, name: str, text: str | bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def remove(self, *names: str) -> None:
        for name in names:
            (self.folder / name).unlink()

    def empty(self) -> None:
        shutil.rmtree(self.folder)
        self.folder.mkdir()

    @property
    def list(self) -> Path:
        return self.path / "list"

    def lines(self, *lines: str) -> None:
        self.list.write_text("".join(f"{line}\n" for line in lines))

    @contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        with sqlite3.connect(self.path / "shop.db") as database:
            database.execute(_TABLE)
            yield database
        database.close()

    def map_of(self, *numbers: int) -> bytes:
        pages = "".join(f"<url><loc>https://library.example/{n}</loc></url>" for n in numbers)
        return (
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{pages}</urlset>'.encode()
        )

    def feed_of(self, *numbers: int) -> bytes:
        items = "".join(
            f"<item><title>{n}</title><link>https://library.example/{n}</link></item>"
            for n in numbers
        )
        return f"<rss version='2.0'><channel><title>News</title>{items}</channel></rss>".encode()

    def respond(self, path: str, *given: Any, **how: Any) -> None:
        assert self.site is not None
        self.site.responses[path] = Response(*given, **how)

    @property
    def paths(self) -> tuple[str, ...]:
        """The addresses of the site."""
        assert self.site is not None
        return tuple(self.site.responses)

    def page(self, path: str, *links: str, **how: str) -> None:
        assert self.site is not None
        self.site.page(path, *links, **how)

    def everywhere(self, *given: Any, **how: Any) -> None:
        """Let each address of the site answer with this."""
        assert self.site is not None
        for path in self.paths:
            self.site.responses[path] = Response(*given, **how)

    def unreadable(self, below: str, number: int) -> None:
        """Let a folder be refused by the system with this error."""
        real, broken = os.scandir, os.path.realpath(self.folder / below)

        def scandir(path: Any = ".") -> Any:
            if os.path.realpath(path) == broken:
                raise OSError(number, os.strerror(number), str(path))
            return real(path)

        os.scandir = scandir  # type: ignore[assignment]
        self._closing.callback(setattr, os, "scandir", real)

    def vanish(self, *names: str) -> None:
        """Let files be removed by somebody else while the run is reading the others."""
        real, left = os.stat, {os.path.realpath(self.folder / name) for name in names}

        def status(path: Any, *given: Any, **how: Any) -> Any:
            if path in left:
                left.remove(path)
                os.unlink(path)
            return real(path, *given, **how)

        os.stat = status
        self._closing.callback(setattr, os, "stat", real)

    def delete(self, *names: str) -> None:
        """Delete sources in the service, as a person does on its page; all without names."""
        ids = [one["id"] for one in self.service.sources if not names or one["name"] in names]
        self.service._sources.drop(ids)

    def restored(self) -> None:
        """Let the service take a change, and have last week's data from then on."""

        looks = []

        def is_end(request: ReceivedRequest) -> bool:
            if (request.method, request.path) == ("GET", "/sync"):
                looks.append(request)
            if len(looks) == 2:
                ((_, origin),) = self.service._origins._origins.items()
                entry = origin.entries["3.md"]
                entry.digest, entry.version = before
            return False

        if self.service.extensions:
            ((_, origin),) = self.service._origins._origins.items()
            before = origin.entries["3.md"].digest, origin.entries["3.md"].version
            self.service.fail_next(where=is_end, times=None)

    def meanwhile(self, acts: Callable[[], object], *, after: int) -> None:
        """Let something happen to the service once it has got so many writes."""
        left = [after]

        def chosen(request: ReceivedRequest) -> bool:
            left[0] -= is_write(request)  # not touches: time decides on them
            if left[0] == 0:
                left[0] = -1
                acts()
            return False

        self.service.fail_next(where=chosen, times=None)


def is_write(request: ReceivedRequest) -> bool:
    return request.method in ("PUT", "POST") and not request.path.endswith(
        ("complete", "touch", "overlap")
    )


def is_touch(request: ReceivedRequest) -> bool:
    return request.path.endswith("touch")


def gives(*numbers: int) -> Callable[[World], object]:
    return lambda world: world.lines(
        *(f'{{"name": "t{n}", "content": "The text of {n}."}}' for n in numbers)
    )


class Night(NamedTuple):
    """A night, and how it has to end.

    Attributes:
        happens: what happened since the last good night; in brackets, who reported it of another
            program.
        does: lets it happen.
        exit: the exit code: 0 is green, with nothing on stderr.
        sent: how many sources the service created or replaced.
        removed: how many it removed. On the plain interface that is none.
        lost: how many it lost while the run lasted.
        plain: exit code and what is sent, where they are others on the plain interface.
        kind: what is fed.
        more: further arguments of the command, in the good night before as well.
        options: the same for `ingest`.
    """

    happens: str
    does: Callable[[World], object]
    exit: int = 0
    sent: int = 0
    removed: int = 0
    lost: int = 0
    plain: tuple[int, int] | None = None
    kind: str = "folder"
    more: tuple[str, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


def _fail_touches(world: World) -> None:
    os.rename(world.folder / "3.md", world.folder / "three.md")
    world.service.fail_next(400, where=is_touch, times=None)


def _unreadable_document(world: World) -> None:
    world.write("slides.pptx", "No slides")
    world.service.fail_source("slides.pptx", "it is no presentation")


READY = {"more": ("--wait-ready", "1"), "options": {"wait_ready": 1}}

# What ends with exit code 3, and nothing sent: what happened, by the kind of place.
ALIKE: dict[str, dict[str, Callable[[World], object]]] = {
    "folder": {
        "the share is not mounted (nextcloud/server 37934, rclone 1186)": lambda w: w.empty(),
        "a disk showed up without most of it (syncthing 4345, rclone 959)": lambda w: w.remove(
            *(f"{n}.md" for n in range(18))
        ),
        "a folder may not be entered (rsync 515, vectara-ingest 338)": lambda w: w.unreadable(
            "team", errno.EACCES
        ),
        "a disk has an I/O error (nextcloud/server 36256)": lambda w: w.unreadable(
            "team", errno.EIO
        ),
        "an NFS handle is stale": lambda w: w.unreadable("team", errno.ESTALE),
        "the server of a share is down (nextcloud/desktop 10456)": lambda w: w.unreadable(
            "", errno.EHOSTDOWN
        ),
        "links lead in a circle": lambda w: w.unreadable("team", errno.ELOOP),
        "a path is too long by now": lambda w: w.unreadable("team", errno.ENAMETOOLONG),
        "a file is empty by now": lambda w: w.write("3.md", ""),
        "a file has only blanks by now": lambda w: w.write("3.md", " \n\n"),
        "a file is a folder by now, whose file cannot be read": lambda w: (
            w.remove("3.md"),
            w.write("3.md/a", "a"),
            w.unreadable("3.md", errno.EIO),
        ),
        "the disk went away while the run lasted (rclone 325)": lambda w: (
            [w.write(f"{n}.md", f"Another text of {n}.") for n in range(10)],
            w.vanish(*(f"{n}.md" for n in range(10))),
        ),
        "a ping is answered, and nothing else": lambda w: (
            [w.write(f"new/{n}.md", f"New {n}.") for n in range(20)],
            w.service.answer_next(404, HTML, times=None, where=is_write),
        ),
        "another API answers": lambda w: (
            [w.write(f"new/{n}.md", f"New {n}.") for n in range(20)],
            w.service.answer_next(405, b'{"detail": "no"}', times=None, where=is_write),
        ),
        "a file is refused (Backblaze/B2 174)": lambda w: (
            w.write("new.md", "New."),
            w.service.fail_next(400, where=is_write),
        ),
        "a file is too large": lambda w: (
            w.write("new.md", "New."),
            w.service.fail_next(413, where=is_write),
        ),
    },
    "jsonl": {
        "a list is empty (oikb 101)": gives(),
        "most of a list is away": gives(1, 2),
        "a line is cut off": lambda w: w.list.write_text(w.list.read_text()[:-9]),
        "two lines have one key and other contents": lambda w: w.lines(
            *w.list.read_text().splitlines(), '{"name": "t3", "content": "Other."}'
        ),
    },
    "urls": {
        "a list of addresses is empty": lambda w: w.lines(),
        "an address is none": lambda w: w.lines(*w.list.read_text().splitlines(), "not an address"),
    },
    "sitemap": {
        "a sitemap is not found": lambda w: w.everywhere(b"", 404),
        "a sitemap is a page by now": lambda w: w.everywhere(HTML),
        "a sitemap is cut off": lambda w: w.everywhere(
            w.map_of(*range(12))[:-60], kind="application/xml"
        ),
        "a sitemap has nothing (vectara-ingest 86)": lambda w: w.everywhere(
            w.map_of(), kind="application/xml"
        ),
    },
    "feed": {
        "a feed is a page by now": lambda w: w.everywhere(HTML),
    },
    "sql": {
        "a table is away": lambda w: _run(w, "drop table article"),
        "a query finds nothing (rclone 988)": lambda w: _run(w, "delete from article"),
        "a query finds little": lambda w: _run(w, "delete from article where id > 'r2'"),
    },
    "site": {
        "a site is down": lambda w: w.everywhere(b"Down", 503),
        "a site is being maintained": lambda w: w.everywhere(HTML),
        "a site is being maintained, and its pages are not found": lambda w: (
            w.everywhere(b"", 404),
            w.respond("/", HTML),
        ),
        "a site is being maintained, and its pages fail": lambda w: (
            w.everywhere(b"", 503),
            w.respond("/", HTML),
            w.respond("/robots.txt", b"", 404),
        ),
        "a site's start is being maintained": lambda w: w.respond("/", HTML),
        "a site's start leads to another host, to sign in there (sist2 311)": lambda w: w.respond(
            "/", b"", 302, headers={"Location": "http://login.example/"}
        ),
        "a site's start leads to a page that asks for consent": lambda w: (
            w.respond("/", b"", 302, headers={"Location": "/consent?back=%2F"}),
            w.respond(
                "/consent", b"<p>We value your privacy. Accept all cookies?</p><form></form>"
            ),
        ),
        "a site wants everybody to sign in": lambda w: w.everywhere(SIGN_IN),
        "a page of a site wants a login": lambda w: (
            w.respond("/3", b"", 302, headers={"Location": "/login?next=/3"}),
            w.respond("/login", SIGN_IN),
        ),
        "a page of a site wants JavaScript": lambda w: w.respond("/3", SHELL),
        "a page of a site has no text any more": lambda w: w.respond(
            "/3", b"<html><body></body></html>"
        ),
        "a site wants a login (xorbitsai/xagent 2052)": lambda w: w.everywhere(
            b"", 302, headers={"Location": "/login"}
        ),
        "a site wants a cookie": lambda w: w.respond("/", b"", 302, headers={"Location": "/"}),
        "a site refuses robots (xorbitsai/xagent 358)": lambda w: w.everywhere(b"", 403),
        "a site wants JavaScript (mindsdb/mindshub 11373)": lambda w: w.everywhere(SHELL),
    },
}

FAULTS = (
    *(Night(name, does, 3, kind=kind) for kind in ALIKE for name, does in ALIKE[kind].items()),
    # The place ------------------------------------------------------------------------------------
    Night("the folder itself is away (restic 4467)", lambda w: shutil.rmtree(w.folder), 2),
    Night(
        "a folder cannot be read, and a file is new",
        lambda w: (w.unreadable("team", errno.EACCES), w.write("new.md", "It is new.")),
        3,
        sent=1,
    ),
    # The service ----------------------------------------------------------------------------------
    Night(
        "another server answers at the address",
        lambda w: w.service.answer_next(404, HTML, times=None, where=lambda _: True),
        1,
    ),
    Night(
        "a hotel's page answers",
        lambda w: w.service.answer_next(200, HTML, times=None, where=lambda _: True),
        1,
    ),
    Night(
        "the address leads elsewhere",
        lambda w: w.service.answer_next(
            302, b"", {"location": "https://login.example/"}, times=None, where=lambda _: True
        ),
        1,
    ),
    Night(
        "the key is not accepted any more",
        lambda w: (w.write("new.md", "New."), w.service.fail_next(401, times=None)),
        4,
    ),
    Night(
        "the quota is used up",
        lambda w: (w.write("new.md", "New."), w.service.fail_next(402, times=None, where=is_write)),
        4,
    ),
    Night(
        "the service is ill to the end",
        lambda w: (w.write("new.md", "New."), w.service.fail_next(500, times=None, where=is_write)),
        3,
        plain=(8, 0),
    ),
    Night(
        "a document cannot be read by the service (oikb 106, amd/gaia 1079)",
        _unreadable_document,
        3,
        sent=1,
        plain=(0, 1),
        **READY,
    ),
    Night(
        "the service does not get ready (oikb 18)",
        lambda w: (w.service.hold_sources(), w.write("new.md", "New.")),
        3,
        sent=1,
        plain=(0, 1),
        more=("--wait-ready", "0.05"),
        options={"wait_ready": 0.05},
    ),
    Night(
        "the service loses everything while the run lasts",
        lambda w: (
            [w.write(f"new/{n}.md", f"New {n}.") for n in range(20)],
            w.meanwhile(w.delete, after=12),
        ),
        3,
        sent=9,
        lost=30,
        plain=(0, 9),
    ),
    Night(
        "the service loses what it had, while the last file is sent",
        lambda w: (w.write("new.md", "New."), w.meanwhile(w.delete, after=1)),
        3,
        sent=1,
        lost=30,
        plain=(0, 1),
    ),
    Night(
        "the service is restored to last week while the run lasts",
        lambda w: (w.write("3.md", "It changed."), w.restored()),
        3,
        sent=1,
        plain=(0, 1),
    ),
    Night(
        "a rename is refused",
        _fail_touches,
        3,
        plain=(0, 0),
    ),
    # Other places ---------------------------------------------------------------------------------
)


def _run(world: World, statement: str) -> None:
    with world.database() as database:
        database.execute(statement)


TWINS = (
    Night("nothing happened", lambda w: None),
    Night(
        "a list is written in UTF-16, as PowerShell does it",
        lambda w: w.list.write_bytes(w.list.read_text().replace("\n", "\r\n").encode("utf-16")),
        kind="jsonl",
    ),
    Night("a file is new", lambda w: w.write("new.md", "It is new."), sent=1),
    Night("a file changed", lambda w: w.write("3.md", "It changed."), sent=1),
    Night(
        "a file changed, and kept its size and time (vectara-ingest 350)",
        lambda w: _rewritten(w.folder / "3.md"),
        sent=1,
    ),
    Night(
        "a run sends no more than it may",
        lambda w: [w.write(f"new/{n}.md", f"New {n}.") for n in range(3)],
        sent=2,
        more=("--limit", "2"),
        options={"limit": 2},
    ),
    Night("a file was touched", lambda w: os.utime(w.folder / "3.md", (1, 1))),
    Night("a file was renamed", lambda w: os.rename(w.folder / "3.md", w.folder / "three.md")),
    Night("a folder was renamed", lambda w: os.rename(w.folder / "team", w.folder / "club")),
    Night("a file was removed", lambda w: w.remove("3.md"), removed=1),
    Night("a new file is empty", lambda w: w.write("new.md", "")),
    Night("a new file has only blanks", lambda w: w.write("new.md", " \n\t\n")),
    Night("Office has a file open", lambda w: w.write("~$3.docx", "x")),
    Night(
        "a new file has an odd name (nextcloud/server 8386)",
        lambda w: w.write("a\u202ab\tc\n.md", "Odd name."),
        sent=1,
    ),
    Night(
        "a new file is removed while it is listed (rclone 9557, restic 3098, rsync 740)",
        lambda w: (w.write("new.tmp.md", "It is new."), w.vanish("new.tmp.md")),
    ),
    Night(
        "a source was deleted in the service (langchain 39937, oikb 115)",
        lambda w: w.delete("3.md"),
        sent=1,
        plain=(0, 0),
    ),
    Night("the service is a new one", lambda w: w.delete(), sent=30, plain=(0, 0)),
    Night(
        "an answer is lost",
        lambda w: (w.write("new.md", "New."), w.service.lose_next_answer(where=is_write)),
        sent=1,
        plain=(8, 1),
    ),
    Night(
        "the service wants to be asked later",
        lambda w: (
            w.write("new.md", "New."),
            w.service.fail_next(429, retry_after=1, times=4, where=is_write),
        ),
        sent=1,
    ),
    Night(
        "a few rows are away",
        lambda w: _run(w, "delete from article where id = 'r2'"),
        removed=1,
        kind="sql",
    ),
    Night(
        "a page of a site is away",
        lambda w: (
            w.respond("/3", b"", 404),
            w.site.page("/", *(f"/{n}" for n in range(6) if n != 3)),
        ),  # type: ignore[union-attr]
        removed=1,
        sent=1,
        kind="site",
    ),
    Night(
        "all pages of a site changed",
        lambda w: (
            w.page("/", *PAGES, text="It is new."),
            [w.page(page, "/", text="New, too.") for page in PAGES],
        ),
        sent=7,
        kind="site",
    ),
    Night(
        "a site's start leads to one language of it",
        lambda w: (
            w.page("/en/", *PAGES, text="In English."),
            w.respond("/", b"", 302, headers={"Location": "/en/"}),
        ),
        sent=1,
        removed=1,
        kind="site",
    ),
    Night(
        "a site has a page to sign in at",
        lambda w: (w.page("/", *PAGES, "/login"), w.respond("/login", SIGN_IN)),
        sent=2,
        kind="site",
    ),
    Night(
        "a feed has a new entry, and its oldest no more",
        lambda w: w.everywhere(w.feed_of(*range(1, 13)), kind="application/xml"),
        sent=1,
        kind="feed",
    ),
    Night(
        "a sitemap has a page less",
        lambda w: w.everywhere(w.map_of(*range(11)), kind="application/xml"),
        removed=1,
        kind="sitemap",
    ),
)


def _rewritten(path: Path) -> None:
    status = path.stat()
    path.write_text(path.read_text().replace("text", "next"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
