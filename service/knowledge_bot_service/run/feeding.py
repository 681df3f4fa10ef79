"""`kbot serve --with FOLDER`: the service knows what is in a folder, as long as it runs."""

import shlex
import sqlite3
import threading
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import click

from knowledge_bot import Client, KnowledgeBotError
from knowledge_bot.ingest import File, Ingestion, LedgerError, Report, watch_folder
from knowledge_bot.origins import Folder
from knowledge_bot_service.config.folder import LEDGERS, database_file
from knowledge_bot_service.config.settings import ServiceConfiguration

# The folder's name in the ledger, so that nothing is sent again when it is moved or renamed.
_ORIGIN: Final = "folder"

# How long a run waits until the service answers from what was sent, in seconds.
_READY: Final = 60.0

# How long until it is fed again after an error, in seconds: at first, and at most. The disk may be
# full for a while, for example.
_SOONEST: Final = 1.0
_LATEST: Final = 60.0

# How long it may take to finish what is under way when the service stops, in seconds.
_PATIENCE: Final = 10.0


class FeedingError(Exception):
    """The folder cannot be fed to this service. str() says why, and what to do."""


class Feeding:
    """Feeds a folder to the service of this process, and again whenever something in it changes.

    What `kbot ingest folder --prune --watch` does, with a ledger in the service's data folder. It
    is made before the service starts, and runs in a thread; a context manager that waits until what
    is under way is finished. What to `leave_out` are files that are not sent if they are in the
    folder.

    Raises:
        FeedingError: the service has several collections, the folder is in its data folder, or
            that was fed from another address, or has sources of the folder that were fed in another
            way, so that everything would be sent again.
    """

    def __init__(
        self,
        folder: Path,
        settings: ServiceConfiguration,
        base_url: str,
        *,
        leave_out: Iterable[Path] = (),
    ) -> None:
        data, address = settings.data.resolve(), urlsplit(base_url).netloc
        if len(settings.collections) != 1:
            raise FeedingError(
                f"--with feeds a service of one collection, and this one has "
                f"{len(settings.collections)}. Start it without, and feed each with `kbot ingest "
                "folder FOLDER --collection ID --prune --watch`"
            )
        if folder.resolve().is_relative_to(data):
            raise FeedingError(f"--with: {folder} is in the service's own data folder {data}")
        ledger = data / f"ledger-{address.replace(':', '-')}.db"
        if other := next((one for one in data.glob(LEDGERS) if one != ledger), None):
            raise FeedingError(
                f"the service of {settings.data} was fed at another address, as {other.name} "
                f"tells, and not at {address}: everything would be sent to it again. Take that "
                "address with --host and --port, or another data folder with --data"
            )
        self._folder, self._base_url, self._ledger = str(folder), base_url, str(ledger)
        self._stop = threading.Event()
        self._options = Ingestion(
            collections=settings.collections[0].id,
            ledger=ledger,
            prune=True,
            wait_ready=_READY,
            stop=self._stop,
        )
        own = (Path("/dev/fd/1"), Path("/dev/fd/2"), *leave_out)  # as in `> log.txt`
        self._find = partial(Folder, folder, exclude=own, name=_ORIGIN)
        if not ledger.exists() and (known := self._known(database_file(data))):
            raise FeedingError(
                f"the service of {settings.data} has sources already that --with did not feed it, "
                f"and {known} of them have the names of files of {folder}: they would be there "
                "twice. Start it without --with, and go on with `kbot ingest folder FOLDER --prune "
                "--watch`, or delete them with `kbot sources delete`; or take another data folder "
                "with --data"
            )
        self._told: set[object] = set()
        self._thread = threading.Thread(target=self._run, name="feeding", daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE)

    def start(self, key: str) -> None:
        """Begin, when the service answers."""
        self._client = Client(key, self._base_url)
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more. This may be called in a signal handler."""
        self._stop.set()

    def _known(self, database: Path) -> int:
        """Return how many sources of a service that does not run have the names of files."""
        if not database.exists():
            return 0
        try:
            with closing(sqlite3.connect(database)) as connection:
                names = [name for (name,) in connection.execute("SELECT name FROM source")]
            there = {item.name for item in self._find().items() if names and isinstance(item, File)}
        except (sqlite3.Error, KnowledgeBotError):  # the start says why
            return 0
        return sum(name in there for name in names)

    def _run(self) -> None:
        again = _SOONEST
        with self._client:
            while not self._stop.is_set():
                try:
                    watch_folder(
                        self._folder,
                        self._find,
                        self._ingest,
                        stop=self._stop,
                        on_away=lambda: _say(f"{self._folder} is away: waiting until it is back."),
                    )
                except (KnowledgeBotError, LedgerError, OSError) as error:
                    if not self._stop.is_set():
                        _say(
                            f"Error: {error} The service goes on, and is fed {self._folder} again "
                            f"in {again:.0f} s."
                        )
                self._stop.wait(again)
                again = min(2 * again, _LATEST)

    def _ingest(self, items: Any) -> Report:
        report = self._options.run(self._client, items)
        counts = ", ".join(f"{name} {count}" for name, count in report.counts.items() if count)
        _say(f"Fed {self._folder}: {counts or 'nothing is in it'}.")
        for one in report.failures:
            if (one.name, one.error) not in self._told:  # each is told once
                self._told.add((one.name, one.error))
                _say(f"{one.name}: {one.error}")
        if report.withheld:
            _say(
                f"{report.withheld} files have vanished at once, and are still answered from. "
                "If they are really gone, run: kbot ingest folder "
                f"{shlex.quote(self._folder)} --origin {_ORIGIN} --ledger "
                f"{shlex.quote(self._ledger)} --collection {self._options.collections} --prune "
                "--gone-limit 1"
            )
        if report.stopped:
            _say(f"Stopped before the end: {report.stop_reason}")
        return report


def _say(line: str) -> None:
    click.echo(line, err=True)
