"""`kbot ledger`."""

import json
import os
import subprocess
import threading
import time

import pytest

from calls import KEY, SOURCE
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, WebPage, ingest
from postgresql_server import postgresql
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


READING = ["status", "unknown", "refused", "gone", "superseded", "export"]


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


def test_the_status_counts_by_service_collections_and_state(run, send, service):
    send(one="1.", lost="2.")
    send("col_2", one="1.")
    assert run("ledger", "status").stdout.splitlines() == [
        f"{service.url}/public/v1\tcol_1\t1\t0\t0\t1\t0",
        f"{service.url}/public/v1\tcol_2\t1\t0\t0\t0\t0",
    ]
    first, _ = json.loads(run("ledger", "status", "--json").stdout)
    assert (first["collections"], first["created"], first["unknown"]) == (["col_1"], 1, 1)


def test_the_unknown_are_listed_with_what_happened(run, send):
    send(one="1.", lost="2.")
    line = run("ledger", "unknown").stdout
    assert line.startswith("lost\tlost\tcol_1\t20")
    assert "may have acted" in line
    (entry,) = json.loads(run("ledger", "unknown", "--json").stdout)
    assert (entry["key"], entry["state"], entry["source_id"]) == ("lost", "unknown", None)
    assert entry["updated_at"].endswith("+00:00")


def test_the_superseded_are_listed_with_what_replaced_them(run, send):
    send(one="1.")
    send(one="2.")
    assert run("ledger", "superseded").stdout.startswith("src_1\tone\tcol_1\tsrc_2\t20")
    (source,) = json.loads(run("ledger", "superseded", "--json").stdout)
    assert (source["source_id"], source["replaced_by"]) == ("src_1", "src_2")


def test_what_was_found_created_is_not_sent_again(run, send, service):
    send(lost="1.")
    done = run("ledger", "resolve", "lost", "--created", "src_9")
    assert (done.exit_code, done.stdout) == (0, "lost\tcreated\n")
    assert run("ledger", "unknown").stdout == ""
    assert send(lost="1.").unchanged == 1
    assert len(sent_to(service)) == 1


def test_what_was_found_not_created_is_sent_by_the_next_run(run, send, service):
    send(lost="1.", lost_too="2.")
    keys = "".join(f"{line.split()[0]}\n" for line in run("ledger", "unknown").stdout.splitlines())
    done = run("ledger", "resolve", "-", "--not-created", stdin=keys)
    assert (done.exit_code, done.stdout) == (0, "lost\tnot created\nlost_too\tnot created\n")
    send(lost="1.", lost_too="2.")
    assert len(sent_to(service)) == 4


def test_a_source_whose_id_nobody_knows_can_be_recorded_as_there(run, send):
    send(lost="1.")
    assert run("ledger", "resolve", "lost", "--created", "unknown").exit_code == 0
    assert send(lost="1.").unchanged == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("lost",),
        ("lost", "--created", "src_1", "--not-created"),
        ("lost", "--created", "lost_too"),
        ("lost", "lost_too", "--created", "src_1"),
        ("--not-created",),
    ],
)
def test_half_an_answer_settles_nothing(run, send, arguments):
    send(lost="1.", lost_too="2.")
    assert run("ledger", "resolve", *arguments).exit_code == 2
    assert len(run("ledger", "unknown").stdout.splitlines()) == 2


def test_an_item_in_two_collections_is_named_by_its_id(run, send):
    send("col_1", lost="1.")
    send("col_2", lost="1.")
    done = run("ledger", "resolve", "lost", "--not-created")
    assert done.exit_code == 1
    entries = json.loads(run("ledger", "unknown", "--json").stdout)
    assert all(entry["id"] in done.stderr for entry in entries)
    assert run("ledger", "resolve", entries[0]["id"], "--not-created").exit_code == 0


@pytest.mark.parametrize("command", READING)
def test_a_ledger_that_is_not_there_is_not_made(run, tmp_path, command):
    done = run("ledger", command, "--ledger", tmp_path / "none.db")
    assert done.exit_code == 1
    assert f"there is no ledger at {tmp_path}/none.db" in done.stderr
    assert not (tmp_path / "none.db").exists()


def test_a_file_that_is_no_ledger_is_shown_as_such(run, tmp_path):
    (tmp_path / "notes.txt").write_text("not a database, but long enough to look like one " * 20)
    done = run("ledger", "status", "--ledger", tmp_path / "notes.txt")
    assert done.exit_code == 1
    assert "notes.txt" in done.stderr
    assert "Traceback" not in done.output


def test_the_password_of_a_ledger_is_not_shown(run):
    done = run("ledger", "status", "--ledger", "postgresql://me:hidden-word@127.0.0.1:9/none")
    assert done.exit_code == 1
    assert "127.0.0.1" in done.stderr
    assert "hidden-word" not in done.output


def test_an_address_that_cannot_be_used_is_not_shown_by_repr():
    shown = repr(Ledger("mysql://me:hidden-word@127.0.0.1:9/none"))
    assert shown.startswith("Ledger(")
    assert "hidden-word" not in shown


def test_a_place_that_cannot_be_looked_at_is_a_sentence(run, tmp_path):
    done = run("ledger", "status", "--ledger", tmp_path / ("x" * 300))
    assert done.exit_code == 1
    assert "cannot be read: File name too long" in done.stderr


def test_a_ledger_in_a_folder_that_is_not_there_is_reported_with_what_to_check(
    run, answering, tmp_path
):
    server = answering(answer(body=SOURCE))
    ledger = ("--ledger", tmp_path / "missing" / "ledger.db")
    done = run("ingest", "urls", "-", *ledger, "--collection", "col_1", stdin="https://h.example/")
    assert done.exit_code == 3
    assert "does its folder exist" in done.stderr
    assert server.started == 0


def test_asking_for_the_usual_ledger_makes_no_folder(run, tmp_path):
    assert run("ledger", "status").exit_code == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.timeout(120)
@pytest.mark.integration
def test_a_ledger_in_postgresql_is_used_by_every_command(kbot, service, tmp_path):
    (tmp_path / "texts.jsonl").write_text(
        '{"name": "one", "content": "1."}\n{"name": "lost", "content": "2."}\n'
    )
    with postgresql() as server:
        environment = {
            "KNOWLEDGE_BOT_BASE_URL": service.url,
            "KNOWLEDGE_BOT_API_KEY": KEY,
            "KNOWLEDGE_BOT_LEDGER": server.url(),
        }

        def do(*arguments):
            return kbot(*arguments, **environment)

        first = do("ingest", "jsonl", tmp_path / "texts.jsonl", "--collection", "col_1")
        assert (first.returncode, first.stdout.splitlines()[0]) == (8, "created\t1")
        assert do("ledger", "unknown").stdout.startswith("lost\tlost\tcol_1\t20")
        assert do("ledger", "resolve", "lost", "--not-created").stdout == "lost\tnot created\n"
        assert do("ledger", "status").stdout.endswith("\tcol_1\t1\t0\t1\t0\t0\n")
        again = do("ingest", "jsonl", tmp_path / "texts.jsonl", "--collection", "col_1")
        assert again.returncode == 8
        assert len(sent_to(service)) == 3


def test_the_refused_are_listed_with_the_reason(run, send):
    send(one="1.", bad="2.")
    line = run("ledger", "refused").stdout
    assert line.startswith("bad\tbad\tcol_1\t20")
    assert "no such language" in line
    (entry,) = json.loads(run("ledger", "refused", "--json").stdout)
    assert (entry["key"], entry["state"], entry["attempts"]) == ("bad", "refused", 1)


def test_what_the_origin_no_longer_has_is_listed_with_its_source(run, send):
    send(origin="handbook", one="1.", two="2.")
    send(origin="handbook", one="1.")
    (entry,) = json.loads(run("ledger", "gone", "--json").stdout)
    assert (entry["key"], entry["source_id"], entry["origin"]) == ("two", "src_2", "handbook")
    line = run("ledger", "gone").stdout
    assert line.startswith(f"{entry['id']}\tsrc_2\ttwo\tcol_1\thandbook\t20")
    assert run("ledger", "status").stdout.endswith("\tcol_1\t2\t0\t0\t0\t1\n")
    send(origin="handbook", one="1.", two="2.")
    assert run("ledger", "gone").stdout == ""


def test_what_is_gone_is_forgotten_through_a_pipe_and_nothing_else(program, run, send, service):
    send(origin="handbook", one="1.", two="2.")
    send("col_2", origin="handbook", one="1.", two="2.")
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
    assert send("col_2", origin="handbook", one="1.", two="2.").unchanged == 2
    assert len(sent_to(service)) == before
    assert send(origin="handbook", one="1.", two="2.").created == 1


def test_a_plan_is_for_the_service_that_is_named_if_the_ledger_has_several(run, send, service):
    send(origin="o", a="A", b="B")
    other = service.url.replace("127.0.0.1", "localhost")
    ledger = os.environ["KNOWLEDGE_BOT_LEDGER"]
    with Client(KEY, other) as client:
        ingest(client, [Text(name="a", content="A")], collections="col_1", ledger=ledger)
    send(origin="o", a="A")
    for url, count in ((service.url, 1), (other, 0)):
        done = run("--base-url", url, "ledger", "prune")
        assert (done.exit_code, len(done.stdout.splitlines())) == (0, count)


def test_a_superseded_source_is_forgotten_and_its_item_stays(run, send):
    send(one="1.")
    send(one="2.")
    assert run("ledger", "forget", "src_1").stdout == "src_1\tforgotten\n"
    assert run("ledger", "superseded").stdout == ""
    assert send(one="2.").unchanged == 1


def test_what_is_forgotten_is_sent_again(run, send, service):
    send(one="1.", two="2.")
    assert run("ledger", "forget", "one").exit_code == 0
    report = send(one="1.", two="2.")
    assert (report.created, report.unchanged) == (1, 1)


def test_a_key_that_the_ledger_does_not_know_is_reported_and_the_others_are_forgotten(run, send):
    send(one="1.", two="2.")
    done = run("ledger", "forget", "one", "none", "two")
    assert (done.exit_code, done.stdout) == (3, "one\tforgotten\ntwo\tforgotten\n")
    assert "knows no such item: none" in done.stderr
    assert run("ledger", "status").stdout == ""


def test_a_key_is_forgotten_in_the_collection_that_is_named(run, send):
    send("col_1", one="1.")
    send("col_2", one="1.")
    assert run("ledger", "forget", "one", "--collection", "col_2").exit_code == 0
    assert [line.split("\t")[1] for line in run("ledger", "status").stdout.splitlines()] == [
        "col_1"
    ]


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (("--collection", "col_2"), 3),
        (("--origin", "handbook"), 2),
        (("--collection", "col_1", "--origin", "handbook"), 3),
        (("--all",), 0),
    ],
)
def test_a_whole_collection_or_origin_is_forgotten_with_yes_only(run, send, arguments, left):
    send("col_1", origin="handbook", one="1.")
    send("col_1", origin="other", two="2.", three="3.")
    send("col_2", origin="handbook", one="1.")

    def held():
        return sum(one["created"] for one in json.loads(run("ledger", "status", "--json").stdout))

    done = run("ledger", "forget", *arguments)
    assert (done.exit_code, held()) == (2, 4)
    assert "pass --yes" in done.stderr
    done = run("ledger", "forget", *arguments, "--yes")
    assert (done.exit_code, done.stdout) == (0, f"{4 - left}\tforgotten\n")
    assert held() == left


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
    assert "Nothing is forgotten." in screen.shown
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


@pytest.mark.parametrize("arguments", [(), ("one", "--all"), ("--all", "--collection", "col_1")])
def test_what_is_to_be_forgotten_is_named_without_doubt(run, send, arguments):
    send(one="1.")
    assert run("ledger", "forget", *arguments, "--yes").exit_code == 2
    assert send(one="1.").unchanged == 1


def test_refused_pages_are_exported_for_another_run_and_texts_are_counted(run, send, service):
    send(one="1.", bad="2.", bad_too="3.", pages=["bad_page"])
    done = run("ledger", "export")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {
        "url": "https://h.example/bad_page",
        "name": "bad_page",
        "key": "https://h.example/bad_page",
        "collections": ["col_1"],
    }
    assert done.stderr.startswith("Texts left out: 2. ")
    before = len(sent_to(service))
    to = {"KNOWLEDGE_BOT_BASE_URL": service.url, "KNOWLEDGE_BOT_API_KEY": KEY}
    run("ingest", "jsonl", "-", "--collection", "col_9", stdin=done.stdout, **to)
    (again,) = sent_to(service)[before:]
    assert again.json()["value"]["collections"] == ["col_1"]


def test_an_export_without_texts_says_nothing_on_stderr(run, send):
    send(pages=["bad_page"])
    assert run("ledger", "export").stderr == ""


def test_a_ledger_is_copied_and_told_by_tables(run, send, tmp_path):
    send(one="1.", lost="2.")
    ledger, other = tmp_path / "ledger.db", tmp_path / "other.db"
    done = run("ledger", "copy", str(ledger), str(other))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "scopes\t1", "origins\t0", "items\t2", "superseded\t0", "notes\t0", "pages\t0"
    ]  # fmt: skip
    again = run("ledger", "copy", str(other), f"sqlite:///{tmp_path / 'third.db'}", "--json")
    assert json.loads(again.stdout)["items"] == 2
    assert Ledger(tmp_path / "third.db").status() == Ledger(ledger).status()
    refused = run("ledger", "copy", str(ledger), str(other))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "holds a ledger already" in refused.stderr


@pytest.mark.parametrize("command", READING)
def test_reading_writes_nothing(run, send, tmp_path, command):
    send(one="1.", bad="2.", lost="3.")
    ledger, log = tmp_path / "ledger.db", tmp_path / "ledger.db-wal"
    before = ledger.read_bytes()
    assert run("ledger", command).exit_code == 0
    assert ledger.read_bytes() == before
    assert not log.exists() or log.read_bytes() == b""


@pytest.mark.timeout(60)
def test_what_a_run_is_sending_is_neither_settled_nor_forgotten_under_it(
    program, run, answering, tmp_path
):
    held = threading.Event()

    def waiting(connection):
        held.wait(30)
        answer(body=SOURCE)(connection)

    server = answering(waiting)
    (tmp_path / "urls.txt").write_text("https://h.example/a\n")
    command = [program, "ingest", "urls", tmp_path / "urls.txt", "--collection", "col_1"]
    with subprocess.Popen(command, env=dict(os.environ)) as process:
        while not sent_to(server):
            time.sleep(0.01)
        settling = run("ledger", "resolve", "https://h.example/a", "--not-created")
        forgetting = run("ledger", "forget", "https://h.example/a")
        held.set()
        assert process.wait(30) == 0
    assert settling.exit_code == forgetting.exit_code == 1
    assert "claimed, not unknown" in settling.stderr
    assert "being sent right now" in forgetting.stderr
