"""The nights of `tests/support/nights.py` as a task: it is green exactly where the command is."""

from types import SimpleNamespace

import pytest

from airflow_knowledge_bot.operators import KnowledgeBotIngestOperator
from knowledge_bot.testing import MemoryService, no_waiting
from nights import COLLECTION, FAULTS, TWINS, Night, World

pytestmark = pytest.mark.usefixtures("ledger")

# Of a site's pages each night reads all: what is particular to a task is seen without.
NIGHTS = [night for night in (*FAULTS, *TWINS) if night.kind != "site"]


@pytest.fixture
def state_of(connect):
    """`state_of(world, **options)`: run the task, and return the state that it ends in."""
    connect("https://service.test")

    def run(world: World, **options: object) -> str:
        task = KnowledgeBotIngestOperator(
            task_id="docs",
            origin=world.origin,
            collections=COLLECTION,
            ledger_conn_id="ledger",
            **options,
        )
        instance = SimpleNamespace(try_number=1, xcom_push=lambda **_: None)
        try:
            with world.service.standing_in(), no_waiting():
                task.execute({"ti": instance})
        except Exception:  # noqa: BLE001 - whatever it is, the task is red
            return "failed"
        return "success"

    return run


@pytest.mark.parametrize("night", NIGHTS, ids=lambda night: night.happens)
def test_a_task_is_green_where_the_command_is(state_of, tmp_path, night: Night):
    service = MemoryService(collections=[COLLECTION], extensions={"sync", "sources"})
    world = World(night.kind, tmp_path, service)
    names = {"limit": "max_items"}  # what a task calls it
    options = {names.get(name, name): value for name, value in night.options.items()}
    try:
        assert state_of(world, **options) == "success"
        night.does(world)
        assert state_of(world, **options) == ("failed" if night.exit else "success")
    finally:
        world.close()
