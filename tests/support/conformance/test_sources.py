"""The requirements of `sources` (docs/extensions.md)."""

import os

import pytest

from conformance.kit import STATES, TEXT, Kit, has


@pytest.fixture(autouse=True)
def _is_announced(kit: Kit) -> None:
    kit.announced("sources")


def test_fields(kit: Kit) -> None:
    """Every answer with a source has its state, and an ETag of its revision."""
    source = kit.add().done()
    answer = kit.send("GET", f"/sources/{source['id']}")
    for found in (source, answer.done()):
        has(found, revision=str, warnings=list)
        assert found["revision"], "revision is empty"
        assert found["status"] in STATES, f"status is {found['status']!r}"
        missing = {"ready_revision", "reason", "ready_at"} - found.keys()
        assert not missing, f"missing: {', '.join(sorted(missing))}"
    has(answer.headers, etag=f'"{answer.value["revision"]}"')


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
    kit.put(path, TEXT).refused(404, "unknown_source")
    kit.send("DELETE", path).refused(404, "unknown_source")


def test_replace(kit: Kit) -> None:
    """A source is replaced in place: the old text is read until then."""
    source, path = kit.managed()
    after = kit.replaced(source, "Another text.")
    assert after["ready_revision"] == after["revision"], "the new text is not ready"
    kit.upload("PUT", f"{path}/upload", kit.text("A third text.")).done()


def test_answers(kit: Kit) -> None:
    """A question is answered while its source is replaced."""
    word = f"quorvex{os.urandom(3).hex()}"
    fact = f"The colour of the {word} is violet."

    def is_told() -> bool:
        return "violet" in str(kit.ask(f"What colour is the {word}?").done()["answer"])

    source, path = kit.managed(fact)
    if not is_told():
        pytest.skip("the bot does not answer from what is added here")

    def look() -> None:
        assert is_told(), "answered from neither the old nor the new text"

    kit.replaced(source, f"{fact} It is old.", look)
    kit.send("DELETE", path).done()
    assert not is_told(), "answered from a source that is deleted"


def test_failed(kit: Kit) -> None:
    """Where the new text fails, the old one stays, and a reason is given."""
    source, path = kit.managed()
    answer = kit.upload("PUT", f"{path}/upload", kit.text("%PDF-1.7\nnothing of a PDF"))
    after = kit.until_ready(path) if answer.status < 300 else {"status": "refused"}
    if after["status"] != "failed":
        pytest.skip(f"a broken document is {after['status']} here")
    assert after["ready_revision"] == source["revision"], "the old text is gone"
    assert after["reason"], "there is no reason"


def test_if_match(kit: Kit) -> None:
    """What is meant for another revision gets 412, and is not done."""
    source, path = kit.managed()
    other = '"of-another-time"'
    kit.put(path, "Another text.", other).refused(412, "revision_changed")
    kit.send("DELETE", path, None, ("If-Match", other)).refused(412, "revision_changed")
    has(kit.send("GET", path).done(), revision=source["revision"])
    for tag in (f'"{source["revision"]}"', "*"):
        kit.put(path, "Another text.", tag).done()


def test_lost_answer(kit: Kit) -> None:
    """A replacement that is sent again gets its answer, not 412 (recommended)."""
    source, path = kit.managed()
    tag = f'"{source["revision"]}"'
    first, again = (kit.put(path, "Another text.", tag).done() for _ in range(2))
    has(again, revision=first["revision"])


def test_rename(kit: Kit) -> None:
    """A source is renamed in place, and nothing is read again."""
    kit.announced("sources", "rename")
    source, path = kit.managed()
    name = f"{source['name']} renamed"
    for after in (kit.send("PATCH", path, {"name": name}), kit.send("GET", path)):
        has(after.done(), id=source["id"], name=name, ready_revision=source["ready_revision"])


def test_delete(kit: Kit) -> None:
    """A source is deleted, and from then on unknown."""
    source, path = kit.managed()
    assert kit.send("DELETE", path).status == 204, "DELETE is not answered with 204"
    kit.send("GET", path).refused(404, "unknown_source")
    kit.send("DELETE", path).refused(404, "unknown_source")
    assert kit.listed(source["name"])["data"] == [], "it is still listed"
