"""The services that the pages' blocks talk to: one for each page, as its bots are named there.

Feeding takes a second, so it is done once for all pages: each page's service starts on a copy.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from in_process import OnAPort
from knowledge_bot import Client
from knowledge_bot.ingest import ingest
from knowledge_bot.origins import Folder

HANDBOOK = Path(__file__).parents[2] / "examples" / "handbook"
LENDING = {"borrowing.md", "damage-and-loss.md", "membership.md", "reservations.md"}

# By the bot that a page names first: its collections, its bots, and whether it has the handbook.
KINDS = {
    "bot_handbook": {
        "collections": {"col_lending": "Lending", "col_workshop": "Workshop"},
        "bots": {
            "bot_handbook": ["col_lending", "col_workshop"],
            "bot_lending": ["col_lending"],
            "bot_workshop": ["col_workshop"],
        },
        "bot_names": {
            "bot_handbook": "Handbook",
            "bot_lending": "Lending desk",
            "bot_workshop": "Workshop",
        },
    },
    "bot_default": {},
    "bot_guide": {
        "collections": {
            "col_handbook": "Handbook",
            "col_team": "Team",
            "col_operations": "Operations",
        },
        "bots": {
            "bot_guide": ["col_handbook"],
            "bot_desk": ["col_handbook"],
            "bot_night": ["col_operations"],
        },
    },
}


def kind_of(text: str) -> str:
    """Return which service a page needs."""
    lending = (
        "bot_handbook" if re.search(r"\b(bot|col)_(lending|workshop)\b", text) else "bot_guide"
    )
    return next((bot for bot in KINDS if bot in text), lending)


class Services:
    """Services that have read the handbook, unless they are the plain one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def running(self, kind: str, data: Path) -> Iterator[OnAPort]:
        """Run a service on a copy of the data that it would have after being fed."""
        shutil.copytree(self._fed(kind), data)
        with OnAPort(data, **KINDS[kind]) as service:
            yield service

    def _fed(self, kind: str) -> Path:
        data = self._folder / kind
        if not data.exists():
            with (
                OnAPort(data, **KINDS[kind]) as service,
                Client(service.api_key, service.base_url) as client,
            ):
                files = sorted(HANDBOOK.iterdir()) if kind != "bot_default" else []
                if kind == "bot_handbook":
                    for file in files:
                        lending = "col_lending" if file.name in LENDING else "col_workshop"
                        client.upload_source(name=file.name, collections=lending, file=file)
                elif files:
                    folder = Folder(HANDBOOK, name="handbook")
                    assert ingest(client, folder, collections="col_handbook").ok
                service.wait_until_ready(60)
        return data


def environment(service: OnAPort, home: Path, path: Path) -> dict[str, str]:
    """Return the environment of a reader who has set up what a page begins with.

    Args:
        service: the service that is reached.
        home: the reader's folder.
        path: the folder of the programs of this project's environment.
    """
    of_the_machine = ("COLUMNS", "LINES", "PYTEST_CURRENT_TEST")
    kept = {
        name: value
        for name, value in os.environ.items()
        if "KNOWLEDGE_BOT" not in name and name not in of_the_machine
    }
    return kept | {
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home),
        "HOME": str(home),
        "KBOT_CONFIG": str(home / "config.toml"),
        "KNOWLEDGE_BOT_API_KEY": service.api_key,
        "KNOWLEDGE_BOT_BASE_URL": service.base_url,
        "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "XDG_DATA_HOME": str(home / ".local" / "share"),
    }
