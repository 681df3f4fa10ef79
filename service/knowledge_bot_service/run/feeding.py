"""`kbot serve --with FOLDER`: the service knows what is in a folder, as long as it runs."""

import shlex
import threading
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import click

from knowledge_bot import Client, KnowledgeBotError
from knowledge_bot.ingest import Ingestion, Report, watch_folder
from knowledge_bot.origins import Folder
from knowledge_bot_service.config.settings import ServiceConfiguration, SettingsError

# The folder's name as an origin, so that nothing is sent again when it is moved or renamed.
_ORIGIN: Final = "folder"

# How long a run waits until the service answers from what was sent, in seconds.
_READY: Final = 60.0

# How long until it is fed again after an error, in seconds: at first, and at most. The disk may be
# full for a while, for example.
_SOONEST: Final = 1.0
_LATEST: Final = 60.0

# How long it may take to finish what is under way when the service stops, in seconds.
_PATIENCE: Final = 10.0


class Feeding:
    """Feeds a folder to the service of this process, and again whenever something in it changes.

    What `kbot ingest folder --watch` does, and again when a source of the folder is deleted
    in the service. It is made before the service starts, and runs in a thread; a context manager
    that waits until what is under way is finished. What to `leave_out` are files that are not sent
    if they are in the folder.

    Raises:
        SettingsError: the service has several collections, or the folder is in its data folder.
    """

    def __init__(
        self,
        folder: Path,
        settings: ServiceConfiguration,
        base_url: str,
        *,
        leave_out: Iterable[Path] = (),
    ) -> None:
        data = settings.data.resolve()
        if len(settings.collections) != 1:
            raise SettingsError(
                f"--with feeds a service of one collection, and this one has "
                f"{len(settings.collections)}. Start it without, and feed each with `kbot ingest "
                "folder FOLDER --collection ID --watch`"
            )
        if folder.resolve().is_relative_to(data):
            raise SettingsError(f"--with: {folder} is in the service's own data folder {data}")
        self._folder, self._base_url = str(folder), base_url
        self._stop = threading.Event()
        self._options = Ingestion(
            collections=settings.collections[0].id,
            prune=True,
            wait_ready=_READY,
            stop=self._stop,
        )
        own = (Path("/dev/fd/1"), Path("/dev/fd/2"), *leave_out)  # as in `> log.txt`
        self._find = partial(Folder, folder, exclude=own, name=_ORIGIN)
        self._told: set[object] = set()
        self._left: tuple[int, ...] = ()
        self._again = _SOONEST
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

    def _run(self) -> None:
        with self._client:
            while not self._stop.is_set():
                try:
                    watch_folder(
                        self._folder,
                        self._find,
                        self._ingest,
                        stop=self._stop,
                        on_away=lambda: _say(f"{self._folder} is away: waiting until it is back."),
                        differs=lambda: self._held() != self._left,
                    )
                except (KnowledgeBotError, OSError) as error:
                    if not self._stop.is_set():
                        _say(
                            f"Error: {error} The service goes on, and is fed {self._folder} again "
                            f"in {self._again:.0f} s."
                        )
                self._stop.wait(self._again)
                self._again = min(2 * self._again, _LATEST)

    def _held(self) -> tuple[int, ...]:
        """What the service holds of the folder, in short."""
        return self._client.compare_origin(_ORIGIN).sums

    def _ingest(self, items: Any) -> Report:
        before = self._held()
        report = self._options.run(self._client, items)
        self._again = _SOONEST
        # Only a run that changed nothing knows what it left: what is deleted right after another
        # one's end would be taken for that.
        changed = report.created + report.replaced + report.moved + report.removed
        self._left = () if changed else before
        counts = ", ".join(f"{name} {count}" for name, count in report.counts.items() if count)
        if counts or not report.stopped:
            _say(f"Fed {self._folder}: {counts or 'nothing is in it'}.")
        for one in report.failures:
            if (one.name, one.error) not in self._told:  # each is told once
                self._told.add((one.name, one.error))
                _say(f"{one.name}: {one.error}")
        if report.withheld:
            _say(
                f"{report.withheld} files have vanished at once, and are still answered from. "
                "If they are really gone, run: kbot ingest folder "
                f"{shlex.quote(self._folder)} --origin {_ORIGIN} "
                f"--collection {self._options.collections[0]} --gone-limit 1"
            )
        if report.stopped:
            _say(f"Stopped before the end: {report.stop_reason}")
        return report


def _say(line: str) -> None:
    click.echo(line, err=True)
