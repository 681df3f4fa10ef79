"""`kbot ledger`."""

import json
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from calls import KEY, SOURCE
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, WebPage, ingest
from pseudo_terminal import terminal
from scripted_server import answer, close


def reply_to(request):
    """Creates a source of its own for each text; those named "lost" have no answer."""
    sent = request.json()["value"]
    if sent["name"].startswith("lost"):
        return close
    if sent["name"].startswith("bad"):
        return answer(400, {"message": "no such language"})
    return answer(body={**SOURCE, "id": f"src_{sent.get('content', '').removesuffix('.')}"})


@pytest.fixture
def service(scripted):
    return scripted(reply_to=reply_to)


def sent_to(service):
    return [request for request in service.requests if request.method == "POST"]


@pytest.fixture
def send(service, tmp_path, monkeypatch):
    """Ingest texts, given as names and contents, into a ledger that the environment names."""
    file = tmp_path / "ledger.db"
    monkeypatch.setenv("KNOWLEDGE_BOT_LEDGER", str(file))

    def send(collection="col_1", origin=None, pages=(), **texts):
        items = [Text(name=name, content=content) for name, content in texts.items()]
        items += [WebPage(name=name, url=f"https://h.example/{name}") for name in pages]
        with Client(KEY, service.url, max_retries=0) as client:
            return ingest(
                client,
                items,
                collections=collection,
                ledger=Ledger(file),
                origin=origin,
                gone_limit=1,
            )

    return send


@pytest.mark.timeout(120)
def test_a_ledger_in_postgresql_is_used_by_every_command(run, service, tmp_path, postgresql):
    (tmp_path / "texts.jsonl").write_text(
        '{"name": "one", "content": "1."}\n{"name": "lost", "content": "2."}\n'
    )
    environment = {
        "KNOWLEDGE_BOT_BASE_URL": service.url,
        "KNOWLEDGE_BOT_API_KEY": KEY,
        "KNOWLEDGE_BOT_LEDGER": postgresql,
    }

    def do(*arguments):
        return run(*arguments, **environment)

    first = do("ingest", "jsonl", tmp_path / "texts.jsonl", "--collection", "col_1")
    assert (first.exit_code, first.stdout.splitlines()[0]) == (8, "created\t1")
    assert do("ledger", "unknown").stdout.startswith("lost\tlost\tcol_1\t20")
    assert do("ledger", "resolve", "lost", "--not-created").stdout == "lost\tnot created\n"
    assert do("ledger", "status").stdout.endswith("\tcol_1\t1\t0\t1\t0\t0\n")
    again = do("ingest", "jsonl", tmp_path / "texts.jsonl", "--collection", "col_1")
    assert again.exit_code == 8
    assert len(sent_to(service)) == 3


@pytest.mark.slow
def test_what_is_gone_is_forgotten_through_a_pipe_and_nothing_else(program, run, send, service):
    send(origin="handbook", one="1.", two="2.")
    send("col_2", origin="manual", one="1.", two="2.")
    send(origin="handbook", one="1.")
    done = subprocess.run(
        f"{program} ledger gone | cut -f1 | {program} ledger forget -",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("\tforgotten\n")
    assert run("ledger", "gone").stdout == ""
    before = len(sent_to(service))
    assert send("col_2", origin="manual", one="1.", two="2.").unchanged == 2
    assert len(sent_to(service)) == before
    assert send(origin="handbook", one="1.", two="2.").created == 1


@pytest.mark.slow
def test_on_a_terminal_it_asks_before_it_forgets_a_collection(program, run, send):
    send(one="1.", two="2.")
    send("col_2", origin="handbook", three="3.")
    with terminal([program, "ledger", "forget", "--origin", "handbook"], {}) as screen:
        screen.expect("Forget 1 of the ledger's 3 items? ")
        screen.type("y\n")
        assert screen.end() == 0
    command = [program, "ledger", "forget", "--collection", "col_1"]
    with terminal(command, {}) as screen:
        screen.expect("Forget 2 of the ledger's 2 items? ")
        screen.type("n\n")
        assert screen.end() == 1
    with terminal(command, {}) as screen:
        screen.expect("[y/N]")
        screen.interrupt_prompt()
        assert screen.end() == 130
    assert run("ledger", "status").stdout != ""
    with terminal(command, {}) as screen:
        screen.expect("[y/N]")
        screen.type("y\n")
        assert screen.end() == 0
    assert run("ledger", "status").stdout == ""


def test_a_ledger_moves_as_lines_of_json(run, send, tmp_path):
    send(one="1.", two="2.")
    exported = run("ledger", "export").stdout
    done = run("ledger", "import", "-", "--ledger", tmp_path / "new.db", stdin=exported)
    assert (done.exit_code, "items\t2\n" in done.stdout) == (0, True)
    assert run("ledger", "status", "--ledger", tmp_path / "new.db").stdout == (
        run("ledger", "status").stdout
    )
    (marked := tmp_path / "marked.jsonl").write_text(exported, "utf-8-sig")  # by some editor
    assert run("ledger", "import", marked, "--ledger", tmp_path / "marked.db").exit_code == 0
    for lines, ledger in ((exported, "new.db"), (exported[:-9], "other.db")):
        done = run("ledger", "import", "-", "--ledger", tmp_path / ledger, stdin=lines)
        assert done.exit_code == 1
    assert run("ledger", "status", "--ledger", tmp_path / "other.db").stdout == ""


def test_times_of_a_ledger_are_iso_8601_in_json(run, send):
    send(lost="1.")
    (entry,) = json.loads(run("ledger", "unknown", "--json").stdout)
    at = datetime.fromisoformat(entry["updated_at"])
    assert datetime.now(UTC) - at < timedelta(minutes=5)
