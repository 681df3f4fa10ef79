"""The requirements of `sources` (docs/extensions.md)."""

import pytest

from conformance.kit import STATES, Kit, has


@pytest.fixture(autouse=True)
def _is_announced(kit: Kit) -> None:
    kit.announced("sources")


def test_fields(kit: Kit) -> None:
    """Every answer with a source has its state."""
    source = kit.add().done()
    for found in (source, kit.send("GET", f"/sources/{source['id']}").done()):
        has(found, revision=str, warnings=list)
        assert found["revision"], "revision is empty"
        assert found["status"] in STATES, f"status is {found['status']!r}"
        missing = {"ready_revision", "reason", "ready_at"} - found.keys()
        assert not missing, f"missing: {', '.join(sorted(missing))}"


def test_ready(kit: Kit) -> None:
    """A source becomes ready, and then questions are answered from it."""
    source, _ = kit.managed(needs=None)
    assert source["status"] == "ready", f"it is {source['status']}: {source['reason']}"
    has(source, ready_revision=source["revision"], ready_at=int)


def test_pages(kit: Kit) -> None:
    """A list is whole over its pages, the newest first."""
    name = kit.text()["name"]
    made = [kit.add(kit.text(f"Text {one}.", name)).done()["id"] for one in range(3)]
    query = "&limit=1" + "".join(f"&status={state}" for state in STATES)
    found: list[str] = []
    place: str | None = ""
    while place is not None and len(found) <= len(made):
        page = kit.listed(name, query + (f"&before={place}" if place else ""))
        assert len(page["data"]) <= 1, "a page is longer than its limit"
        found += [one["id"] for one in page["data"]]
        place = page.get("next")
    assert found == made[::-1], f"{len(made)} sources were made, the pages name {len(found)}"


def test_filters(kit: Kit) -> None:
    """A list has what its filters name, and nothing else."""
    source, _ = kit.managed(needs=None)
    for query, there in (
        (f"&collection={kit.collection}&status={source['status']}", True),
        ("&status=pending&status=processing", False),
        ("&collection=col_of_nobody", False),
        ("x", False),
    ):
        found = [one["id"] for one in kit.listed(source["name"], query)["data"]]
        assert found == [source["id"]] * there, f"{query}: {len(found)} found"


def test_unknown(kit: Kit) -> None:
    """A source that is not there gets 404 unknown_source."""
    path = "/sources/src_of_nobody"
    kit.send("GET", path).refused(404, "unknown_source")
    kit.announced("sources", "manage")
    kit.send("DELETE", path).refused(404, "unknown_source")


def test_delete(kit: Kit) -> None:
    """A source is deleted, and from then on unknown."""
    source, path = kit.managed()
    assert kit.send("DELETE", path).status == 204, "DELETE is not answered with 204"
    kit.send("GET", path).refused(404, "unknown_source")
    kit.send("DELETE", path).refused(404, "unknown_source")
    assert kit.listed(source["name"])["data"] == [], "it is still listed"
