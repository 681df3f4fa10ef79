"""`RowSink`, which each engine's sink stands on."""

import pickle
import re
from collections import namedtuple
from datetime import date
from decimal import Decimal
from itertools import chain
from pathlib import Path
from uuid import UUID

import pytest

from calls import KEY
from knowledge_bot import Client, ConfigurationError, ConnectionLostError, Delivery
from knowledge_bot.ingest import IncompleteIngestionError, Ledger, LedgerError
from knowledge_bot.sinks import RowSink
from knowledge_bot.testing import MemoryService, no_waiting
from refusals import refused
from scripted_server import reset
from sink_contract import REFUSED, SinkContract, rows_of

pytestmark = pytest.mark.timeout(60)

NEEDED = {"collections": "col_1", "ledger": "kbot.db", "key": "id", "text": "body"}
Named = namedtuple("Named", "id body")


class NAType:
    """As pandas' NA: of this name, and not even comparable."""

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = None


@pytest.fixture
def in_memory(tmp_path):
    """A service that deletes, and a sink of it."""
    service = MemoryService(extensions={"sources"})
    client = Client(KEY, "https://service.test", transport=service.transport)
    needed = {**NEEDED, "collections": "col_default", "ledger": tmp_path / "kbot.db"}
    return service, RowSink(**needed, table="articles", client=client)


def test_rows_are_deleted_by_their_keys(in_memory):
    service, sink = in_memory
    sink.write(rows_of(0, 3))
    assert sink.delete([{"id": "r1"}, {"id": "r9", "body": None}]) == ["articles/r1"]
    assert [one["name"] for one in service.sources] == ["r0", "r2"]
    with pytest.raises(ConfigurationError, match="row 2"):
        sink.delete([{"id": "r0"}, {"body": "No key."}])
    assert len(service.sources) == 2
    assert sink.write(rows_of(0, 3)).created == 1


def test_a_row_whose_deletion_is_in_doubt_is_created_again(in_memory):
    service, sink = in_memory
    sink.write(rows_of(0, 3))
    service.lose_next_answer(times=3)
    with no_waiting(), pytest.raises(ConnectionLostError):
        sink.delete([{"id": "r1"}])
    sink.write(rows_of(0, 3))
    assert sorted(one["name"] for one in service.sources) == ["r0", "r1", "r2"]


class TestRowSink(SinkContract):
    """`write`, as in a task of Celery."""

    failure = (IncompleteIngestionError, ConfigurationError, LedgerError)

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

    def test_a_key_without_its_table_is_answered_with_the_right_one(self, service, options, write):
        service.judge = lambda name: reset
        with pytest.raises(IncompleteIngestionError):
            write(rows_of(2, 3), **options, table="articles")
        with pytest.raises(LedgerError, match="'r2'; did you mean 'articles/r2'"):
            Ledger(options["ledger"]).resolve("r2", created=False)

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

    def test_a_key_with_two_texts_in_two_parts_fails_the_job_in_every_run(self, service, options):
        sink = RowSink(**options)
        texts = ("A", "B")
        for _ in range(2):
            parts = [sink.write_part([{"id": "pp", "body": text}]) for text in texts]
            with pytest.raises(IncompleteIngestionError) as caught:
                sink.finish(pickle.loads(pickle.dumps(parts)))
            assert caught.value.report.invalid == 1
            assert [one.name for one in caught.value.report.failures] == ["pp"]
            texts = ("A", "C")
        report = sink.finish([sink.write_part([{"id": "pp", "body": "D"}])])
        assert (report.created, report.superseded) == (1, 1)

    def test_a_key_with_the_same_text_in_two_parts_is_sent_once(self, service, options):
        sink = RowSink(**options)
        for body in ("A", "B"):
            parts = [sink.write_part([{"id": "pp", "body": body}]) for _ in range(2)]
            assert sink.finish(parts).unchanged == 1
        assert len(service.created) == 2

    def test_rows_without_a_key_are_named_with_their_part(self, options):
        sink = RowSink(**options)
        parts = [sink.write_part([*rows_of(0, 1), {"id": None, "body": "A"}]) for _ in range(2)]
        with pytest.raises(IncompleteIngestionError) as caught:
            sink.finish(parts)
        names = [one.name for one in caught.value.report.failures]
        assert names == ["row 2 of part 1", "row 2 of part 2"]

    @pytest.mark.parametrize("value", [float("nan"), Decimal("NaN"), NAType()])
    def test_a_missing_value_of_pandas_is_no_text(self, service, options, write, value):
        with pytest.raises(IncompleteIngestionError) as caught:
            write(
                [*rows_of(0, 1), {"id": value, "body": "A"}, {"id": "a", "body": value}], **options
            )
        told = {(one.name, one.kind) for one in caught.value.report.failures}
        assert told == {("row 2", "invalid"), ("the row 'a'", "invalid")}
        assert service.created == ["r0"]

    def test_numbers_dates_and_uuids_are_texts(self, options, write):
        values = [Decimal("1.50"), UUID(int=5), date(2026, 1, 2), 2.5, 3]
        assert write([{"id": one, "body": one} for one in values], **options).created == 5
        keys = {entry.key for entry in Ledger(options["ledger"]).entries()}
        assert keys == {"1.50", str(UUID(int=5)), "2026-01-02", "2.5", "3"}

    def test_a_whole_float_is_the_same_key_as_the_integer(self, service, options, write):
        write([{"id": 7, "body": "Seven."}], **options)
        assert write([{"id": 7.0, "body": "Seven."}], **options).unchanged == 1
        assert service.created == ["7"]

    @pytest.mark.parametrize("option", ["key", "text", "name", "version"])
    def test_a_column_that_no_row_has_is_told_once_and_nothing_is_sent(
        self, service, options, write, option
    ):
        with refused(option):
            write(rows_of(0, 5), **{**options, option: "nope"})
        assert service.created == []

    def test_a_small_part_whose_rows_all_lack_a_column_does_not_end_the_job(self, service, options):
        sink = RowSink(**options)
        parts = [sink.write_part(rows) for rows in ([{"id": "b2"}], rows_of(0, 5))]
        with pytest.raises(IncompleteIngestionError, match="there is no column 'body'") as failed:
            sink.finish(parts)
        assert (failed.value.report.created, failed.value.report.invalid) == (5, 1)

    def test_a_column_that_the_first_rows_lack_may_come_later(self, service, options, write):
        rows = [*rows_of(0, 2), {"id": "r2", "body": "A text.", "title": "Title"}]
        with pytest.raises(IncompleteIngestionError, match="invalid 2"):
            write(rows, **{**options, "name": "title"})
        assert service.created == ["Title"]

    def test_long_keys_and_line_ends_do_not_fill_the_message(self, options, write):
        with pytest.raises(IncompleteIngestionError) as caught:
            write([{"id": "k" * 5000, "body": ""}, {"id": "a\nb", "body": ""}], **options)
        assert len(str(caught.value)) < 800
        assert r"the row 'a\nb'" in str(caught.value)

    def test_a_task_queue_rebuilds_the_error_from_its_text(self, options, write):
        with pytest.raises(IncompleteIngestionError) as caught:
            write([{"id": None, "body": "A"}], **options)
        rebuilt = type(caught.value)(*caught.value.args)
        assert str(rebuilt) == str(caught.value)
        assert isinstance(rebuilt, IncompleteIngestionError)

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
        with refused("rows"):
            RowSink(**options).write(rows)


@pytest.mark.parametrize(
    "options",
    [
        *({"collections": one} for one in ("", [])),
        *({"ledger": one} for one in (None, 3)),
        *({"key": one} for one in (None, "")),
        *({"name": one} for one in (" ", 3)),
        *({"text": 3}, {"table": " "}, {"client": "key"}, {"concurrency": 0}),
        *({"on_unknown": "skip"}, {"rate": 0}, {"wait": -1}, {"ledger_wait": -1}),
    ],
    ids=str,
)
def test_an_option_that_cannot_be_used_is_reported_when_the_sink_is_made(options):
    with refused(*options):
        RowSink(**{**NEEDED, **options})


def test_a_ledger_elsewhere_is_reported_when_the_sink_is_made():
    with pytest.raises(LedgerError):
        RowSink(**{**NEEDED, "ledger": "mysql://host/ledger"})


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
