"""`RowSink`, which each engine's sink stands on."""

import pickle
import re
from collections import namedtuple
from itertools import chain
from pathlib import Path

import pytest

from calls import KEY
from knowledge_bot import Client, ConfigurationError, Delivery
from knowledge_bot.ingest import IncompleteIngestionError, Ledger, LedgerError
from knowledge_bot.sinks import RowSink
from scripted_server import reset
from sink_contract import REFUSED, SinkContract, rows_of

pytestmark = pytest.mark.timeout(60)

NEEDED = {"collections": "col_1", "ledger": "kbot.db", "key": "id", "text": "body"}
Named = namedtuple("Named", "id body")


class TestRowSink(SinkContract):
    """`write`, as in a task of Celery."""

    failure = (IncompleteIngestionError, LedgerError)

    @pytest.fixture
    def write(self):
        def write(*parts, mended=False, **options):
            return RowSink(**options).write(chain(*parts))

        return write

    def test_what_is_returned_are_the_counts(self, options, write):
        assert write(rows_of(0, 5), **options).created == 5
        report = write(rows_of(0, 7), **options)
        assert (report.created, report.unchanged, report.ok) == (2, 5, True)

    def test_an_unknown_row_fails_until_it_is_settled(self, service, options, write):
        service.judge = lambda name: reset if name == "r2" else None
        for _ in range(2):
            with pytest.raises(IncompleteIngestionError) as caught:
                write(rows_of(0, 5), **options)
            assert (caught.value.report.unknown, caught.value.delivery) == (1, Delivery.UNKNOWN)
            assert [one.name for one in caught.value.report.failures] == ["r2"]
        assert len(service.created) == 4
        service.judge = lambda name: None
        Ledger(options["ledger"]).resolve("r2", created=False)
        assert write(rows_of(0, 5), **options).created == 1

    def test_parts_are_put_together_where_the_job_ends(self, service, options):
        service.judge = lambda name: REFUSED if name in ("r1", "r12") else None
        sink = pickle.loads(pickle.dumps(RowSink(**options)))
        parts = [sink.write_part(rows_of(start, start + 10)) for start in (0, 10)]
        parts = pickle.loads(pickle.dumps(parts))
        with pytest.raises(IncompleteIngestionError) as caught:
            sink.finish(parts)
        assert (caught.value.report.created, caught.value.report.refused) == (18, 2)
        assert {one.name for one in caught.value.report.failures} == {"r1", "r12"}
        assert sink.finish([]).created == 0

    def test_rows_that_break_off_raise_what_they_raised(self, service, options, write):
        def rows():
            yield from rows_of(0, 5)
            raise OSError("the shuffle is gone")

        with pytest.raises(OSError, match="the shuffle is gone"):
            write(rows(), **options)
        assert len(service.created) == 5

    @pytest.mark.parametrize(
        "rows", [[Named("a", "One.")], [type("Row", (), {"id": "a", "body": "One."})()]]
    )
    def test_rows_may_be_named_tuples_and_objects(self, service, options, write, rows):
        assert write(rows, **options).created == 1
        assert service.created == ["a"]

    def test_columns_may_be_functions(self, service, options, write):
        functions = {"key": lambda row: row[0], "text": lambda row: row[1], "name": None}
        assert write([("a", "One."), ("b", "Two.")], **{**options, **functions}).created == 2

    def test_without_a_client_the_environment_names_the_service(
        self, service, options, write, monkeypatch
    ):
        monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", service.url)
        monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
        assert write(rows_of(0, 2), **{**options, "client": None}).created == 2
        monkeypatch.delenv("KNOWLEDGE_BOT_API_KEY")
        with pytest.raises(ConfigurationError, match="KNOWLEDGE_BOT_API_KEY"):
            write(rows_of(0, 4), **{**options, "client": None})

    @pytest.mark.parametrize("rows", ["rows", b"rows", {"id": "a", "body": "b"}, None, 3])
    def test_what_are_no_rows_is_reported(self, options, rows):
        with pytest.raises(ConfigurationError, match="rows: expected several rows"):
            RowSink(**options).write(rows)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"collections": ""}, "collections"),
        ({"collections": []}, "collections"),
        ({"ledger": None}, "ledger: expected"),
        ({"ledger": "mysql://host/ledger"}, "SQLite or PostgreSQL"),
        ({"ledger": 3}, "ledger"),
        ({"key": None}, "key: expected a column"),
        ({"text": 3}, "text: expected a column"),
        ({"name": 3}, "name: expected a column"),
        ({"table": " "}, "table: expected a name"),
        ({"client": "key"}, "client: expected a Client"),
        ({"concurrency": 0}, "concurrency"),
        ({"on_unknown": "skip"}, "on_unknown"),
        ({"rate": 0}, "rate"),
        ({"wait": -1}, "wait"),
    ],
)
def test_an_option_that_cannot_be_used_is_reported_when_the_sink_is_made(options, said):
    with pytest.raises((ConfigurationError, LedgerError), match=said):
        RowSink(**{**NEEDED, **options})


def test_the_blocks_of_the_page_make_sinks():
    page = (Path(__file__).parents[3] / "docs/how-to/engines.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "engines.md", "exec"), names)
    assert len(blocks) == 2
    assert isinstance(names["sink"], RowSink)


def test_what_a_sink_shows_holds_no_secret():
    ledger = "postgresql://me:secret@host/ledger"
    sink = RowSink(**{**NEEDED, "ledger": ledger}, client=Client(KEY, "https://x.example"))
    assert KEY not in repr(sink)
    assert "secret" not in repr(sink)
