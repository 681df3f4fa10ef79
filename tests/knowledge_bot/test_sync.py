"""The extension `sync`: what the clients send, and what they make of answers."""

import asyncio

import pytest

from knowledge_bot import AsyncClient, Client, PreconditionFailedError
from knowledge_bot._sync import SyncMissing, SyncTouch, bucket_of, mark_of
from knowledge_bot.testing import MemoryService

URL = "https://service.test"


@pytest.mark.parametrize(
    ("key", "version", "bucket", "mark"),
    [
        ("a.md", None, 59, "5462f1d49f6b2ead"),
        ("handbook/täglich.md", "12 1700000000", 205, "0ccdb6de2d01f323"),
        ("cafe\u0301", "1", 74, "6937341f58e0c23a"),
        ("caf\u00e9", "1", 181, "0b2c3b4d3b65ac6e"),
        ("../x%2Fy", "", 200, "6f982b4f22eae083"),
    ],
)
def test_sums_are_those_of_the_page(key, version, bucket, mark):
    assert (bucket_of(key), f"{mark_of(key, version):016x}") == (bucket, mark)


@pytest.fixture
def service():
    return MemoryService(extensions={"sync"})


@pytest.fixture
def client(service):
    with Client("key", URL, transport=service.transport) as client:
        yield client


def put(client, key="a.md", content="At nine.", digest=None, **more):
    return client.put_text_source(
        origin="handbook", key=key, digest=digest or f"d-{content}", version="1",
        name=key, collections="col_default", content=content, **more,
    )  # fmt: skip


def test_a_night(client, service):
    assert client.compare_origin("handbook").known is False
    assert put(client).outcome == "created"
    assert put(client).outcome == "unchanged"
    assert put(client, content="At ten.", expected="d-At nine.").outcome == "replaced"
    with pytest.raises(PreconditionFailedError) as caught:
        put(client, content="At eleven.", expected=None)
    assert caught.value.code == "entry_moved_on"
    sums = client.compare_origin("handbook")
    assert (sums.known, sums.count, sum(sums.sums)) == (True, 1, mark_of("a.md", "1"))
    touched = client.touch_entries(
        "handbook",
        [SyncTouch("b.md", "d-At ten.", "2", "B", "col_default", moved_from="a.md"),
         SyncTouch("c.md", "d")],
    )  # fmt: skip
    assert touched == {"b.md": "touched", "c.md": "moved_on"}
    (entry,) = client.list_entries("handbook", bucket=bucket_of("b.md"), status="ready")
    assert (entry.key, entry.version, entry.told) == ("b.md", "2", False)
    assert [one.name for one in client.list_origins()] == ["handbook"]
    assert client.overlapping_origins("other", ["B"], "col_default") == [("handbook", 1)]
    assert client.rename_origin("handbook", "book").count == 1
    gone = [SyncMissing("b.md", "d-At ten.", "deleted")]
    done = client.complete_origin("book", "run-1", missing=gone, limit=1, note="n")
    assert (done.removed, done.keys, service.sources) == (1, ("b.md",), [])
    again = client.complete_origin("book", "run-1", missing=gone, limit=1, note="n")
    assert again == done
    assert client.compare_origin("book").note == "n"
    client.delete_origin("book")
    client.delete_origin("book")
    assert client.list_origins() == []


def test_a_night_of_an_asynchronous_client(service):
    async def night():
        async with AsyncClient("key", URL, transport=service.async_transport) as client:
            put_ = await client.put_file_source(
                origin="o", key="k", digest="d", name="n", collections="col_default",
                file=b"content", filename="a.TXT",
            )  # fmt: skip
            entries = await client.list_entries("o")
            touched = await client.touch_entries("o", [SyncTouch(f"k{n}", "d") for n in range(600)])
            missing = [SyncMissing(f"k{n}", "d") for n in range(2001)]
            done = await client.complete_origin("o", "r", missing=missing, limit=0.5)
            return put_.outcome, [one.key for one in entries], len(touched), done.removed

    assert asyncio.run(night()) == ("created", ["k"], 600, 0)
    assert [one.path for one in service.requests].count("/sync/complete") == 3
