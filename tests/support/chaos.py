"""Everything that may happen to an ingestion, for real, and what came of it: a table in Markdown.

    .venv/bin/python tests/support/chaos.py [row ...]

A row is a scenario with processes, sockets and databases of its own. After the trouble the items
are ingested once more without it, where the ledger is still whole; then the service's own journal
says what was created twice, and what is missing although nobody was told. Exits with 1 if there is
any of that, or if something did not happen as the row expects.
"""

import argparse
import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counting_server import CountingServer, counting
from knowledge_bot import Client
from knowledge_bot.ingest import File, Ledger, Text, from_folder, ingest
from postgresql_server import PostgreSQL, binary, postgresql
from scripted_server import Received, Reply, ScriptedServer, answer, close, raw, reset, then

IN_FLIGHT = 8
AT_ONCE = 3  # rows; most of their time is waiting


@dataclass
class Result:
    """What came of a row.

    Attributes:
        items: how many items there were.
        created: how many of them the service has.
        twice: sources beyond the first one of an item.
        lost: items that the service does not have, and nobody was told.
        unknown: items that the ledger calls unknown.
        ended: how the run ended that met the trouble.
        wrong: what did not happen as it should.
    """

    items: int
    created: int
    twice: int
    lost: int
    unknown: int
    ended: str
    wrong: list[str] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        return not (self.twice or self.lost or self.wrong)


class Skip(Exception):  # noqa: N818 - no error
    """This machine cannot do it."""


ROWS: dict[str, Callable[["Scene"], Result]] = {}


def row(function: Callable[["Scene"], Result]) -> Callable[["Scene"], Result]:
    ROWS[function.__name__] = function
    return function


# A run, in a process of its own.


@dataclass
class Ended:
    """How a process ended: its report where it printed one, and what it said last."""

    code: int
    report: dict[str, Any]
    said: str

    @property
    def stopped(self) -> str | None:
        stopped: str | None = self.report.get("stopped")
        return stopped

    def __str__(self) -> str:
        if not self.report:
            return self.said if self.code >= 0 else signal.Signals(-self.code).name
        counts = ("created", "unchanged", "refused", "unknown", "undelivered", "invalid", "skipped")
        told = ", ".join(f"{name} {self.report[name]}" for name in counts if self.report[name])
        stop = f"; {self.stopped}: {self.report['stop_reason']}" if self.stopped else ""
        return f"{told} in {self.report['duration']:.0f} s{stop}"


class Run:
    """A process that ingests, from its start; see `ingest_in_this_process` for the options."""

    def __init__(self, url: str, ledger: str | Path, items: int, **options: Any) -> None:
        options |= {"url": url, "ledger": str(ledger), "items": items}
        command = [sys.executable, __file__, "--run", json.dumps(options)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "begins\n"

    def ended(self, timeout: float = 150) -> Ended:
        try:
            output, errors = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            return Ended(1, {}, f"did not end within {timeout:.0f} s")
        lines = [line for line in errors.splitlines() if line.strip()] or [""]
        report = json.loads(output) if output.strip() else {}
        return Ended(self.process.returncode, report, lines[-1])


def ingest_in_this_process(options: dict[str, Any]) -> None:
    """Ingest as the options say, and print the report.

    Args:
        options: `url`, `ledger` and `items`; `folder`: files instead of texts; `after`: an error or
            odd items after so many; `key`, `on_unknown`, `timeout`; `machine` and `jump`: a machine
            of its own, whose clock is moved after two seconds.
    """
    if "machine" in options:
        be_another_machine(options["machine"], options["jump"])
    items: Any = texts(options["items"], options.get("then", ""))
    if "folder" in options:
        items = from_folder(options["folder"])
    print("begins", flush=True)  # noqa: T201 - read by whoever started it
    with Client("key", options["url"], timeout=options.get("timeout", 20)) as client:
        report = ingest(
            client,
            items,
            collections="col_1",
            ledger=Ledger(options["ledger"]),
            concurrency=IN_FLIGHT,
            on_unknown=options.get("on_unknown", "hold"),
        )
    print(json.dumps(report.as_dict()))  # noqa: T201 - as above


def texts(count: int, then: str) -> Iterator[Any]:
    for name in names(count):
        yield Text(name=name, content=f"Content of {name}.")
    if then == "raise":
        raise LookupError("the source broke")
    if then == "odd":
        yield from (None, 3, Text(name="a\0b", content="NUL"), Text(name="t", content=" "))
        yield File(path="/nowhere/at/all")
        for odd in ("\ud800", "\udfff.txt"):
            try:
                yield Text(name=odd, content="A lone surrogate.")
            except ValueError:  # pydantic's own
                yield odd


def names(count: int) -> list[str]:
    return [f"item {number}" for number in range(count)]


def be_another_machine(name: str, jump: float) -> None:
    """Look like a machine of that name, with short leases and a clock that is set once."""
    from knowledge_bot.ingest import _leases, _store

    real, began = time.time, time.monotonic()
    time.time = lambda: real() + (jump if time.monotonic() - began > 2 else 0)
    _leases._machine = lambda: f"machine {name}"
    _store.LEASE, _store.HEARTBEAT = 4.0, 1.0


# Where it happens.


class Scene:
    """A folder, a service in it, and what is started for a row; all ends with it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        self.ledger: str | Path = self.folder / "ledger.db"

    def service(self, delay: float = 0.002, trouble: "Trouble | None" = None) -> str:
        """Run a service; return its address, which is that of the trouble's proxy, if any."""
        self.counted: CountingServer = self._stack.enter_context(counting(self.folder, delay))
        self._proxy = None if trouble is None else Proxy(self.counted, trouble)
        if self._proxy is not None:
            self._stack.callback(self._proxy.server.stop)
        self.url = self._proxy.server.url if self._proxy else self.counted.url
        return self.url

    def run(self, items: int, **options: Any) -> "Run":
        return Run(self.url, self.ledger, items, **options)

    def postgresql(self) -> "Database":
        database = Database(self._stack.enter_context(postgresql()))
        self._stack.callback(database.stop)
        self.ledger = database.server.url()
        return database

    def wait_for(self, count: int) -> None:
        """Wait until the service has created so many."""
        deadline = time.monotonic() + 60
        while self.counted.created().total() < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count} items did not arrive")
            time.sleep(0.01)

    def result(self, items: int, ended: object, *, again: bool = True, **kept: bool) -> Result:
        """Ingest once more without trouble, and compare what is there with what is known.

        Args:
            items: how many items there are.
            ended: how the run ended that met the trouble.
            again: whether to ingest once more.
            kept: whether each of the row's expectations was met.
        """
        if self._proxy is not None:
            self._proxy.trouble = lambda request, count, since: None
        last = self.run(items).ended() if again else None
        arrived = self.counted.created()
        there = {name for name in names(items) if arrived[name]}
        entries = {entry.key: entry for entry in Ledger(self.ledger).entries()} if again else {}
        unknown = {key for key, entry in entries.items() if entry.state == "unknown"}
        wrong = [name.replace("_", " ") for name, met in kept.items() if not met]
        if last is not None and last.stopped:
            wrong.append(f"the next run stops: {last}")
        return Result(
            items,
            len(there),
            arrived.total() - len(arrived),
            len(set(names(items)) - there - unknown) if again else 0,
            len(unknown),
            str(ended),
            wrong,
        )


Trouble = Callable[[Received, int, float], Reply | str | None]
"""Given a request, how many came before, and the seconds since the first: what comes of it.

A `Reply` creates nothing; `reset` and `half` come after the service has acted; None is no trouble.
"""


class Proxy:
    """Stands before the service and makes trouble."""

    def __init__(self, service: CountingServer, trouble: Trouble) -> None:
        self._service, self.trouble = service, trouble
        self._began, self._count, self._lock = 0.0, 0, threading.Lock()
        self.server = ScriptedServer(reply_to=self._reply_to, on_ping=None)

    def _reply_to(self, request: Received) -> Reply:
        with self._lock:
            self._began = self._began or time.monotonic()
            count, self._count = self._count, self._count + 1
        found = self.trouble(request, count, time.monotonic() - self._began)
        if callable(found):
            return found
        whole = self._forwarded(request)
        if found == "reset":
            return reset
        return then(raw(whole[: len(whole) // 2]), close) if found == "half" else raw(whole)

    def _forwarded(self, request: Received) -> bytes:
        address = self._service.url.partition("://")[2]
        with closing(http.client.HTTPConnection(address, timeout=30)) as connection:
            connection.request(request.method, request.path, request.body)
            answered = connection.getresponse()
            content = answered.read()
        kind = "application/json" if content.startswith(b"{") else "text/plain"
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(content)}\r\n\r\n"
        return head.encode() + content


class Database:
    """A PostgreSQL that can be stopped and started."""

    def __init__(self, server: PostgreSQL) -> None:
        import psycopg

        self.server = server
        with psycopg.connect(server.url()) as connection:
            found = connection.execute("SHOW data_directory").fetchone()
        assert found is not None
        self._data = found[0]

    def control(self, *arguments: str) -> None:
        owner = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
        subprocess.run(
            [binary("pg_ctl"), "-D", self._data, *arguments],
            cwd=Path(self._data).parent,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
            **owner,
        )

    def away(self, mode: str, seconds: float) -> None:
        self.control("stop", "-m", mode)
        time.sleep(seconds)
        self.control("restart", "-l", f"{self._data}/log")  # with the options of its last start

    def stop(self) -> None:
        if Path(self._data, "postmaster.pid").exists():
            self.control("stop", "-m", "fast")


# The rows.


def killed(scene: Scene, kills: int, items: int, moment: Callable[[], None]) -> Result:
    """Kill so many runs, each at its moment; then run to the end."""
    unsent = 0
    for _ in range(kills):
        before = scene.counted.created().total(), unknown_in(scene.ledger)
        run = scene.run(items)
        moment()
        run.process.kill()
        run.ended()
        time.sleep(0.05)  # what was on its way arrives
        arrived = scene.counted.created().total() > before[0]
        unsent += not arrived and unknown_in(scene.ledger) > before[1]
    result = scene.result(items, f"{kills} kills; {unsent} before a request left unknowns")
    if result.unknown > kills * IN_FLIGHT:
        result.wrong.append(f"more than {IN_FLIGHT} unknown for each kill")
    if unsent > max(1, kills // 6):  # a claim is on disk for some milliseconds before it is sent
        result.wrong.append("items are called unknown that were never sent")
    return result


def unknown_in(ledger: str | Path) -> int:
    return len(list(Ledger(ledger).unknown())) if Ledger(ledger).exists() else 0


@row
def killed_in_full_flow(scene: Scene) -> Result:
    scene.service()

    def moment() -> None:
        scene.wait_for(scene.counted.created().total() + random.randint(1, 400))

    return killed(scene, 6, 6000, moment)


@row
def killed_in_the_first_half_second(scene: Scene) -> Result:
    scene.service()
    return killed(scene, 12, 3000, lambda: time.sleep(random.uniform(0, 0.5)))


@row
def two_runs_on_one_sqlite_ledger(scene: Scene) -> Result:
    scene.service()
    ends = [run.ended() for run in [scene.run(3000), scene.run(3000)]]
    shares = [end.report.get("created", 0) for end in ends]
    return scene.result(3000, " + ".join(map(str, ends)), all_are_created=sum(shares) == 3000)


@row
def ledger_locked_for_8_s(scene: Scene) -> Result:
    scene.service()
    run = scene.run(1500)
    scene.wait_for(100)
    with closing(sqlite3.connect(scene.ledger, timeout=20, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        time.sleep(8)
        other.execute("ROLLBACK")
    ended = run.ended()
    return scene.result(1500, ended, it_waits=ended.report.get("created") == 1500)


@row
def ledger_on_a_full_disk(scene: Scene) -> Result:
    place = scene.folder / "disk"
    place.mkdir()
    if os.geteuid() != 0:
        raise Skip("only root may mount a tmpfs")
    with small_disk(place):
        scene.ledger = place / "ledger.db"
        scene.service()
        ended = scene.run(4000).ended()
        mount("-o", "remount,size=20m", str(place))
        return scene.result(4000, ended, it_stops_for_the_ledger=ended.stopped == "ledger")


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    mount("-t", "tmpfs", "-o", "size=600k", "tmpfs", str(place))
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip(done.stderr.strip())


def postgresql_away(scene: Scene, mode: str) -> Result:
    database = scene.postgresql()
    scene.service(0.02)
    run = scene.run(1500)
    scene.wait_for(200)
    database.away(mode, 4)
    ended = run.ended()
    return scene.result(
        1500,
        ended,
        it_waits=ended.stopped is None,
        nothing_is_unknown=ended.report.get("unknown") == 0,
    )


@row
def postgresql_restarted(scene: Scene) -> Result:
    return postgresql_away(scene, "fast")


@row
def postgresql_crashed(scene: Scene) -> Result:
    return postgresql_away(scene, "immediate")


def ledger_lost(scene: Scene, lose: Callable[[Path], None]) -> Result:
    """Lose the ledger's file under a run: it cannot be saved, and must not end well."""
    scene.service(0.004)
    run = scene.run(3000)
    scene.wait_for(300)
    lose(Path(scene.ledger))
    ended = run.ended()
    return scene.result(3000, ended, again=False, the_run_says_so=ended.stopped == "ledger")


@row
def ledger_removed(scene: Scene) -> Result:
    def remove(ledger: Path) -> None:
        for file in ledger.parent.glob("ledger.db*"):
            file.unlink()

    return ledger_lost(scene, remove)


@row
def ledger_replaced(scene: Scene) -> Result:
    def replace(ledger: Path) -> None:
        other = ledger.with_name("other.db")
        made = Ledger(other).database.open(reading=False)
        assert made is not None
        made.close()
        other.replace(ledger)

    return ledger_lost(scene, replace)


@row
def ledger_overwritten(scene: Scene) -> Result:
    def checkpoint_and_overwrite(ledger: Path) -> None:
        # What is in the log only would be written over the damage.
        with closing(sqlite3.connect(ledger, timeout=20)) as connection:
            connection.execute("PRAGMA wal_checkpoint(FULL)")
        overwrite(ledger)

    result = ledger_lost(scene, checkpoint_and_overwrite)
    created = scene.counted.created().total()
    following = scene.run(3000).ended()
    if scene.counted.created().total() > created:
        result.wrong.append(f"the next run sends: {following}")
    return result


def overwrite(ledger: Path) -> None:
    with ledger.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 40_000)


def truncate(ledger: Path) -> None:
    os.truncate(ledger, ledger.stat().st_size // 2)


def make_a_directory(ledger: Path) -> None:
    ledger.unlink()
    ledger.mkdir()


def write_a_letter(ledger: Path) -> None:
    ledger.write_text("Dear Sir or Madam, " * 500)


def unusable(scene: Scene, spoil: Callable[[Path], None]) -> Result:
    """Spoil the ledger between two runs: the second one must send nothing."""
    scene.service()
    ledger, first = Path(scene.ledger), scene.run(500).ended()
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for rest in ledger.parent.glob("ledger.db-*"):
        rest.unlink()
    spoil(ledger)
    second = scene.run(600).ended()
    return scene.result(
        500,
        second,
        again=False,
        it_begins_well=first.report.get("created") == 500,
        nothing_is_sent=scene.counted.created().total() == 500,
        it_is_told=second.stopped == "ledger" or "LedgerError" in second.said,
    )


@row
def ledger_damaged(scene: Scene) -> Result:
    return unusable(scene, overwrite)


@row
def ledger_truncated(scene: Scene) -> Result:
    return unusable(scene, truncate)


@row
def ledger_a_directory(scene: Scene) -> Result:
    return unusable(scene, make_a_directory)


@row
def ledger_not_a_database(scene: Scene) -> Result:
    return unusable(scene, write_a_letter)


def clock_stepped(scene: Scene, jump: float) -> Result:
    """Two machines, one with a clock that is set; what is dead to the other one is sent again."""
    scene.postgresql()
    scene.service(1.5)
    shared: dict[str, Any] = {"on_unknown": "resend", "timeout": 30}
    stepping = scene.run(60, machine="A", jump=jump, **shared)
    time.sleep(7)
    ends = [scene.run(60, machine="B", jump=0, **shared).ended(), stepping.ended()]
    return scene.result(60, "; ".join(map(str, ends)))


@row
def clock_stepped_back_1_h(scene: Scene) -> Result:
    return clock_stepped(scene, -3600)


@row
def clock_stepped_ahead_1_h(scene: Scene) -> Result:
    return clock_stepped(scene, 3600)


def for_a_while(reply: Reply, seconds: float) -> Trouble:
    return lambda request, count, since: reply if since < seconds else None


def waited_out(scene: Scene, reply: Reply) -> Result:
    """Be refused for six seconds by a service that says how long to wait."""
    scene.service(trouble=for_a_while(reply, 6))
    ended = scene.run(600).ended()
    return scene.result(600, ended, it_waits=ended.report.get("created") == 600)


@row
def answers_429_with_retry_after_for_6_s(scene: Scene) -> Result:
    return waited_out(scene, answer(429, headers={"Retry-After": "2"}))


@row
def answers_503_with_retry_after_for_6_s(scene: Scene) -> Result:
    return waited_out(scene, answer(503, headers={"Retry-After": "2"}))


@row
def answers_503_for_6_s(scene: Scene) -> Result:
    # It may have acted, so what was sent is unknown; more than that, nobody should lose.
    scene.service(trouble=for_a_while(answer(503), 6))
    ended = scene.run(600).ended()
    return scene.result(600, ended, it_goes_on=ended.stopped is None)


@row
def a_third_refused_a_sixth_reset_a_sixth_slow(scene: Scene) -> Result:
    def trouble(request: Received, count: int, since: float) -> Reply | str | None:
        dice = random.Random(count).random() * 6
        if dice < 2:
            # Refused, and no wait is asked for: how much slower it gets is the engine's choice.
            return answer(429) if dice < 1 else answer(503, headers={"Retry-After": "0"})
        if dice < 3:
            return reset
        time.sleep(2 if dice < 4 else 0)
        return None

    scene.service(trouble=trouble)
    began = time.monotonic()
    ended = scene.run(200).ended()
    pace = 200 / (time.monotonic() - began)
    told = f"{ended}; {pace:.1f} items/s"
    return scene.result(200, told, it_goes_on=ended.stopped is None, over_2_items_a_second=pace > 2)


@row
def every_connection_reset_for_10_s(scene: Scene) -> Result:
    scene.service(trouble=for_a_while(reset, 10))
    ended = scene.run(600).ended()
    few = ended.report.get("unknown", 600) <= 2 * IN_FLIGHT
    return scene.result(600, ended, it_waits=ended.stopped is None, few_are_unknown=few)


@row
def every_connection_reset_for_ever(scene: Scene) -> Result:
    scene.service(trouble=lambda request, count, since: reset)
    ended = scene.run(600).ended()
    return scene.result(600, ended, it_gives_up=ended.stopped == "unavailable")


def acts_and_then(scene: Scene, what: str) -> Result:
    scene.service(trouble=lambda request, count, since: what if request.method == "POST" else None)
    ended = scene.run(600).ended()
    return scene.result(600, ended, it_gives_up=ended.stopped == "unavailable")


@row
def half_of_each_answer(scene: Scene) -> Result:
    return acts_and_then(scene, "half")


@row
def reset_after_acting(scene: Scene) -> Result:
    return acts_and_then(scene, "reset")


def turned_away(scene: Scene, status: int, stop: str) -> Result:
    """Be told after some items that no more will be taken."""
    scene.service(trouble=lambda request, count, since: answer(status) if count > 100 else None)
    ended = scene.run(600).ended()
    return scene.result(
        600, ended, it_stops=ended.stopped == stop, none_unknown=ended.report.get("unknown") == 0
    )


@row
def answers_401(scene: Scene) -> Result:
    return turned_away(scene, 401, "authentication")


@row
def answers_402(scene: Scene) -> Result:
    return turned_away(scene, 402, "payment")


@row
def items_that_raise(scene: Scene) -> Result:
    scene.service()
    ended = scene.run(50, then="raise").ended()
    sent = scene.counted.created().total() == 50
    told = ended.code == 1 and "created 50" in ended.said
    return scene.result(50, ended, what_came_before_is_sent=sent, the_error_tells_it=told)


@row
def items_that_are_none(scene: Scene) -> Result:
    scene.service()
    ended = scene.run(30, then="odd").ended()
    found = tuple(ended.report.get(name) for name in ("created", "invalid", "skipped"))
    return scene.result(30, ended, each_is_named=found == (30, 6, 1))


def asked_to_end(scene: Scene, number: signal.Signals) -> Result:
    scene.service(0.02)
    run = scene.run(2000)
    scene.wait_for(100)
    run.process.send_signal(number)
    ended = run.ended()
    return scene.result(
        2000,
        ended,
        it_ends=ended.stopped == "requested",
        none_unknown=ended.report.get("unknown") == 0,
    )


@row
def sigint(scene: Scene) -> Result:
    return asked_to_end(scene, signal.SIGINT)


@row
def sigterm(scene: Scene) -> Result:
    return asked_to_end(scene, signal.SIGTERM)


@row
def sighup(scene: Scene) -> Result:
    return asked_to_end(scene, signal.SIGHUP)


@row
def odd_files(scene: Scene) -> Result:
    folder = scene.folder / "files"
    (folder / "below").mkdir(parents=True)
    good = {"plain.txt", "below/deep.txt", "new\nline.txt"}
    for name in good:
        (folder / name).write_text(f"Content of {name}.")
    (folder / "below" / "loop").symlink_to(folder)
    (folder / "nothing").symlink_to(folder / "gone")
    os.mkfifo(folder / "fifo")
    Path(os.fsdecode(bytes(folder) + b"/not-\xff.txt")).write_text("Not UTF-8.")
    scene.service()
    ended = scene.run(0, folder=str(folder)).ended(60)
    again = scene.run(0, folder=str(folder)).ended(60)
    arrived, report = scene.counted.created(), ended.report
    wrong = []
    if (report.get("created"), report.get("invalid"), report.get("skipped")) != (3, 1, 3):
        wrong.append("each odd one is named once")
    if again.report.get("unchanged") != len(good):
        wrong.append("the next run finds them unchanged")
    twice = arrived.total() - len(arrived)
    return Result(
        3, len(good & arrived.keys()), twice, len(good - arrived.keys()), 0, f"{ended}", wrong
    )


# The table.


def main() -> int:
    """Run the rows, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="row", help=", ".join(ROWS))
    wanted = parser.parse_args().rows or list(ROWS)
    if strange := set(wanted) - ROWS.keys():
        parser.error(f"no such row: {', '.join(sorted(strange))}; there are {', '.join(ROWS)}")
    say(*COLUMNS)
    say(*("---" for _ in COLUMNS))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return 0 if all(list(pool.map(told, wanted))) else 1


def told(name: str) -> bool:
    """Run a row and print its line; tell whether all is well."""
    began, title = time.monotonic(), name.replace("_", " ")
    try:
        with ExitStack() as stack:
            result = ROWS[name](Scene(stack))
    except Skip as reason:
        say(title, "", "", "", "", "", "", f"skipped: {reason}")
        return True
    except Exception as error:  # noqa: BLE001 - a row that fails is told, and the others run
        say(title, "", "", "", "", "", "", f"NO: {type(error).__name__}: {error}")
        return False
    say(
        title,
        f"{result.created} of {result.items}",
        result.twice,
        result.lost,
        result.unknown,
        result.ended[:200],
        f"{time.monotonic() - began:.0f}",
        "yes" if result.kept else f"NO: {'; '.join(result.wrong)}",
    )
    return result.kept


COLUMNS = ("what happened", "created", "twice", "lost", "unknown", "its run", "s", "as expected")


def say(*cells: object) -> None:
    """Print a line of the table."""
    told = " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in cells)
    print(f"| {told} |", flush=True)  # noqa: T201 - a script's result


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        ingest_in_this_process(json.loads(sys.argv[2]))
    else:
        sys.exit(main())
