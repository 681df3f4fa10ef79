"""`kbot serve` in a process of its own, as a person runs it."""

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from unittest.mock import patch

from click.testing import CliRunner

from knowledge_bot_service.run.command import serve
from waiting import until

SERVE = [sys.executable, "-m", "knowledge_bot_service.run.command"]


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[str, str, "subprocess.Popen[bytes]"]]:
    """Run `kbot serve`; gives its base URL, all that it printed, and the process."""
    log = folder / "printed.txt"
    with (
        log.open("wb") as printed,
        subprocess.Popen(
            [*SERVE, "--port", "0", *arguments], cwd=folder, stdout=printed, stderr=printed
        ) as process,
    ):
        try:
            until(lambda: "Stop with" in log.read_text() or process.poll() is not None, 60)
            text = log.read_text()
            yield text.partition("Base URL: ")[2].split()[0], text, process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def called(folder: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run a command below `kbot serve` within this process: half a second less for each."""
    # What a service sets for its process ends with the command.
    with chdir(folder), patch.object(tempfile, "tempdir", tempfile.tempdir):
        done = CliRunner().invoke(serve, list(map(str, arguments)), prog_name="kbot serve")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def key_in(printed: str) -> str:
    found = re.search(r"API key: +(\S+)", printed)
    assert found is not None
    return found.group(1)
