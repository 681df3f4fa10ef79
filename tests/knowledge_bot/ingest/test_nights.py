"""What a night ends with: green, or red for something that a person has not been told of.

Each row is a fault, or its twin that must be green, on `kbot ingest … --quiet` as cron runs it.
"""

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from click.testing import CliRunner

from calls import KEY
from in_process import OnAPort
from knowledge_bot import Client
from knowledge_bot.cli import main
from knowledge_bot.ingest import Report, Stop, ingest
from knowledge_bot.origins import Folder
from knowledge_bot.testing import MemoryService, no_waiting
from nights import COLLECTION, FAULTS, TWINS, Night, World

pytestmark = pytest.mark.timeout(60)


class Nightly:
    """One place, fed night after night by the command."""

    def __init__(self, world: World, arguments: tuple[str, ...] = ()) -> None:
        self.world, self._arguments = world, arguments

    def run(self, *more: str):
        """Return the exit code, what stands on stderr, and the summary."""
        place = self.world.path
        given = ["ingest", self.world.kind, *self.world.arguments, *self._arguments, *more]
        ways = ["--origin", "handbook", "--collection", COLLECTION, "--ledger", place / "ledger.db"]
        environment = {
            "KNOWLEDGE_BOT_BASE_URL": "https://service.test",
            "KNOWLEDGE_BOT_API_KEY": KEY,
            "KBOT_CONFIG": str(place / "config.toml"),
        }
        with self.world.service.standing_in(), no_waiting():
            done = CliRunner().invoke(
                main, [*given, *map(str, ways), "--quiet", "--json"], env=environment
            )
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        summary = next((one for one in lines if one["event"] == "summary"), {"ok": False})
        return done.exit_code, done.stderr, summary


def marks(keeper: str, night: Night):
    """What is read of a site is the same for both, and takes its time."""
    return pytest.mark.slow if (keeper, night.kind) == ("plain", "site") else ()


EVERY = [
    pytest.param(keeper, night, marks=marks(keeper, night), id=f"{night.happens}, {keeper}")
    for keeper in ("sync", "plain")
    for night in (*FAULTS, *TWINS)
]


def there(service: MemoryService) -> dict[str, object]:
    """What the service has: its sources, with their revisions."""
    return {one["id"]: one.get("revision") for one in service.sources}


@pytest.mark.parametrize(("keeper", "night"), EVERY)
def test_a_night_is_green_where_all_is_known_to_be_there(tmp_path, keeper, night: Night):
    plain = keeper == "plain"
    extensions = () if plain else ("sync", "sources")
    service = MemoryService(collections=[COLLECTION], extensions=extensions)
    with closing(World(night.kind, tmp_path, service)) as world:
        nightly = Nightly(world, night.more)
        code, stderr, summary = nightly.run()
        assert (code, stderr, summary["ok"]) == (0, "", True)
        night.does(world)
        before = there(service)
        code, stderr, summary = nightly.run()
    wanted, sent = (night.plain if plain and night.plain else None) or (night.exit, night.sent)
    said = f"{stderr}\n{summary}"
    assert (code, len(stderr) > 20, summary["ok"]) == (wanted, wanted != 0, wanted == 0), said
    now = there(service)
    assert len(now.items() - before.items()) == sent, said
    removed = 0 if plain else night.removed
    assert summary.get("removed", 0) == removed
    assert len(before.keys() - now.keys()) == night.lost + removed, said


def test_what_the_service_cannot_read_is_told_once(tmp_path):
    service = MemoryService(collections=[COLLECTION], extensions=("sync", "sources"))
    with closing(World("folder", tmp_path, service)) as world:
        nightly = Nightly(world, ("--wait-ready", "1"))
        for number in range(160):
            world.write(f"more/{number}.md", f"More of {number}.")

        def add_unreadable(*numbers: int) -> None:
            for number in numbers:
                world.write(f"slides/{number}.pptx", f"Slides {number}")
                service.fail_source(f"slides/{number}.pptx", "it is no presentation")

        add_unreadable(*range(10))
        nights = [nightly.run() for _ in range(4)]
        assert [code for code, _, _ in nights] == [3, 0, 0, 0]
        assert [bool(stderr) for _, stderr, _ in nights] == [True, False, False, False]
        assert [summary["failed"] for *_, summary in nights] == [10, 0, 0, 0]
        assert [summary["still_failed"] for *_, summary in nights] == [0, 10, 10, 10]
        add_unreadable(10)
        with service.standing_in(), Client(KEY, "https://service.test") as client:
            report = ingest(client, world.origin, collections=COLLECTION, wait_ready=1)
        assert [one.name for one in report.failures] == ["slides/10.pptx"]
        assert (report.ok, report.failed, report.still_failed) == (False, 1, 10)
        world.write("slides/10.pptx", "Slides that can be read")
        _, _, mended = nightly.run()
        assert (mended["replaced"], mended["still_failed"], mended["ok"]) == (1, 10, True)
        world.remove("slides/0.pptx")
        _, _, left = nightly.run()
        assert (left["removed"], left["still_failed"], left["ok"]) == (1, 9, True)


@pytest.mark.slow
def test_what_failed_is_read_again_where_the_service_learned_to(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "good.md").write_text("The canoes are kept in shed seven.")
    (tmp_path / "docs" / "bad.pptx").write_text("Slides")

    def night() -> Report:
        with Client(service.api_key, service.base_url) as client:
            return ingest(
                client, Folder(tmp_path / "docs"), collections="col_default", wait_ready=60
            )

    with OnAPort(tmp_path / "data") as service:
        assert night().failed == 1
        assert night().still_failed == night().still_failed == 1
        service.stop()
        with closing(sqlite3.connect(tmp_path / "data" / "knowledge.sqlite3")) as database:
            database.execute("UPDATE source SET reader = reader - 1")
            database.commit()
        service.start()
        first, second = night(), night()
        assert (first.replaced, first.failed, first.still_failed) == (1, 0, 1)
        assert (second.replaced, second.unchanged) == (0, 2)


@pytest.mark.parametrize("extensions", [{"sync", "sources"}, ()])
def test_a_run_takes_nothing_out_of_the_collections_of_another(tmp_path, extensions):
    service = MemoryService(collections=["col_1", "col_2"], extensions=extensions)
    with closing(World("folder", tmp_path, service)) as world, service.standing_in():

        def feed(*collections, **options):
            with Client(KEY, "https://service.test") as client:
                ledger = tmp_path / "ledger.db"
                return ingest(
                    client, world.origin, collections=collections, ledger=ledger, **options
                )

        assert feed("col_1").created == 30
        refused = feed("col_2")
        assert (refused.stopped, refused.ok, refused.sent) == (Stop.OVERLAP, False, 0)
        assert "col_1" in refused.stop_reason
        assert not feed("col_1").sent
        assert feed("col_2", origin="another name", anyway=True).created == 30
        assert feed("col_1", "col_2").ok
        assert feed("col_2", anyway=True).ok
        assert feed("col_2").unchanged == 30


# Feeds a folder, and is killed before its n-th request that writes, or after the answer to it.
KILLED = """
import os, signal, sys
import httpx
from knowledge_bot import Client
from knowledge_bot.ingest import ingest
from knowledge_bot.origins import Folder

url, key, folder, number, when = sys.argv[1:]
left = int(number)

class Killing(httpx.HTTPTransport):
    def handle_request(self, request):
        global left
        left -= request.method != "GET"
        now = left == 0 and request.method != "GET"
        if now and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = super().handle_request(request)
        if now:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

with httpx.Client(transport=Killing()) as http:
    client = Client(key, url, http_client=http)
    ingest(client, Folder(folder, name="docs"), collections="col_default", concurrency=1)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_is_killed_at_any_request_is_finished_by_the_next_one(tmp_path, when):
    docs = tmp_path / "docs"
    docs.mkdir()
    with OnAPort(tmp_path / "data") as service:
        for number in range(1, 100):
            for name in ("changed", "new", "renamed"):
                (docs / f"{name} {number}.md").write_text(f"The {name} text of {number}.")
            with Client(service.api_key, service.base_url) as client:
                assert ingest(client, Folder(docs, name="docs"), collections="col_default").ok
            (docs / f"changed {number}.md").write_text(f"Another text of {number}.")
            (docs / f"new {number}.md").rename(docs / f"moved {number}.md")
            (docs / f"renamed {number}.md").unlink()
            (docs / f"last {number}.md").write_text(f"The last text of {number}.")
            given = [service.base_url, service.api_key, str(docs), str(number), when]
            killed = subprocess.run([sys.executable, "-c", KILLED, *given], check=False)
            if killed.returncode == 0:  # it wrote fewer times than that
                break
            assert killed.returncode == -signal.SIGKILL
            with Client(service.api_key, service.base_url) as client:
                report = ingest(client, Folder(docs, name="docs"), collections="col_default")
                assert report.ok
                again = ingest(client, Folder(docs, name="docs"), collections="col_default")
                assert again.unchanged == len(list(docs.iterdir()))
                assert not again.sent + again.moved + again.removed + again.gone
            held = [one.name for one in service.sources()]
            assert sorted(held) == sorted(path.name for path in docs.iterdir())
    assert number > 3
