"""A service in a child process: its life, its death, and what survives it."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from in_process import InProcess
from knowledge_bot_service import LocalService, LocalServiceError, SettingsError
from service_calls import BOTS, COLLECTIONS, add_text, ask, client_of, value_of
from waiting import until


def test_it_answers_at_once_shows_no_key_and_leaves_nothing_behind():
    with LocalService() as service:
        assert httpx.get(f"{service.base_url}/ping").json() == "pong"
        assert service.base_url.endswith("/public/v1")
        data, pid = service.data, service.pid
        assert value_of_bots(service) == [("bot_default", "Assistant")]
        command_line = Path(f"/proc/{pid}/cmdline").read_bytes()
        assert service.api_key.encode() not in command_line
        assert service.api_key not in repr(service)
        with client_of(service) as http:
            add_text(http, "Canoes", "Ruth keeps the canoes.", collection="col_default")
        service.stop()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        # A temporary folder outlives a stop, and not the end.
        service.start()
        service.wait_until_ready(300)
        assert [one.name for one in service.sources()] == ["Canoes"]
        pid = service.pid
    assert not data.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def value_of_bots(service):
    with client_of(service) as http:
        return [(bot["id"], bot["name"]) for bot in value_of(http.get("/bots"))["data"]]


@pytest.mark.parametrize("keeps", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_child_ends_when_its_parent_is_killed_and_leaves_what_is_to_be_kept(tmp_path, keeps):
    program = (
        "import time; from knowledge_bot_service import LocalService\n"
        f"with LocalService({str(tmp_path) if keeps else None!r}) as service:\n"
        "    print(service.pid, service.data, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, data = parent.stdout.readline().split()
        parent.kill()
    wait_until_gone(int(pid))
    assert Path(data, "knowledge.sqlite3").exists() == keeps
    assert Path(data).exists() == keeps


def wait_until_gone(pid):
    assert until(lambda: not _lives(pid), 30)


def _lives(pid):
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_what_was_accepted_is_ready_after_a_kill_at_that_moment(served, served_http):
    add_text(served_http, "Gate 1", "Gate number 1 has the code 177.")
    served.kill()
    with pytest.raises(httpx.TransportError):
        served_http.get("/ping")
    base_url = served.base_url
    served.start()
    assert served.base_url == base_url
    served.wait_until_ready(300)
    assert [(one.status, one.reason) for one in served.sources()] == [("ready", None)]
    first = ask(served_http, "Which code has gate number 1?")
    assert "177" in first["answer"]


@pytest.mark.slow
def test_kill_9_under_load_loses_nothing_and_does_nothing_half_or_twice(tmp_path):
    text = "\n\n".join(f"Paragraph {number} of a long text. " * 20 for number in range(100))
    accepted: dict[str, str] = {}

    def send(worker):
        """Send what was sent before a kill again, with the same keys, and go on."""
        with client_of(service) as http:
            for number in range(1000):
                name = http.headers["Idempotency-Key"] = f"{worker}-{number}"
                content = text if number % 10 == 0 else f"Short text {number} of {worker}."
                try:
                    source = add_text(http, name, content)["id"]
                except httpx.TransportError:
                    return
                assert accepted.setdefault(name, source) == source

    with (
        LocalService(tmp_path / "data", collections=COLLECTIONS, bots=BOTS) as service,
        ThreadPoolExecutor(4) as pool,
    ):
        for wanted in (20, 60):
            sending = [pool.submit(send, worker) for worker in range(4)]
            assert until(lambda wanted=wanted: len(accepted) >= wanted)
            service.kill()
            for one in sending:
                one.result()
            service.start()
        service.wait_until_ready(300)
        states = {one.id: one for one in service.sources()}
        assert not set(accepted.values()) - set(states)
        assert len({one.name for one in states.values()}) == len(states)
        assert {one.status for one in states.values()} == {"ready"}
        database = sqlite3.connect(service.data / "knowledge.sqlite3")
    passages = dict(
        database.execute(
            "SELECT source.public_id, count(*) FROM passage JOIN source"
            " ON source.id = passage.source GROUP BY source.id"
        ).fetchall()
    )
    long = {source: count for source, count in passages.items() if count > 1}
    assert len(long) > 1
    assert set(long.values()) == {100}
    assert set(passages) == set(states)
    (indexed,) = database.execute("SELECT count(*) FROM passage_index").fetchone()
    assert indexed == sum(passages.values())
    assert database.execute("SELECT count(*) FROM job").fetchone() == (0,)
    assert database.execute("PRAGMA quick_check").fetchone() == ("ok",)
    database.execute("INSERT INTO passage_index (passage_index) VALUES ('integrity-check')")
    database.close()


def test_a_source_that_was_being_read_when_the_service_ended_three_times_is_given_up(tmp_path):
    service = InProcess(tmp_path)
    with service:
        pass
    with sqlite3.connect(tmp_path / "knowledge.sqlite3") as database:
        for number, attempts in enumerate((1, 2)):
            database.execute(
                "INSERT INTO source (id, public_id, name, kind, status, attempts, created_at)"
                " VALUES (?, ?, 'Deadly', 'text', 'processing', ?, 0)",
                (number, f"src_{number}", attempts),
            )
            database.execute(
                "INSERT INTO job VALUES (?, ?)",
                (number, json.dumps({"content": "A text.", "headers": []})),
            )
    database.close()
    with service:
        service.wait_until_ready(300)
        second_chance, given_up = service.sources()
    assert second_chance.status == "ready"
    assert (given_up.status, given_up.reason is not None) == ("failed", True)
    assert "3 attempts" in str(given_up.reason)


@pytest.mark.timeout(60)
def test_what_is_unfinished_is_named_and_stopping_meanwhile_counts_no_attempt(tmp_path):
    with InProcess(tmp_path) as service, client_of(service) as http:
        add_text(http, "Endless", "Some words of a text. " * 200_000, collection="col_default")
        with pytest.raises(TimeoutError, match=r"Endless \(src_\w+\) p"):
            service.wait_until_ready(timeout=0.2)
        assert until(lambda: service.sources()[0].status != "pending")
        assert service.sources()[0].status == "processing"
        service.stop()
        (state,) = service.sources()
        assert state.status == "pending"
        with sqlite3.connect(tmp_path / "knowledge.sqlite3") as database:
            assert database.execute("SELECT attempts FROM source").fetchone() == (0,)
        database.close()


@pytest.mark.slow
def test_a_folder_in_use_is_a_clear_error_and_its_service_ends_cleanly_when_told(served):
    with pytest.raises(LocalServiceError, match="in use by another service"):
        LocalService(served.data).start()
    os.kill(served.pid, signal.SIGTERM)
    wait_until_gone(served.pid)


def test_wrong_values_leave_no_folder_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(SettingsError) as caught:
        LocalService(bots={"bot_x": ["col_missing"]})
    # Not only when the error, which holds on to the service, is forgotten.
    assert list(tmp_path.iterdir()) == []
    assert "col_missing" in str(caught.value)
