"""A service in a child process of `LocalService`: `python -m knowledge_bot_service.run.child`.

The settings come as one line of JSON on standard input, so that no key is on a command line. The
port goes back as one line of JSON on standard output when the service answers. Standard input stays
open: when it ends, however its other end died, so does this process. A parent that stops it sends a
line first; without one it has died, and nobody else is left to remove a temporary data folder.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from functools import partial
from typing import Final

from knowledge_bot_service.config import logs
from knowledge_bot_service.config.folder import DataFolder, FolderError
from knowledge_bot_service.config.keys import KeyList
from knowledge_bot_service.config.settings import SettingsError, parse_settings
from knowledge_bot_service.run.server import listen, run

# How long a clean end may take, in seconds. No parent is left to kill this process.
_PATIENCE: Final = 15


def main() -> None:
    """Read the settings, serve, and end with the parent."""
    start = json.loads(sys.stdin.readline())
    orphaned = threading.Event()
    threading.Thread(target=_end_with_parent, args=(orphaned,), daemon=True).start()
    # The server raises the signal that stopped it once more, which would end this function too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    # In tests and trials a log line for each request is of no use.
    logs.configure("warning")
    values = {**start["settings"], "host": "127.0.0.1", "port": start["port"]}
    settings = parse_settings(values, origin="settings")
    try:
        with listen(settings.host, settings.port) as listener, DataFolder(settings.data) as folder:
            port = listener.getsockname()[1]
            run(
                settings,
                folder,
                KeyList(folder, settings),
                listener,
                on_ready=partial(_report, port),
            )
    except (FolderError, SettingsError) as error:
        print(json.dumps({"error": str(error)}), flush=True)  # noqa: T201 - the line that is waited for
        sys.exit(1)
    finally:
        if start["temporary"] and orphaned.is_set():
            shutil.rmtree(settings.data, ignore_errors=True)


def _report(port: int) -> None:
    # A parent that died during the start ends this process by its standard input.
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps({"port": port}), flush=True)  # noqa: T201 - the line that is waited for


def _end_with_parent(orphaned: threading.Event) -> None:
    # Unbuffered, past what read the settings.
    if not os.read(sys.stdin.fileno(), 1):
        orphaned.set()
    signal.raise_signal(signal.SIGTERM)
    time.sleep(_PATIENCE)
    os._exit(1)


if __name__ == "__main__":
    main()
