"""Where an ingestion's items come from, and what becomes of those that are none."""

from types import SimpleNamespace

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.operators import KnowledgeBotIngestOperator
from knowledge_bot.ingest import IncompleteIngestionError

TEXTS = [{"name": f"text {number}", "content": f"It is {number} o'clock."} for number in range(6)]


def ingesting(**origin):
    return KnowledgeBotIngestOperator(
        task_id="ingest", collections="col_house", ledger_conn_id="ledger", **origin
    )


def run(operator, **context):
    return operator.execute({"ti": SimpleNamespace(xcom_push=lambda key, value: None), **context})


@pytest.fixture
def bucket():
    """Objects in a storage that is not this machine's disk."""
    storage = MemoryFileSystem()
    attach("memory", fs=storage)
    for name in ("docs/a.txt", "docs/more/b.txt", "docs/c.md", "other/d.txt"):
        storage.pipe(f"/bucket/{name}", name.encode())
    yield "memory://bucket"
    storage.rm("/bucket", recursive=True)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("docs/*.txt", ["a.txt"]),
        ("docs/**/*.txt", ["a.txt", "b.txt"]),
        ("docs", ["a.txt", "b.txt", "c.md"]),
        ("docs/c.md", ["c.md"]),
        ("docs/*.pdf", []),
    ],
)
def test_objects_are_found_by_wildcard_and_known_by_their_address(
    good, ledger, bucket, pattern, expected
):
    for address in (f"{bucket}/{pattern}", ObjectStoragePath(f"{bucket}/{pattern}")):
        report = run(ingesting(objects=address))
        assert report["created"] + report["unchanged"] == len(expected)
    assert len(good.requests) == len(expected)
    bodies = b"".join(request.body for request in good.requests)
    assert all(f'filename="{name}"'.encode() in bodies for name in expected)


def test_only_objects_that_changed_are_opened_and_what_vanished_is_gone(
    good, ledger, bucket, monkeypatch
):
    opened = []
    plain = MemoryFileSystem._open

    def counting(self, path, mode="rb", **options):
        if mode == "rb":
            opened.append(path)
        return plain(self, path, mode=mode, **options)

    monkeypatch.setattr(MemoryFileSystem, "_open", counting)
    monkeypatch.setattr("knowledge_bot.ingest.sources._objects._SETTLED", -10.0)
    assert run(ingesting(objects=f"{bucket}/docs"))["created"] == 3
    opened.clear()
    assert run(ingesting(objects=f"{bucket}/docs"))["unchanged"] == 3
    assert opened == []
    storage = MemoryFileSystem()
    storage.pipe("/bucket/docs/a.txt", b"another text")
    storage.rm("/bucket/docs/c.md")
    report = run(ingesting(objects=f"{bucket}/docs"))
    assert (report["created"], report["unchanged"], report["gone"]) == (1, 1, 1)
    assert set(opened) == {"/bucket/docs/a.txt"}


def test_an_object_that_cannot_be_read_now_is_left_to_the_next_try(
    good, ledger, bucket, monkeypatch
):
    def failing(self, path, **options):
        if path.endswith("a.txt"):
            raise TimeoutError("the store does not answer")
        return plain(self, path, **options)

    plain = MemoryFileSystem._open
    monkeypatch.setattr(MemoryFileSystem, "_open", failing)
    with pytest.raises(IncompleteIngestionError, match="the store does not answer"):
        run(ingesting(objects=f"{bucket}/docs"))
    monkeypatch.undo()
    assert len(good.requests) == 2


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"path": "/data/tides.txt", "nmae": "Tides"}, "invalid: /data/tides.txt: nmae: "),
        ({"path": 7}, "invalid: 7: path: "),
        ({"name": "Hours", "url": "https://svc.example", "headers": "A: b"}, "invalid: Hours: "),
    ],
    ids=["misspelt", "path", "headers"],
)
def test_an_item_that_is_none_is_named_and_the_others_are_there(good, ledger, item, expected):
    with pytest.raises(AirflowFailException, match=expected):
        run(ingesting(items=[item, *TEXTS]))
    assert len(good.requests) == len(TEXTS)
