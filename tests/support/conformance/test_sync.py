"""The requirements of `sync` (docs/extensions.md)."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import pytest

from conformance.kit import TEXT, Kit, Replied, has
from knowledge_bot._sync import BUCKETS, SUM_MODULUS, bucket_of, mark_of

_AT_ONCE = 8

# Keys that something on the way might take for each other, for paths, or for nothing.
_KEYS = (
    *("a", "A", "a ", " a", "a.md", "./a.md", "b/../a.md", "..", "../x%2Fy", "../x/y", "a%2fb"),
    *("caf\u00e9", "cafe\u0301", "\ufb01", "fi", "\u00df", "ss", "\ufffd", "a\n", "?#&="),
    *("\U0001f600", "x" * 2048, "\U0001f600" * 2048),
)  # fmt: skip

_TOO_MUCH = {
    "key": ("", "x" * 2049, "a\0b", "half \ud800", 7, None),
    "origin": ("", "x" * 2049, "a\0b", "half \udfff"),
    "version": ("x" * 2049, "\u00e9" * 1025, "a\0b", "half \ud800", 7),
    "digest": ("", "x" * 129, "\u00e9", "a\0b", None),
}


@pytest.fixture(autouse=True)
def _is_announced(kit: Kit) -> None:
    kit.announced("sync")


def digest_of(content: str) -> str:
    return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"


def item(kit: Kit, origin: str, key: str = "a.md", content: str = TEXT, **more: Any) -> Any:
    """Return what puts a text."""
    name = f"{origin} {hashlib.sha256(key.encode()).hexdigest()[:8]}"
    identity = {"origin": origin, "key": key, "version": "1", "digest": digest_of(content)}
    return {**kit.text(content, name), **identity, **more}


def put(kit: Kit, origin: str, key: str = "a.md", content: str = TEXT, **more: Any) -> Replied:
    return kit.send("PUT", "/sync/write", item(kit, origin, key, content, **more))


def put_file(kit: Kit, filename: str, fields: Any) -> Replied:
    return kit.upload("PUT", "/sync/upload", fields, filename=filename)


def outcome(answer: Replied, wanted: str) -> Any:
    """Check what a put came to, and return its source."""
    has(answer.done(), outcome=wanted)
    return answer.value["source"]


def sums(kit: Kit, origin: str) -> Any:
    return kit.send("GET", f"/sync?{urlencode({'origin': origin})}").done()


def entries(kit: Kit, origin: str, **query: Any) -> Any:
    """Return the entries of an origin by their keys, from one page."""
    asked = urlencode({"origin": origin, **query}, doseq=True)
    page = kit.send("GET", f"/sync/entries?{asked}").done()
    return {one["key"]: one for one in page["data"]}


def filled(kit: Kit, count: int) -> tuple[str, list[str]]:
    """Make an origin with so many entries; return its name and their keys."""
    origin, keys = kit.origin(), [f"{number:03}.md" for number in range(count)]
    for key in keys:
        outcome(put(kit, origin, key), "created")
    return origin, keys


def missing(keys: Sequence[str], sure: bool = True, content: str = TEXT) -> list[dict[str, Any]]:
    digest = digest_of(content)
    return [{"key": key, "digest": digest, "reason": "gone", "sure": sure} for key in keys]


def complete(kit: Kit, origin: str, gone: Any, **more: Any) -> Any:
    """Say that this is missing, in a new run and with a limit of 1 unless others are given."""
    usual = {"origin": origin, "run": os.urandom(8).hex(), "missing": gone, "limit": 1}
    fields = usual | more
    return kit.send("POST", "/sync/complete", fields).done()


def decided(completion: Any, removed: int, waiting: int, withheld: int) -> None:
    has(completion, removed=removed, waiting=waiting, withheld=withheld)
    assert len(completion["keys"]) == removed, "its keys are not those that were removed"


def touch(kit: Kit, origin: str, *entries: Any, client: Any = None) -> Any:
    fields = {"origin": origin, "entries": entries}
    answer = kit.send("POST", "/sync/touch", fields, client=client).done()
    return {one["key"]: one["outcome"] for one in answer["data"]}


# Compare ------------------------------------------------------------------------------------------


def test_sums(kit: Kit) -> None:
    """The sums of an origin are those of its entries, to the byte."""
    origin = kit.origin()
    has(sums(kit, origin), known=False, count=0, completed_at=None)
    assert sums(kit, origin)["sums"] == ["0" * 16] * BUCKETS, "an unknown origin has sums"
    wanted, versions = [0] * BUCKETS, ("12 1700000000", "", None)
    for number, key in enumerate(_KEYS):
        version = versions[number % 3]
        put(kit, origin, key, version=version).done()
        mark = wanted[bucket_of(key)] + mark_of(key, version)
        wanted[bucket_of(key)] = mark % SUM_MODULUS
    found = sums(kit, origin)
    has(found, known=True, count=len(_KEYS))
    wrong = [
        bucket for bucket in range(BUCKETS) if found["sums"][bucket] != f"{wanted[bucket]:016x}"
    ]
    assert not wrong, f"the sums of these buckets are others: {wrong}"


def test_entries(kit: Kit) -> None:
    """A list of entries is whole over its pages, in the order of the keys' UTF-8."""
    origin = kit.origin()
    sources = {key: put(kit, origin, key).done()["source"]["id"] for key in _KEYS}
    found: list[str] = []
    place: dict[str, Any] = {}
    while len(found) <= len(_KEYS):
        asked = urlencode({"origin": origin, "limit": 5, **place})
        page = kit.send("GET", f"/sync/entries?{asked}").done()
        assert len(page["data"]) <= 5, "a page is longer than its limit"
        found += [one["key"] for one in page["data"]]
        for one in page["data"]:
            has(one, version="1", digest=digest_of(TEXT), source_id=sources[one["key"]])
        if page.get("next") is None:
            break
        place = {"after": page["next"]}
    assert found == sorted(_KEYS, key=str.encode), "keys are missing, or in another order"


def test_entry_filters(kit: Kit) -> None:
    """A list of entries has what its filters name, and nothing else."""
    origin, keys = filled(kit, 4)
    source = put(kit, origin, keys[0]).done()["source"]
    status = kit.until_ready(f"/sources/{source['id']}")["status"]
    bucket = bucket_of(keys[0])
    inside = {key for key in keys if bucket_of(key) == bucket}
    assert set(entries(kit, origin, bucket=bucket)) == inside, "another bucket is listed"
    assert keys[0] in entries(kit, origin, status=[status, "processing"])
    assert not entries(kit, origin, status="failed"), "another status is listed"


def test_keys(kit: Kit) -> None:
    """Two keys are the same if their code points are."""
    origin = kit.origin()
    for key in _KEYS:
        outcome(put(kit, origin, key), "created")
    assert {*entries(kit, origin, limit=100)} == {*_KEYS}, "keys came back as others"


def test_bounds(kit: Kit) -> None:
    """What is longer than the page allows, or holds what no text may, is refused."""
    origin = kit.origin()
    for name, several in _TOO_MUCH.items():
        for text in several:
            answer = kit.send("PUT", "/sync/write", {**item(kit, origin), name: text})
            assert answer.status == 400, f"{name} {text!r:.20} is answered with {answer.status}"
    has(sums(kit, origin), count=0)
    for query in ("", "origin=", "origin=%00", "origin=%ED%A0%80", f"origin={'x' * 2049}"):
        assert kit.send("GET", f"/sync?{query}").status == 400, f"?{query[:20]} is not refused"


def test_apart(kit: Kit) -> None:
    """The same key of two origins are two entries, and one origin does nothing to another."""
    (one, keys), other = filled(kit, 1), kit.origin()
    outcome(put(kit, other, keys[0], "Another text."), "created")
    foreign = put(kit, other, "b.md").done()["source"]["id"]
    assert touch(kit, one, {"key": "b.md", "digest": digest_of(TEXT)}) == {"b.md": "moved_on"}
    decided(complete(kit, one, missing(["b.md"])), 0, 0, 0)
    has(entries(kit, other)["b.md"], source_id=foreign)
    has(sums(kit, one), count=1)


# Put ----------------------------------------------------------------------------------------------


def test_put(kit: Kit) -> None:
    """An entry is created, left as it is, and replaced in place."""
    origin = kit.origin()
    first = outcome(put(kit, origin, expected=None), "created")
    ready = kit.until_ready(f"/sources/{first['id']}")
    has(ready, status="ready")
    same = outcome(put(kit, origin, version=None, name=f"{origin} renamed"), "unchanged")
    has(same, id=first["id"], name=f"{origin} renamed", revision=first["revision"])
    has(entries(kit, origin)["a.md"], version=None)
    for number, expected in enumerate(({"expected": digest_of(TEXT)}, {})):
        after = outcome(put(kit, origin, "a.md", f"Text {number}.", **expected), "replaced")
        has(after, id=first["id"])
        assert after["revision"] != first["revision"], "it has the old revision"
        assert after["ready_revision"], "the old text is not answered from"


def test_kinds(kit: Kit) -> None:
    """A text, and files with other suffixes, are not the same with the same digest."""
    origin = kit.origin()
    first = outcome(put(kit, origin), "created")
    for filename, wanted in (("a.md", "replaced"), ("b.MD", "unchanged"), ("a.txt", "replaced")):
        has(outcome(put_file(kit, filename, item(kit, origin)), wanted), id=first["id"])


def test_moved_on(kit: Kit) -> None:
    """What expects another digest gets 412, and is not done."""
    origin = kit.origin()
    for expected in (None, "of-another-time"):
        outcome(put(kit, origin), "unchanged" if expected else "created")
        answer = put(kit, origin, "a.md", "Another text.", expected=expected)
        answer.refused(412, "entry_moved_on")
        outcome(put(kit, origin, expected=expected), "unchanged")  # as it was sent before
    outcome(put(kit, origin, "new.md", expected="of-another-time"), "created")


def test_digest(kit: Kit) -> None:
    """A digest of SHA-256 is checked, and another content is not taken."""
    origin, other = kit.origin(), digest_of("Another text.")
    put(kit, origin, digest=other).refused(400, "digest_mismatch")
    put_file(kit, "a.md", item(kit, origin, digest=other)).refused(400, "digest_mismatch")
    has(sums(kit, origin), count=0)
    outcome(put(kit, origin, digest="of my own"), "created")
    put(kit, origin, digest=other).refused(400, "digest_mismatch")
    has(entries(kit, origin)["a.md"], digest="of my own")


def test_repeated(kit: Kit) -> None:
    """A put that is sent again has no second effect, and one that comes late undoes nothing."""
    origin = kit.origin()
    late = item(kit, origin, "a.md", "Second.", expected=digest_of("First."))
    first = outcome(put(kit, origin, "a.md", "First.", expected=None), "created")
    for wanted in ("replaced", "unchanged"):
        has(outcome(kit.send("PUT", "/sync/write", late), wanted), id=first["id"])
    outcome(put(kit, origin, "a.md", "Third.", expected=digest_of("Second.")), "replaced")
    kit.send("PUT", "/sync/write", late).refused(412, "entry_moved_on")
    put(kit, origin, "a.md", "First.", expected=None).refused(412, "entry_moved_on")
    has(entries(kit, origin)["a.md"], digest=digest_of("Third."), source_id=first["id"])
    has(sums(kit, origin), count=1)


def test_puts_at_once(kit: Kit) -> None:
    """Of puts that come at once and saw no entry, one creates it."""
    origin = kit.origin()
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        answers = [*threads.map(lambda n: put(kit, origin, "a", f"{n}", expected=None), range(8))]
    statuses = sorted(one.status for one in answers)
    assert statuses == [200] + [412] * (_AT_ONCE - 1), f"answered {statuses}"
    has(sums(kit, origin), count=1)


def test_adopted(kit: Kit) -> None:
    """A key that is new takes over one source that is the same and belongs to no origin."""
    origins = [kit.origin() for _ in range(3)]
    for copies in (1, 2):
        text = kit.text()
        made = {kit.add(text).done()["id"] for _ in range(copies)}
        for number, origin in enumerate(origins):
            wanted = "adopted" if number < copies else "created"
            source = outcome(put(kit, origin, f"{copies}.md", **text), wanted)
            assert (source["id"] in made) == (wanted == "adopted"), "it is another source"
            made -= {source["id"]}


def test_answers(kit: Kit) -> None:
    """A question is answered while a source is replaced, and not after it was deleted."""
    origin, word = kit.origin(), f"quorvex{os.urandom(3).hex()}"
    fact = f"The colour of the {word} is violet."

    def is_told() -> bool:
        return "violet" in str(kit.ask(f"What colour is the {word}?").done()["answer"])

    path = f"/sources/{put(kit, origin, 'a', fact).done()['source']['id']}"
    before = kit.until_ready(path)
    if not is_told():
        pytest.skip("the bot does not answer from what is added here")

    def look(found: Any) -> None:
        if found["status"] in ("pending", "processing"):
            has(found, ready_revision=before["revision"])
        assert is_told(), "answered from neither the old nor the new text"

    look(outcome(put(kit, origin, "a", f"{fact} It is old."), "replaced"))
    kit.until_ready(path, look)
    decided(complete(kit, origin, missing(["a"], content=f"{fact} It is old.")), 1, 0, 0)
    assert not is_told(), "answered from a source that is deleted"


def test_failed(kit: Kit) -> None:
    """Where the new text fails, the old one stays, and a reason is given."""
    origin = kit.origin()
    path = f"/sources/{put(kit, origin).done()['source']['id']}"
    before = kit.until_ready(path)
    answer = put_file(kit, "a.pdf", item(kit, origin, "a.md", "%PDF-1.7\nnothing of a PDF"))
    after = kit.until_ready(path) if answer.status < 300 else {"status": "refused"}
    if after["status"] != "failed":
        pytest.skip(f"a broken document is {after['status']} here")
    assert after["ready_revision"] == before["revision"], "the old text is gone"
    assert after["reason"], "there is no reason"
    has(sums(kit, origin), failed=1, untold=1)


def test_source_deleted(kit: Kit) -> None:
    """A source that is deleted takes its entry with it."""
    kit.announced("sources", "manage")
    origin, keys = filled(kit, 2)
    gone = entries(kit, origin)[keys[0]]["source_id"]
    assert kit.send("DELETE", f"/sources/{gone}").status == 204
    has(sums(kit, origin), count=1)
    assert [*entries(kit, origin)] == keys[1:]
    outcome(put(kit, origin, keys[0]), "created")


# Touch --------------------------------------------------------------------------------------------


def test_touch(kit: Kit) -> None:
    """A touch gives a new version and name, and does nothing where the content is another."""
    origin, keys = filled(kit, 3)
    before, digest = entries(kit, origin), digest_of(TEXT)
    said = touch(
        kit,
        origin,
        {"key": keys[0], "digest": digest, "version": "2", "name": f"{origin} touched"},
        {"key": keys[1], "digest": "of another time", "version": "2"},
        {"key": "of nobody", "digest": digest, "version": "2"},
    )
    assert said == {keys[0]: "touched", keys[1]: "moved_on", "of nobody": "moved_on"}
    after = entries(kit, origin)
    assert [after[key]["version"] for key in keys] == ["2", "1", "1"]
    assert [after[key]["source_id"] for key in keys] == [before[k]["source_id"] for k in keys]
    source = kit.send("GET", f"/sources/{after[keys[0]]['source_id']}").done()
    has(source, name=f"{origin} touched")


def test_moved(kit: Kit) -> None:
    """A touch moves an entry to another key, also when it is sent again, and takes no other's."""
    origin, keys = filled(kit, 2)
    source, digest = entries(kit, origin)[keys[0]]["source_id"], digest_of(TEXT)
    taken = {"key": keys[1], "digest": digest, "version": "2", "moved_from": keys[0]}
    moved = {**taken, "key": "moved.md"}
    assert touch(kit, origin, taken) == {keys[1]: "moved_on"}
    for _ in range(2):
        assert touch(kit, origin, moved) == {"moved.md": "touched"}
    has(entries(kit, origin)["moved.md"], source_id=source, version="2")
    has(sums(kit, origin), count=2)


# Complete -----------------------------------------------------------------------------------------


def test_few(kit: Kit) -> None:
    """A few that are surely missing are removed at once, others when a second run misses them."""
    origin, keys = filled(kit, 8)
    decided(complete(kit, origin, missing(keys[:4]) + missing(keys[4:5], sure=False)), 4, 1, 0)
    assert [*entries(kit, origin)] == keys[4:]
    decided(complete(kit, origin, []), 0, 0, 0)  # it is back
    decided(complete(kit, origin, missing(keys[4:5], sure=False)), 0, 1, 0)
    decided(complete(kit, origin, missing(keys[4:5], sure=False)), 1, 0, 0)
    has(sums(kit, origin), count=3)


def test_many(kit: Kit) -> None:
    """Many are removed when a second run misses them, and not when the same run says it again."""
    origin, keys = filled(kit, 10)
    for _ in range(2):
        decided(complete(kit, origin, missing(keys[:6]), run="first"), 0, 6, 0)
    has(sums(kit, origin), count=10)
    for _ in range(2):
        decided(complete(kit, origin, missing(keys[:6]), run="second"), 6, 0, 0)
    assert [*entries(kit, origin)] == keys[6:]


def test_withheld(kit: Kit) -> None:
    """Nothing is removed where more is missing than the limit allows."""
    origin, keys = filled(kit, 4)
    for _ in range(2):
        decided(complete(kit, origin, missing(keys[:3]), limit=0.5), 0, 0, 3)
    has(sums(kit, origin), count=4)
    decided(complete(kit, origin, missing(keys[:2]), limit=0.5), 2, 0, 0)


def test_missing_moved_on(kit: Kit) -> None:
    """What has another digest by now is not missing."""
    origin, keys = filled(kit, 2)
    outcome(put(kit, origin, keys[0], "Another text."), "replaced")
    decided(complete(kit, origin, missing(keys), limit=0.5), 1, 0, 0)
    assert [*entries(kit, origin)] == keys[:1]


def test_parts(kit: Kit) -> None:
    """What is missing may come in parts, and is decided upon with the last."""
    origin, keys = filled(kit, 4)
    for _ in range(2):
        answer = complete(kit, origin, missing(keys[:1]), run="one", limit=0.5, more=True)
        assert answer == {}, "a part is answered with a decision"
    has(sums(kit, origin), count=4, completed_at=None)
    decided(complete(kit, origin, missing(keys[1:3]), run="one", limit=0.5), 0, 0, 3)


def test_completed(kit: Kit) -> None:
    """An origin has the time and the note of its last completion."""
    origin, note = kit.origin(), "What the next run is told: \U0001f600"
    complete(kit, origin, [], note=note)
    has(sums(kit, origin), known=True, count=0, completed_at=int, note=note)
    complete(kit, origin, [], note=None)
    has(sums(kit, origin), note=None)


def test_told(kit: Kit) -> None:
    """A reason that was told is told, and no other reason is."""
    origin = kit.origin()
    answer = put_file(kit, "a.pdf", item(kit, origin, "a", "%PDF-1.7\nnothing of a PDF"))
    answer = answer.value.get("source", {}).get("id")
    after = kit.until_ready(f"/sources/{answer}") if answer else {"status": "refused"}
    if after["status"] != "failed":
        pytest.skip(f"a broken document is {after['status']} here")
    for reason, untold in (("another reason", 1), (after["reason"], 0)):
        complete(kit, origin, [], told=[{"key": "a", "reason": reason}])
        has(sums(kit, origin), failed=1, untold=untold)
        found = entries(kit, origin, status="failed")["a"]
        assert (found["reason"], bool(found.get("told"))) == (after["reason"], not untold)


# Origins ------------------------------------------------------------------------------------------


def test_origins(kit: Kit) -> None:
    """An origin is listed, renamed to a name that is free, and deleted with its sources."""
    (first, _), (second, _), renamed = filled(kit, 2), filled(kit, 1), kit.origin()
    place = f"/sync/origins?{urlencode({'origin': first})}"
    listed = {one["name"]: one["count"] for one in kit.send("GET", "/sync/origins").done()["data"]}
    assert (listed.get(first), listed.get(second)) == (2, 1), "an origin is not listed"
    kit.send("PATCH", place, {"name": second}).refused(409, "origin_exists")
    has(kit.send("PATCH", place, {"name": renamed}).done(), name=renamed, count=2)
    for method in ("PATCH", "DELETE"):
        kit.send(method, place, {"name": first}).refused(404, "unknown_origin")
    sources = [one["source_id"] for one in entries(kit, renamed).values()]
    has(sums(kit, first), known=False)
    place = f"/sync/origins?{urlencode({'origin': renamed})}"
    assert kit.send("DELETE", place).status == 204, "DELETE is not answered with 204"
    has(sums(kit, renamed), known=False, count=0)
    for source in sources:
        kit.send("GET", f"/sources/{source}").refused(404, "unknown_source")


def test_overlap(kit: Kit) -> None:
    """What others hold of an origin's names is counted, by origin."""
    (first, keys), own = filled(kit, 2), kit.origin()
    alone = kit.add().done()["name"]
    names = [item(kit, first, key)["name"] for key in keys]
    for origin, wanted in ((own, [(first, 2), (None, 1)]), (first, [(None, 1)])):
        asked = {
            "origin": origin,
            "names": [*names, alone, f"{own} of nobody"],
            "collections": [kit.collection],
        }
        found = kit.send("POST", "/sync/overlap", asked).done()["data"]
        assert [(one["origin"], one["names"]) for one in found] == wanted
    has(sums(kit, own), known=False)


# Rights -------------------------------------------------------------------------------------------


def test_limited_key(kit: Kit) -> None:
    """A key that does not see a collection sees no entry of it, and changes none."""
    guest = kit.limited
    if guest is None:
        pytest.skip("no API key is given that does not see the collection")
    origin, keys = filled(kit, 1)
    query = urlencode({"origin": origin})
    has(kit.send("GET", f"/sync?{query}", client=guest).done(), count=0)
    assert kit.send("GET", f"/sync/entries?{query}", client=guest).done()["data"] == []
    answer = kit.send("PUT", "/sync/write", item(kit, origin), client=guest)
    assert answer.status in (400, 403), f"a put is answered with {answer.status}"
    fields = {"origin": origin, "entries": [{"key": keys[0], "digest": digest_of(TEXT)}]}
    answer = kit.send("POST", "/sync/touch", fields, client=guest)
    assert answer.status == 403, f"a touch is answered with {answer.status}"
    fields = {"origin": origin, "run": "guest", "missing": missing(keys), "limit": 1}
    decided(kit.send("POST", "/sync/complete", fields, client=guest).done(), 0, 0, 0)
    has(entries(kit, origin)[keys[0]], version="1")
