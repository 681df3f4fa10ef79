"""The requirements of `passages` (docs/extensions.md)."""

import os
from urllib.parse import quote

import pytest

from conformance.kit import Kit, has


@pytest.fixture(autouse=True)
def _is_announced(kit: Kit) -> None:
    kit.announced("passages")


def test_search(kit: Kit) -> None:
    """The passages of a source that is ready are found, the best first, as many as wanted."""
    word = f"quorvex{os.urandom(3).hex()}"
    best = kit.passage(word)
    assert word in best["text"], "the text of the passage is another"
    kit.passage(f"{word} quorvex")
    found = kit.passages(f"What colour is the {word} quorvex here?")
    scores = [one["score"] for one in found]
    assert scores == sorted(scores, reverse=True), f"the scores are {scores}"
    assert len(found) > 1, "a passage with some of the words is not found"
    assert len(kit.passages(word, limit=1)) == 1, "there are more than the limit"


def test_places(kit: Kit) -> None:
    """A search looks in the bot's collections, or in those that it names."""
    word = f"quorvex{os.urandom(3).hex()}"
    kit.passage(word)
    answer = kit.send("POST", "/search", {"query": word, "collections": ["col_of_nobody"]})
    found = answer.value.get("data") if answer.status < 300 else []
    assert found == [], "found in a collection that is not there"
    if kit.bot is not None:
        fields = {"query": word, "bot_id": kit.bot}
        kit.send("POST", "/search", fields).done()


def test_read(kit: Kit) -> None:
    """A passage is read by its id; one that is not there gets 404 unknown_passage."""
    found = kit.passage(f"quorvex{os.urandom(3).hex()}")
    read = kit.send("GET", f"/passages/{quote(found['id'], safe='')}").done()
    has(read, **{name: found[name] for name in ("id", "source_id", "revision", "text")})
    kit.send("GET", "/passages/pas_of_nobody").refused(404, "unknown_passage")


def test_deleted(kit: Kit) -> None:
    """The passages of a source that is deleted are gone."""
    kit.announced("sources", "manage")
    word = f"quorvex{os.urandom(3).hex()}"
    found = kit.passage(word)
    kit.send("DELETE", f"/sources/{found['source_id']}").done()
    path = f"/passages/{quote(found['id'], safe='')}"
    kit.send("GET", path).refused(404, "unknown_passage")
    ids = [one["id"] for one in kit.passages(word)]
    assert found["id"] not in ids, "it is still found"
