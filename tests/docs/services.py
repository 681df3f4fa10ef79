"""The services that the pages' blocks talk to, with the collections and bots that they name.

Feeding takes a second, so it is done once for all pages: each page's service starts on a copy.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from in_process import OnAPort
from knowledge_bot import Client
from knowledge_bot.ingest import ingest
from knowledge_bot.origins import Folder
from knowledge_bot.testing import MemoryService
from served import served

HANDBOOK = Path(__file__).parents[2] / "examples" / "handbook"
LENDING = {"borrowing.md", "damage-and-loss.md", "membership.md", "reservations.md"}

# By what a page names: its collections and its bots, beside those that `kbot serve` starts with.
KINDS = {
    "new": {},
    "handbook": {
        "collections": {
            "col_default": "Default",
            "col_team": "Team",
            "col_operations": "Operations",
        },
        "bots": {
            "bot_default": ["col_default"],
            "bot_desk": ["col_default"],
            "bot_night": ["col_operations"],
        },
    },
    "lending": {
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
}


def kind_of(text: str) -> str:
    """Return which service a page needs: the one that it says, else one with the handbook."""
    if said := re.search(r"<!-- service: (new|plain) -->", text):
        return said[1]
    return (
        "lending" if re.search(r"\b(bot|col)_(lending|workshop|handbook)\b", text) else "handbook"
    )


class Services:
    """Services that have read the handbook, unless they are the plain one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def running(self, kind: str, data: Path) -> Iterator[OnAPort | SimpleNamespace]:
        """Run a service on a copy of the data that it would have after being fed.

        One that is plain has the interface alone.
        """
        if kind == "plain":
            bots = {"bot_default": lambda _: "At nine."}
            with served(MemoryService(bots=bots, collections=["col_default"])) as url:
                yield SimpleNamespace(base_url=f"{url}/public/v1", api_key="a-key-of-a-reader")
            return
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
                if kind == "lending":
                    for file in sorted(HANDBOOK.iterdir()):
                        lending = "col_lending" if file.name in LENDING else "col_workshop"
                        client.upload_source(name=file.name, collections=lending, file=file)
                elif kind == "handbook":
                    folder = Folder(HANDBOOK, name="handbook")
                    assert ingest(client, folder, collections="col_default").ok
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
        "PWD": str(home),
        "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "XDG_DATA_HOME": str(home / ".local" / "share"),
    }
