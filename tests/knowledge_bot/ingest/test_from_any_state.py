"""Whatever the folder, the client's ledger and the service are like: one night makes them equal.

Where the service keeps the book. Each case is made from its number, so that one that fails can be
run alone.
"""

import asyncio
import random
from collections import Counter

import pytest

from calls import KEY
from knowledge_bot import AsyncClient
from knowledge_bot.ingest import Ledger, Text, aingest
from knowledge_bot.testing import MemoryService

COLLECTION = "col_1"
KEYS = [f"{folder}note {number}.md" for folder in ("", "sub/") for number in range(7)]
CONTENTS = [f"The desk opens at {hour}." for hour in range(9)]
BY_HAND = {"by hand": "Nobody's but a person's."}

BOOKS = ("intact", "lost", "old", "of another service")
SERVICES = ("intact", "emptied", "restored", "edited", "fed by hand", "new")


def a_folder(chance: random.Random) -> dict[str, str]:
    keys = chance.sample(KEYS, chance.randint(0, len(KEYS)))
    return {key: chance.choice(CONTENTS) for key in keys}


class Night:
    """A service, and a client's ledger that stands beside it."""

    def __init__(self, service: MemoryService, ledger: Ledger) -> None:
        self.service, self.ledger = service, ledger
        url = "https://service.test"
        self.client = AsyncClient(KEY, url, transport=service.async_transport)

    async def feed(self, folder: dict[str, str], **options: object):
        items = [Text(name=key, content=content) for key, content in folder.items()]
        how = {"collections": COLLECTION, "ledger": self.ledger, "gone_limit": 1, **options}
        return await aingest(self.client, items, origin="handbook", **how)

    async def create(self, several: dict[str, str]) -> None:
        for name, content in several.items():
            await self.client.create_text_source(name=name, collections=COLLECTION, content=content)

    async def delete(self, chance: random.Random, share: float) -> None:
        for source in list(self.service.sources):
            if chance.random() < share:
                await self.client.delete_source(source["id"])

    def answers(self) -> Counter[tuple[str, str]]:
        """What is answered from: names with their contents."""
        return Counter(
            (source["name"], self.service.ready_content(source["id"]))
            for source in self.service.sources
        )


async def prepared(night: Night, case: str, now: dict[str, str], chance: random.Random) -> Counter:
    """Bring a service into a state; return what belongs to no origin and has to stay."""
    older, last = a_folder(chance), a_folder(chance)
    if case not in ("new", "fed by hand"):
        await night.feed(older)
    if case in ("intact", "edited") and (await night.feed(last)).gone:
        await night.feed(last)
    if case == "emptied":
        await night.delete(chance, 1)
    if case == "edited":
        await night.delete(chance, 0.3)
        await night.create(BY_HAND)
        return Counter(BY_HAND.items())
    if case == "fed by hand":
        await night.create(dict(chance.sample(sorted(now.items()), len(now) // 2)))
    return Counter()


async def is_right(number: int, ledger: Ledger) -> None:
    chance = random.Random(number)
    book, case, now = chance.choice(BOOKS), chance.choice(SERVICES), a_folder(chance)
    service = MemoryService(collections=[COLLECTION], extensions={"sources", "sync"})
    night = Night(service, ledger)
    if book == "of another service":
        other = MemoryService(collections=[COLLECTION], extensions={"sources", "sync"})
        await Night(other, ledger).feed(a_folder(chance))
    theirs = await prepared(night, case, now, chance)
    said = f"case {number}: {case}, the ledger {book}"
    first = await night.feed(now, anyway=True)
    assert first.ok, f"{said}: {first} {first.failures}"
    if first.gone:  # they wait to be missed twice
        assert (second := await night.feed(now)).ok, f"{said}: {second} {second.failures}"
    assert night.answers() == Counter(now.items()) + theirs, said
    sent = len(service.requests)
    again = await night.feed(now)
    assert again.unchanged == len(now), f"{said}: {again}"
    assert not again.sent + again.moved + again.removed + again.gone, f"{said}: {again}"
    writes = [one for one in service.requests[sent:] if one.method == "PUT"]
    assert not writes, said


def all_right(numbers: range, ledger: Ledger) -> None:
    async def main() -> None:
        for number in numbers:
            await is_right(number, ledger)

    asyncio.run(main())


def test_one_night_makes_the_service_what_the_origin_is(tmp_path):
    all_right(range(300), Ledger(tmp_path / "ledger.db"))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_nights_make_the_service_what_the_origin_is(tmp_path):
    all_right(range(300, 10_300), Ledger(tmp_path / "ledger.db"))
