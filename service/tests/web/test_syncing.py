"""Origins in the embedded service: what the requirements of `sync` cannot ask for from outside."""

import multiprocessing
import os
import re
import signal
import sqlite3
from contextlib import closing
from functools import partial

import pytest

from in_process import InProcess
from serve_command import called
from service_calls import BOTS, COLLECTIONS, ask, client_of, put_text, value_of

QUESTION = "Where are the canoes kept?"
KNOWN = "The canoes are kept in shed seven."


def held(http, origin="notes"):
    listed = value_of(http.get("/sync/entries", params={"origin": origin, "limit": 1000}))["data"]
    return {one["key"]: one for one in listed}


def sums(http):
    return value_of(http.get("/sync", params={"origin": "notes"}))


def complete(http, run, *missing):
    fields = {"origin": "notes", "run": run, "limit": 1, "missing": missing}
    return value_of(http.post("/sync/complete", json={"value": fields}))


def test_a_source_that_is_put_into_another_collection_answers_there_alone(fresh_http, fresh):
    pages = "\n\n".join(f"Paragraph {number} says nothing new." for number in range(3000))
    for content in (KNOWN, f"{KNOWN}\n\n{pages}"):  # when it is read, and while it is
        source = put_text(fresh_http, "canoes", content)["id"]
        if content == KNOWN:
            fresh.wait_until_ready(300)
        # What was found for a question is remembered.
        assert content != KNOWN or "seven" in ask(fresh_http, QUESTION)["answer"]
        assert put_text(fresh_http, "canoes", content, "col_two")["id"] == source
        fresh.wait_until_ready(300)
        for bot, knows in (("bot_one", False), ("bot_two", True)):
            assert ("seven" in ask(fresh_http, QUESTION, bot=bot)["answer"]) == knows


def test_what_an_origin_holds_is_there_after_a_restart_and_in_a_backup(tmp_path):
    declared = {"collections": COLLECTIONS, "bots": BOTS}
    with InProcess(tmp_path / "data", **declared) as service:
        with client_of(service) as http:
            for number in range(20):
                put_text(http, f"{number}.md", f"Shed {number} is dry.", version="1")
            complete(http, "one")
            before = sums(http)
        service.stop()
        service.start()
        with client_of(service) as http:
            assert sums(http)["sums"] == before["sums"]
            assert called(tmp_path, "backup", "copy", "--data", "data").returncode == 0
            put_text(http, "20.md", "Shed 20 is wet.")
            complete(http, "two", {"key": "0.md", "digest": held(http)["0.md"]["digest"]})
    assert called(tmp_path, "restore", "copy", "--data", "restored").returncode == 0
    with InProcess(tmp_path / "restored", **declared) as service, client_of(service) as http:
        assert {**sums(http), "pending": 0} == {**before, "pending": 0}
        put_text(http, "20.md", "Shed 20 is wet.", expected=None)
        assert sums(http)["count"] == 21


def test_what_an_older_reader_could_not_read_is_asked_for_again_after_a_new_one(tmp_path):
    declared = {"collections": COLLECTIONS, "bots": BOTS}
    with InProcess(tmp_path / "data", **declared) as service:
        with client_of(service) as http:
            put_text(http, "canoes", KNOWN)
            put_text(http, "mute", "\u200b")
            service.wait_until_ready(300)
            before = sums(http)["sums"]
        for is_older in (False, True):
            service.stop()
            if is_older:
                with closing(sqlite3.connect(service.data / "knowledge.sqlite3")) as database:
                    database.execute("UPDATE source SET reader = reader - 1")
                    database.commit()
            service.start()
            with client_of(service) as http:
                assert (sums(http)["sums"] == before) != is_older
                source = put_text(http, "mute", "\u200b")
                assert (source["status"] == "pending") == is_older  # it is read again
                assert put_text(http, "canoes", KNOWN)["status"] == "ready"
                service.wait_until_ready(300)
                assert sums(http)["sums"] == before
                assert held(http)["mute"]["status"] == "failed"


# What each of these statements may be the last thing that a process does.
_WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE|COMMIT)", re.IGNORECASE)


class _Dying(sqlite3.Connection):
    """A connection that kills its process before one of the statements that write."""

    left = 0

    def _count(self, statement):
        if _WRITES.match(statement):
            _Dying.left -= 1
            if _Dying.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def execute(self, statement, *values):
        self._count(statement)
        return super().execute(statement, *values)

    def executemany(self, statement, *values):
        self._count(statement)
        return super().executemany(statement, *values)


def bring_in_step(http, run):
    """What a client does that compares first; `sheds` and `own` are what it has."""
    there, own = held(http), {"canoes": KNOWN, "sheds": "Shed one is dry.", "new": "Shed two."}
    if not value_of(http.get("/sources", params={"name": "sheds"}))["data"]:
        body = {"name": "sheds", "collections": ["col_one"], "content": own["sheds"]}
        http.post("/sources/write", json={"value": body}).raise_for_status()
    if "canoes" not in there:
        put_text(http, "canoes", "The canoes are kept in shed six.", expected=None)
        put_text(http, "old", "Shed three is gone.")
    if "moved" not in there and "new" not in there:
        put_text(http, "moved", own["new"])
    for key in ("canoes", "sheds"):
        put_text(http, key, own[key])
    if moved := held(http).get("moved"):
        touch = {"key": "new", "moved_from": "moved", "digest": moved["digest"], "version": "2"}
        touch |= {"name": "new", "collections": ["col_two"]}
        http.post("/sync/touch", json={"value": {"origin": "notes", "entries": [touch]}})
    missing = [one for key, one in held(http).items() if key not in own]
    complete(http, run, *missing)
    put_text(http, "other", "Shed four is far away.", origin="other")
    http.delete("/sync/origins", params={"origin": "other"})


def begin(folder, statements, done):
    """Feed a service that dies before the last of so many statements that write."""
    with InProcess(folder, collections=COLLECTIONS, bots=BOTS) as service:
        with client_of(service) as http:
            put_text(http, "canoes", "The canoes are kept in shed five.", origin="before")
        _Dying.left = statements
        with client_of(service) as http:
            bring_in_step(http, "first")
        service.wait_until_ready(300)
    done.set()


def serve_and_die(folder, statements, done):
    sqlite3.connect = partial(sqlite3.connect, factory=_Dying)
    begin(folder, statements, done)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_kill_at_any_statement_leaves_nothing_twice_lost_or_half(tmp_path):
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["in_process", "knowledge_bot_service.web.app"])
    for statements in range(1, 1000):
        folder, done = tmp_path / f"{statements}", processes.Event()
        killed = processes.Process(target=serve_and_die, args=(folder, statements, done))
        killed.start()
        killed.join()
        with (
            InProcess(folder, collections=COLLECTIONS, bots=BOTS) as service,
            client_of(service) as http,
        ):
            sources = {one.id for one in service.sources()}
            for origin in ("notes", "other", "before"):
                owned = {one["source_id"] for one in held(http, origin).values()}
                assert owned <= sources, statements  # no entry without its source
            for run in ("second", "third"):
                bring_in_step(http, run)
            service.wait_until_ready(300)
            entries = held(http)
            assert {*entries} == {"canoes", "sheds", "new"}, statements
            owned = {one["source_id"] for one in entries.values()}
            others = {one["source_id"] for one in held(http, "before").values()}
            assert {one.id for one in service.sources()} == owned | others, statements
            assert {one["status"] for one in entries.values()} == {"ready"}
            assert sums(http)["count"] == 3
            assert "seven" in ask(http, QUESTION)["answer"], statements
            told = ask(http, "What is with shed two?", bot="bot_two")
            assert "two" in told["answer"], statements
        if done.is_set():
            break
    assert statements > 40
