"""The service for the examples: the embedded service, with the handbook in it.

To use your own service, write `with Client() as client:` where the examples write
`with handbook_service() as client:`. Set `KNOWLEDGE_BOT_BASE_URL` and `KNOWLEDGE_BOT_API_KEY`, and
use the ids of your bots. If you run this file, it prints the bots.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from knowledge_bot import Client
from knowledge_bot_service import LocalService

HANDBOOK = Path(__file__).resolve().parent / "handbook"
LENDING = {"borrowing.md", "damage-and-loss.md", "membership.md", "reservations.md"}


@contextmanager
def handbook_service(data: Path | None = None) -> Iterator[Client]:
    """Start a service with three bots that have read the handbook, or a part of it.

    Args:
        data: where the service keeps everything; by default a folder that is removed at the end.
    """
    is_new = data is None or not data.exists()
    with (
        LocalService(
            data,
            collections={"col_lending": "Lending", "col_workshop": "Workshop"},
            bots={
                "bot_handbook": ["col_lending", "col_workshop"],
                "bot_lending": ["col_lending"],
                "bot_workshop": ["col_workshop"],
            },
            bot_names={
                "bot_handbook": "Handbook",
                "bot_lending": "Lending desk",
                "bot_workshop": "Workshop",
            },
        ) as service,
        Client(service.api_key, service.base_url) as client,
    ):
        for file in sorted(HANDBOOK.iterdir()) if is_new else ():
            collection = "col_lending" if file.name in LENDING else "col_workshop"
            client.upload_source(name=file.name, collections=collection, file=file)
        service.wait_until_ready()
        yield client


if __name__ == "__main__":
    with handbook_service() as client:
        for bot in client.list_bots():
            print(f"{bot.id}: {bot.name}")
