"""`kbot ledger`."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from calls import KEY, SOURCE
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, LedgerError, Text, ingest
from postgresql_server import postgresql
from scripted_server import answer, close


def reply_to(request):
    """Creates a source of its own for each text; those named "lost" have no answer."""
    sent = request.json()["value"]
    if sent["name"].startswith("lost"):
        return close
    return answer(body={**SOURCE, "id": f"src_{sent['content'].removesuffix('.')}"})


@pytest.fixture
def service(scripted):
    return scripted(reply_to=reply_to)


@pytest.fixture
def send(service, tmp_path, monkeypatch):
    """Ingest texts, given as names and contents, into a ledger that the environment names."""
    file = tmp_path / "ledger.db"
    monkeypatch.setenv("KNOWLEDGE_BOT_LEDGER", str(file))

    def send(collection="col_1", **texts):
        items = [Text(name=name, content=content) for name, content in texts.items()]
        with Client(KEY, service.url, max_retries=0) as client:
            return ingest(client, items, collections=collection, ledger=Ledger(file))

    return send


def test_the_status_counts_by_service_collections_and_state(run, send, service):
    send(one="1.", lost="2.")
    send("col_2", one="1.")
    assert run("ledger", "status").stdout.splitlines() == [
        f"{service.url}/public/v1\tcol_1\t1\t0\t0\t1",
        f"{service.url}/public/v1\tcol_2\t1\t0\t0\t0",
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
    assert len(service.requests) == 1


def test_what_was_found_not_created_is_sent_by_the_next_run(run, send, service):
    send(lost="1.", lost_too="2.")
    keys = "".join(f"{line.split()[0]}\n" for line in run("ledger", "unknown").stdout.splitlines())
    done = run("ledger", "resolve", "-", "--not-created", stdin=keys)
    assert (done.exit_code, done.stdout) == (0, "lost\tnot created\nlost_too\tnot created\n")
    send(lost="1.", lost_too="2.")
    assert len(service.requests) == 4


def test_a_source_whose_id_nobody_knows_can_be_told_to_exist(run, send):
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


@pytest.mark.parametrize("command", ["status", "unknown", "superseded"])
def test_a_ledger_that_is_not_there_is_not_made(run, tmp_path, command):
    done = run("ledger", command, "--ledger", tmp_path / "none.db")
    assert done.exit_code == 1
    assert f"there is no ledger at {tmp_path}/none.db" in done.stderr
    assert not (tmp_path / "none.db").exists()


def test_a_file_that_is_no_ledger_is_told_so(run, tmp_path):
    (tmp_path / "notes.txt").write_text("not a database, but long enough to look like one " * 20)
    done = run("ledger", "status", "--ledger", tmp_path / "notes.txt")
    assert done.exit_code == 1
    assert "notes.txt" in done.stderr
    assert "Traceback" not in done.output


def test_the_password_of_a_ledger_is_not_told(run):
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


def test_a_ledger_in_a_folder_that_is_not_there_is_told_with_what_to_check(tmp_path):
    with pytest.raises(LedgerError, match="does its folder exist"):
        Ledger(tmp_path / "missing" / "ledger.db").prepare()


def test_asking_for_the_usual_ledger_makes_no_folder(run, tmp_path):
    assert run("ledger", "status").exit_code == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.timeout(120)
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
        assert do("ledger", "status").stdout.endswith("\tcol_1\t1\t0\t1\t0\n")
        again = do("ingest", "jsonl", tmp_path / "texts.jsonl", "--collection", "col_1")
        assert again.returncode == 8
        assert len(service.requests) == 3


@pytest.mark.timeout(60)
def test_what_a_run_is_sending_again_is_not_settled_under_it(service):
    with postgresql() as server, ThreadPoolExecutor(1) as pool:
        ledger = Ledger(server.url())
        with Client(KEY, service.url, max_retries=0) as client:
            items = [Text(name="lost", content="1.")]
            assert ingest(client, items, collections="col_1", ledger=ledger).unknown == 1
        with ledger.connected(reading=False) as connection:
            with connection.begin():
                connection.execute(sa.text("update kbot_sources set state = 'claimed'"))
                settling = pool.submit(ledger.resolve, "lost", created=False)
                waiting = "select count(*) from pg_locks where not granted"
                while not connection.execute(sa.text(waiting)).scalar():
                    assert not settling.done()
                    time.sleep(0.05)
            with pytest.raises(LedgerError, match="claimed, not unknown"):
                settling.result()
