"""The destination for dlt; `scripts/test-engines dlt` runs this."""

import itertools
import re
from pathlib import Path

import pytest

dlt = pytest.importorskip("dlt", reason="runs in an environment of its own")

from dlt.pipeline.exceptions import PipelineStepFailed  # noqa: E402 - after what it needs

from calls import KEY  # noqa: E402 - after what it needs
from knowledge_bot import Client  # noqa: E402 - as above
from knowledge_bot.ingest import Ledger  # noqa: E402 - as above
from knowledge_bot.sinks.dlt import knowledge_bot_destination  # noqa: E402 - as above
from knowledge_bot.testing import MemoryService  # noqa: E402 - as above
from sink_contract import OnAnEngine, Service, SinkContract, rows_of  # noqa: E402 - as above

pytestmark = pytest.mark.timeout(600)


class TestDestination(SinkContract):
    """A pipeline of its own for each test, as a scheduler runs it."""

    failure = PipelineStepFailed

    @pytest.fixture
    def write(self, tmp_path, monkeypatch):
        monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")

        def write(
            *parts, mended=False, disposition="append", file_format=None, columns=None, **options
        ):
            pipeline = dlt.pipeline(
                "rows",
                destination=knowledge_bot_destination(**options),
                pipelines_dir=str(tmp_path / "pipelines"),
            )
            if pipeline.has_pending_data and mended:
                pipeline.abort_packages()
            if pipeline.has_pending_data:
                pipeline.load()
            rows = list(itertools.chain(*parts))
            return pipeline.run(
                rows,
                table_name="articles",
                write_disposition=disposition,
                columns=columns,
                loader_file_format=file_format,
            )

        return write

    @pytest.fixture
    def in_memory(self, options):
        service = MemoryService(collections=["col_1"], extensions={"sources"})
        options["client"] = Client(KEY, "https://service.test", transport=service.transport)
        return service

    def test_a_row_is_known_by_its_table(self, options, write):
        write(rows_of(0, 1), **options)
        (entry,) = Ledger(options["ledger"]).entries()
        assert entry.key == "articles/r0"

    def test_files_may_be_parquet(self, service, options, write):
        pytest.importorskip("pyarrow")
        write(rows_of(0, 5), file_format="parquet", **options)
        assert len(service.created) == 5

    def test_merged_rows_are_sent_where_they_changed(self, service, options, write):
        for text in ("One.", "One.", "Two."):
            write([{"id": "a", "body": text}], disposition="merge", **options)
        assert len(service.created) == 2
        assert len(list(Ledger(options["ledger"]).superseded())) == 1

    def test_what_would_be_replaced_is_refused(self, service, options, write):
        scd2 = {"disposition": "merge", "strategy": "scd2"}
        for disposition in ("replace", scd2):
            with pytest.raises(PipelineStepFailed, match="articles"):
                write(rows_of(0, 5), mended=True, disposition=disposition, **options)
        assert service.created == []

    def test_rows_that_are_marked_as_deleted_are_left_out(self, service, options, write, caplog):
        rows = [{"id": "a", "body": "A.", "gone": True}, {"id": "b", "body": "B.", "gone": False}]
        columns = {"gone": {"hard_delete": True}}
        write(rows, disposition="merge", columns=columns, **options)
        assert service.created == ["b"]
        assert "marked as deleted: 1" in caplog.text

    def test_rows_that_are_marked_as_deleted_are_deleted_with_prune(
        self, in_memory, options, write
    ):
        rows = [{"id": "a", "body": "A.", "gone": False}, {"id": "b", "body": "B.", "gone": False}]
        merging = {"disposition": "merge", "columns": {"gone": {"hard_delete": True}}}
        write(rows, **merging, **options)
        write([{"id": "a", "body": "A.", "gone": True}], **merging, **options)
        assert len(in_memory.sources) == 2
        write([{"id": "a", "body": None, "gone": True}], prune=True, **merging, **options)
        assert [one["name"] for one in in_memory.sources] == ["b"]

    def test_what_a_replaced_table_no_longer_has_is_removed_with_prune(
        self, in_memory, options, write, monkeypatch
    ):
        monkeypatch.setenv("DATA_WRITER__FILE_MAX_ITEMS", "2")
        monkeypatch.setenv("NORMALIZE__DATA_WRITER__FILE_MAX_ITEMS", "2")
        replacing = {"disposition": "replace", "prune": True}
        write(rows_of(0, 9), **replacing, **options)
        assert len(in_memory.sources) == 9
        write([*rows_of(2, 9), {"id": "r9", "body": "New."}], **replacing, **options)
        names = sorted(one["name"] for one in in_memory.sources)
        assert names == [f"r{number}" for number in range(2, 10)]

    def test_values_of_another_type_than_their_column_are_sent(self, service, options, write):
        write([{"id": 1, "body": 5}, {"id": "b", "body": "Text."}], **options)
        assert sorted(service.created) == ["1", "b"]

    def test_a_key_with_two_texts_in_two_files_fails_the_load(self, options, write, monkeypatch):
        monkeypatch.setenv("DATA_WRITER__FILE_MAX_ITEMS", "1")
        monkeypatch.setenv("NORMALIZE__DATA_WRITER__FILE_MAX_ITEMS", "1")
        with pytest.raises(PipelineStepFailed, match="articles/a"):
            write([{"id": "a", "body": "A."}, {"id": "a", "body": "B."}], **options)

    def test_dlts_own_commands_find_the_destination(self, options, write, tmp_path):
        with pytest.raises(PipelineStepFailed):
            write([{"id": None, "body": "A."}], **options)
        found = dlt.attach("rows", pipelines_dir=str(tmp_path / "pipelines"))
        assert found.has_pending_data
        found.abort_packages()
        assert not found.has_pending_data


def test_the_blocks_of_the_page_run_and_send_a_row_once(scripted, tmp_path, monkeypatch):
    page = (Path(__file__).parents[3] / "docs/how-to/dlt.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    service = Service()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DLT_DATA_DIR", str(tmp_path / "dlt"))
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", scripted(reply_to=service.reply).url)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key")
    exec(compile("\n".join(blocks), "dlt.md", "exec"), {"__name__": "page"})
    assert service.created == ["Hours"]
    (entry,) = Ledger("kbot.db").entries()
    assert entry.key == "articles/1"


@pytest.mark.slow
class TestDlt(OnAnEngine):
    """The pipeline itself is killed, and goes on with what is pending when it is run again."""

    engine = "dlt"
