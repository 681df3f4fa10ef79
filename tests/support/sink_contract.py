"""What every sink does with rows, and with what goes wrong, on a real service's socket."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from calls import KEY
from engine_job import IN_FLIGHT
from engine_kills import KILLS, kill_workers
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger
from scripted_server import Received, Reply, ScriptedServer, answer

EXAMPLES = Path(__file__).parents[2] / "examples"

Rows = list[dict[str, Any]]

PAYMENT = answer(402, {"code": "quota", "message": "The quota of sources is used up."})
REFUSED = answer(400, {"code": "no", "message": "not so"})
AWAY = "postgresql://nobody@127.0.0.1:9/ledger"


@dataclass
class Service:
    """Creates sources, until its judge has something against one."""

    judge: Callable[[str], Reply | None] = lambda name: None
    created: list[str] = field(default_factory=list)
    url: str = ""

    def reply(self, received: Received) -> Reply:
        fields = json.loads(received.body)["value"]
        if (verdict := self.judge(fields["name"])) is not None:
            return verdict
        self.created.append(fields["name"])
        source = {
            "id": f"src_{len(self.created)}",
            "name": fields["name"],
            "collections": [],
            "status": "pending",
            "created_at": int(time.time() * 1000),
        }
        return answer(body={"value": source})


def rows_of(first: int, last: int) -> Rows:
    return [{"id": f"r{number}", "body": f"Row {number}."} for number in range(first, last)]


class SinkContract:
    """Tests of one sink; a class of its tests has a fixture `write`.

    `write(*parts, mended=False, **options)` runs a job of the engine over the parts, one after the
    other or at once, and raises `failure` where it fails; `mended` says that rows were mended at
    their source since the last one. Options are those of `RowSink`.
    """

    failure: type[BaseException] = Exception

    @pytest.fixture
    def service(self, scripted: Callable[..., ScriptedServer]) -> Service:
        service = Service()
        service.url = scripted(reply_to=service.reply).url
        return service

    @pytest.fixture
    def options(self, service: Service, tmp_path: Any) -> dict[str, Any]:
        return {
            "collections": ["col_1"],
            "ledger": str(tmp_path / "ledger.db"),
            "key": "id",
            "text": "body",
            "name": "id",
            "client": Client(KEY, service.url, timeout=5),
        }

    def test_a_second_job_sends_what_is_new_or_changed(self, service, options, write):
        write(rows_of(0, 10), rows_of(10, 20), **options)
        assert sorted(service.created) == sorted(f"r{number}" for number in range(20))
        write(rows_of(0, 21), **options)
        assert service.created[20:] == ["r20"]
        write([{"id": "r3", "body": "Another text."}], **options)
        assert service.created[21:] == ["r3"]

    def test_rows_without_a_key_or_a_text_fail_the_job_when_all_others_are_there(
        self, service, options, write
    ):
        bad = [{"id": None, "body": "No key."}, {"id": "b1", "body": None}, {"id": "b2"}]
        with pytest.raises(self.failure) as failed:
            write([*rows_of(0, 5), *bad, {"id": "b3", "body": "  "}, *rows_of(5, 10)], **options)
        told = str(failed.value)
        assert "invalid 4" in told
        assert "the row 'b3': invalid, it has no text" in told
        # Some engines drop what is empty, and then a row has no such column.
        assert "its key is empty" in told or "there is no column 'id'" in told
        assert sorted(service.created) == [f"r{number}" for number in range(10)]
        write([*rows_of(0, 10), {"id": "b1", "body": "A text."}], mended=True, **options)
        assert service.created[10:] == ["b1"]

    def test_a_schema_that_changes_in_mid_stream_fails_the_job_when_all_others_are_there(
        self, service, options, write
    ):
        changed = [{"id": f"c{number}", "content": "A text."} for number in range(3)]
        with pytest.raises(self.failure, match="invalid 3"):
            write(rows_of(0, 5), changed, rows_of(5, 10), **options)
        assert sorted(service.created) == [f"r{number}" for number in range(10)]
        write(rows_of(0, 12), mended=True, **options)
        assert sorted(service.created[10:]) == ["r10", "r11"]

    def test_a_column_that_is_not_there_is_told_before_anything_is_sent(
        self, service, options, write
    ):
        with pytest.raises(self.failure, match="there is no column 'content'"):
            write(rows_of(0, 5), **{**options, "text": "content"})
        assert service.created == []

    def test_a_ledger_out_of_reach_fails_the_job_and_nothing_is_sent(self, service, options, write):
        with pytest.raises(
            self.failure, match=r"the ledger postgresql://nobody@.*cannot be opened"
        ):
            write(rows_of(0, 5), **{**options, "ledger": AWAY})
        assert service.created == []
        write(rows_of(0, 5), mended=True, **options)
        assert len(service.created) == 5

    def test_a_service_that_asks_for_payment_ends_the_job_and_the_next_one_goes_on(
        self, service, options, write
    ):
        service.judge = lambda name: PAYMENT if len(service.created) >= 7 else None
        with pytest.raises(self.failure, match="The quota of sources is used up") as failed:
            write(rows_of(0, 20), concurrency=2, **options)
        assert KEY not in str(failed.value)
        before = list(service.created)
        assert 7 <= len(before) <= 9
        (held,) = Ledger(options["ledger"]).status()
        assert (held.created, held.unknown, held.claimed) == (len(before), 0, 0)
        service.judge = lambda name: None
        write(rows_of(0, 20), **options)
        assert sorted(service.created) == sorted(f"r{number}" for number in range(20))

    def test_a_row_that_is_refused_fails_the_job_when_all_others_are_there(
        self, service, options, write
    ):
        service.judge = lambda name: REFUSED if name == "r2" else None
        with pytest.raises(self.failure, match=r"r2: refused, .*not so"):
            write(rows_of(0, 10), **options)
        assert len(service.created) == 9
        service.judge = lambda name: None
        write(rows_of(0, 10), **options)
        assert service.created[9:] == ["r2"]

    def test_tables_may_have_the_same_keys(self, service, options, write):
        write(rows_of(0, 3), table="one", **options)
        write(rows_of(0, 3), table="two", **options)
        assert len(service.created) == 6
        keys = {entry.key for entry in Ledger(options["ledger"]).entries()}
        assert keys == {f"{table}/r{number}" for table in ("one", "two") for number in range(3)}


class OnAnEngine:
    """Tests of one engine as a whole: its example, and workers that are killed while they write.

    They write 5,000 rows.
    """

    engine: str

    def test_the_example_runs_as_it_stands_and_leaves_nothing_behind(self, tmp_path):
        home = tmp_path / "home"
        home.mkdir()
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / f"sink_{self.engine}.py")],
            cwd=home,
            env={**os.environ, "HOME": str(home), "RUNTIME__DLTHUB_TELEMETRY": "false"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert "late fee" in done.stdout or "kiln is mended" in done.stdout, done.stdout
        assert "day 1: " in done.stdout
        assert "day 2: " in done.stdout

    def test_killed_workers_make_nothing_twice_and_lose_nothing(self, tmp_path, new_schema):
        killed = kill_workers(self.engine, "ledger", tmp_path, new_schema())
        assert (killed.twice, killed.lost) == (0, 0)
        assert killed.unknown <= KILLS * IN_FLIGHT
        assert not killed.unknown or "held back: the worker that sent it died" in killed.told
        afterwards = killed.afterwards
        assert afterwards is not None
        assert (afterwards.twice, afterwards.lost, afterwards.told) == (0, 0, "")

    def test_with_a_naive_sink_they_make_duplicates(self, tmp_path):
        assert kill_workers(self.engine, "naive", tmp_path, "").twice > 0
