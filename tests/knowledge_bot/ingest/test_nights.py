"""What a night ends with: green, or red for something that a person has not been told of.

Each row is a fault, or its twin that must be green, on `kbot ingest … --quiet` as cron runs it.
"""

import json
from contextlib import closing

import pytest
from click.testing import CliRunner

from calls import KEY
from knowledge_bot.cli import main
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
    assert (code, bool(stderr), summary["ok"]) == (wanted, wanted != 0, wanted == 0), said
    now = there(service)
    assert len(now.items() - before.items()) == sent, said
    removed = 0 if plain else night.removed
    assert summary.get("removed", 0) == removed
    assert len(before.keys() - now.keys()) == night.lost + removed, said
