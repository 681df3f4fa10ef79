"""Every place that items come from, with its options, and what becomes of what is no item."""

import contextlib
import json
import sqlite3
from functools import partial
from types import SimpleNamespace

import pytest
from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.sdk import Connection, ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.operators import KnowledgeBotIngestOperator
from answering_bot import URL
from knowledge_bot.ingest import IncompleteIngestionError, Ledger
from knowledge_bot.origins import (
    Folder,
    JsonLines,
    Loader,
    Objects,
    Site,  # noqa: F401 - in a row that is evaluated
    Sitemap,  # noqa: F401 - likewise
    Sql,
    Urls,
)
from postgresql_server import postgresql

pytestmark = pytest.mark.usefixtures("ledger")

HOURS = [{"name": "Hours", "content": "At nine."}]


def sent(service):
    """Return what the service got, by the fields that identify it."""
    found = []
    for request in service.requests:
        value = request.value
        text = f"{value['name']}: {value.get('content')}"
        found.append(request.file[0] if request.file else value.get("url", text))
    return sorted(found)


@pytest.fixture
def run(good):
    """`run(conf, …)`: one run of a task with these parameters; what it hands on."""

    def once(conf=None, **parameters):
        given = {"collections": "col_1", "ledger_conn_id": "ledger"} | parameters
        operator = KnowledgeBotIngestOperator(task_id="ingest", **given)
        handed_on = {}
        task = SimpleNamespace(xcom_push=lambda key, value: handed_on.update(value))
        context = {"ti": task, "dag_run": SimpleNamespace(conf=conf or {}), "params": {}}
        operator.render_template_fields(context)
        try:
            return operator.execute(context)
        finally:
            once.handed_on = handed_on

    once.service = good
    return once


@pytest.fixture
def folder(tmp_path):
    where = tmp_path / "handbook"
    where.mkdir()
    for name in ("a.txt", "b.tmp", "c.md", ".secret"):
        (where / name).write_text(name)
    return where


# Files and objects --------------------------------------------------------------------------------

SHOWN = ["a.txt", "b.tmp", "c.md"]


@pytest.mark.parametrize(
    ("origin", "names"),
    [
        (Folder, SHOWN),
        (lambda at: Folder("{{ dag_run.conf.folder }}"), SHOWN),
        (lambda at: Folder(at, exclude=["*.{{ dag_run.conf.end }}"]), ["a.txt", "c.md"]),
        (lambda at: Objects(f"file://{at}/*.txt"), ["a.txt"]),
        (lambda at: Objects(f"file://{at}", storage_options={}), SHOWN),
        (lambda at: Objects("file://{{ dag_run.conf.folder }}", hidden=True), [".secret", *SHOWN]),
        # A template renders a list into a text.
        (
            lambda at: Urls("['https://h.example/{{ dag_run.conf.end }}']"),
            ["https://h.example/tmp"],
        ),
    ],
)
def test_items_are_found_as_their_options_say(run, folder, origin, names):
    run({"folder": str(folder), "end": "tmp"}, origin=origin(str(folder)))
    assert sent(run.service) == names


def test_paths_may_be_objects(run, good, folder):
    run(origin=Folder(folder))
    assert run(origin=Objects(ObjectStoragePath(f"file://{folder}")))["created"] == 3


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
    ],
)
def test_objects_are_found_by_wildcard_and_known_by_their_address(
    run, good, bucket, pattern, expected
):
    for address in (f"{bucket}/{pattern}", ObjectStoragePath(f"{bucket}/{pattern}")):
        report = run(origin=Objects(address, allow_empty=True))
        assert report["created"] + report["unchanged"] == len(expected)
    assert sent(good) == expected


def test_an_object_that_cannot_be_read_now_is_left_to_the_next_try(run, good, bucket, monkeypatch):
    def failing(self, path, **options):
        if path.endswith("a.txt"):
            raise TimeoutError("the store does not answer")
        return plain(self, path, **options)

    plain = MemoryFileSystem._open
    monkeypatch.setattr(MemoryFileSystem, "_open", failing)
    with pytest.raises(IncompleteIngestionError, match="the store does not answer"):
        run(origin=Objects(f"{bucket}/docs"))
    monkeypatch.undo()
    assert len(good.requests) == 2


# Items, lines and documents -----------------------------------------------------------------------


def test_lines_of_json_are_items_also_for_collections_of_their_own(run, good, folder):
    lines = [{"name": "a", "content": "{{ c }}"}, {"path": "a.txt", "collections": "col_2"}]
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    run(origin=JsonLines(f"{folder}/items.jsonl"))
    assert sent(good) == ["a.txt", "a: {{ c }}"]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"path": "/data/tides.txt", "nmae": "Tides"}, "invalid: /data/tides.txt: .* 'nmae'"),
        ({"path": 7}, "invalid: 7: path: "),
        ({"name": "Hours", "url": "https://svc.example", "headers": "A: b"}, "invalid: Hours: "),
    ],
)
def test_an_item_that_is_none_is_named_and_the_others_are_there(run, good, item, expected):
    with pytest.raises(AirflowFailException, match=expected):
        run(origin=[item, *HOURS])
    assert sent(good) == ["Hours: At nine."]


DOCUMENTS = [
    {"text": "At nine. {{ x }}", "metadata": {"file_name": "hours.md", "file_path": "/d/hours.md"}},
    {"page_content": "Till ten.", "metadata": {"source": "late.md", "title": "Late"}},
]


@pytest.mark.parametrize(
    "documents",
    [DOCUMENTS, [SimpleNamespace(**one) for one in DOCUMENTS]],
    ids=["dicts", "objects"],
)
def test_documents_are_texts_by_the_rules_of_loaders(run, good, documents):
    run(origin=Loader(documents, name="docs"))
    run(origin=lambda: Loader(iter(documents), name="docs"))
    assert sent(good) == ["Late: Till ten.", "hours.md: At nine. {{ x }}"]


@pytest.mark.slow
def test_documents_of_airflow_s_own_loader_are_texts_and_known_by_their_files(dags, good, folder):
    pytest.importorskip("airflow.providers.common.ai.operators.document_loader")
    dag = dags.load(
        f"""
        from airflow.providers.common.ai.operators.document_loader import DocumentLoaderOperator
        ---
        loader = DocumentLoaderOperator(task_id="load", source_path="{folder}/*.txt")
        ingest(origin=Loader(loader.output, name="docs"))
        """
    )
    for created in (1, 0):
        done = dags.run(dag)
        assert done.tasks["ingest"].xcom["created"] == created, done.log
    assert sent(good) == ["a.txt: a.txt"]


# Rows of a query ----------------------------------------------------------------------------------


class SqliteHook(DbApiHook):
    """What Airflow's provider for SQLite has, which is not installed for the tests."""

    conn_name_attr = "conn_id"

    def get_conn(self):
        return sqlite3.connect(self.get_connection(self.get_conn_id()).host)


@pytest.fixture
def shop(monkeypatch, tmp_path):
    """A database with a table of articles, and the connection `shop` to it."""
    rows = [
        (1, "Hours", "At nine. {{ x }}", "v1"),
        (2, "Ferry", "At ten.", "v1"),
        (3, "Empty", "", ""),
    ]
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE article (id, title, body, changed)")
        database.executemany("INSERT INTO article VALUES (?, ?, ?, ?)", rows)
    connection = {"conn_type": "sqlite", "host": str(file)}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(connection))
    before = Connection.get_hook

    def get_hook(self, *, hook_params=None):
        is_sqlite = self.conn_type == "sqlite"
        return SqliteHook(self.conn_id) if is_sqlite else before(self, hook_params=hook_params)

    monkeypatch.setattr(Connection, "get_hook", get_hook)
    return partial(sqlite3.connect, file)


COLUMNS = {"key": "id", "text": "body", "title": "title", "version": "changed"}


def articles(query="SELECT * FROM article", conn_id="shop", name="articles", **columns):
    return Sql(query, conn_id=conn_id, name=name, **COLUMNS | columns)


def test_rows_of_a_query_are_texts_and_only_what_changed_is_sent(run, good, shop):
    query = articles("SELECT * FROM article WHERE id < {{ dag_run.conf.most }}", "{{ 'shop' }}")
    first = run({"most": 9}, origin=query)
    assert (first["created"], first["skipped"]) == (2, 1)
    assert sent(good) == ["Ferry: At ten.", "Hours: At nine. {{ x }}"]
    with shop() as database:
        database.execute("UPDATE article SET body = 'At eleven.', changed = 'v2' WHERE id = 2")
    second = run({"most": 9}, origin=query)
    assert (second["created"], second["unchanged"]) == (1, 1)
    assert sent(good)[0] == "Ferry: At eleven."


def test_rows_that_are_no_longer_there_are_gone(run, shop):
    query = {"origin": articles(), "gone_limit": "{{ dag_run.conf.limit }}"}
    run({"limit": 1}, **query)
    with shop() as database:
        database.execute("DELETE FROM article WHERE id = 1")
    with pytest.raises(AirflowFailException, match="gone, but withheld 1"):
        run({"limit": 0.1}, **query)
    assert (run.handed_on["gone"], run.handed_on["withheld"]) == (0, 1)
    xcom = run({"limit": 1}, **query)  # a person says that it may be so
    assert xcom["gone"] == 1
    assert [one["name"] for one in xcom["named"]["gone"]] == ["Hours"]
    # Another table may have the same keys.
    assert run({"limit": 1}, **query, origin_name="drafts")["created"] == 1


def test_what_hides_whether_something_is_gone_is_reported(run, capfd):
    run(origin=[*HOURS, {"title": "none"}], origin_name="shop", fail_on=())
    said = "".join(capfd.readouterr())
    assert "Nothing was marked as gone, because not all items were seen: " in said


# What cannot be used ------------------------------------------------------------------------------


UNUSABLE = [
    ("origin=articles('SELECT * FROM none_such')", "no such table"),
    ("origin=articles('SELECT id FROM article')", "no column"),
    ("origin=articles('SELECT 1', 'none_such')", "'none_such', which"),
    ("origin=articles('SELECT 1', 'oracle')", "'oracle'.*on this worker"),
    ("origin=articles('SELECT 1', 'knowledge_bot_default')", "takes SQL"),
    ("origin=articles('{{ \"\" }}')", "query: it is empty"),
    ("origin=articles('SELECT 1', '{{ \"\" }}')", "database: expected"),
    ("origin=Sitemap('/nowhere.xml')", "there is no file /nowhere.xml"),
    ("origin=Site('{{ 7 }}')", "'7' is not an http"),
    ("origin=Folder('/nowhere')", "/nowhere"),
    ("origin=JsonLines('/nowhere')", "/nowhere"),
    ("origin=Objects('file:///nowhere/*.txt')", "cannot be read"),
    ("origin=Objects('s3://bucket/*.txt')", "cannot be read"),
    ("origin='{{ 1 }}'", "'origin' gives str instead of several"),
    ("origin=Loader([{'title': 'x'}], name='docs')", "it is not a document: .* with page_content"),
    ("origin=[], collections=None", "collections: it is not given"),
    ("origin=[], knowledge_bot_conn_id=''", "'knowledge_bot_conn_id' is empty"),
    ("origin=[], knowledge_bot_conn_id=None", "'knowledge_bot_conn_id' is empty"),
    ("origin=[], collections='{{ params.get(\"x\") or \"\" }}'", "collections: "),
    ("origin=[], collections=7", "collections: expected ids, not int"),
    ("origin=[], ledger_conn_id=''", "'ledger_conn_id' is empty"),
    ("origin=[], ledger_conn_id='none_such'", "ledger_conn_id: it names a connection that"),
    ("origin=[], ledger_conn_id='oracle'", "ledger_conn_id: it names.*'oracle'"),
    ("origin=[], knowledge_bot_conn_id='none_such'", "'knowledge_bot_conn_id' names"),
    ("origin=Folder('/'), origin_name='{{ \" \" }}'", "name: expected a name"),
]  # fmt: skip


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(("parameters", "expected"), UNUSABLE)
def test_what_cannot_be_used_is_named_before_anything_is_sent(
    run, good, monkeypatch, parameters, expected
):
    monkeypatch.setenv("AIRFLOW_CONN_ORACLE", '{"conn_type": "oracle", "host": "h"}')
    with pytest.raises(Exception, match=f"(?s){expected}"):
        run(**eval(f"dict({parameters})"))
    assert good.requests == []


def test_an_origin_that_renders_to_nothing_is_named(good):
    operator = KnowledgeBotIngestOperator(
        task_id="i", ledger_conn_id="ledger", origin=HOURS, collections="col_1"
    )
    operator.origin = None
    with pytest.raises(AirflowFailException, match="is empty once it is rendered"):
        operator.execute({"ti": None})
    assert good.requests == []


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("origin=None", "origin: expected one of knowledge_bot.origins.*not NoneType"),
        ("origin='/srv/handbook'", "origin: expected one of knowledge_bot.origins.*not str"),
        ("origin=Folder('/', marker='a/b')", "marker"),
        ("origin=[], concurrency=0", "concurrency: expected a whole number, 1 or more, not 0"),
        ("origin=[], concurrency='8'", "concurrency"),
        ("origin=[], gone_limit=2", "gone_limit: expected a number, 0 to 1"),
        ("origin=[], prune=print", "prune: expected True, False or 'excluded'"),
        ("origin=[], max_items=-1", "max_items: expected a whole number"),
        ("origin=[], max_items=1.5", "max_items"),
        ("origin=[], rate=0", "rate: expected a number"),
        ("origin=[], rate=True", "rate"),
        ("origin=[], max_refused=-1", "max_refused: expected a number, 0 or more"),
        ("origin=[], max_refused=1.5", "max_refused: expected a number, 0 to 1"),
        ("origin=[], fail_on='refused'", "fail_on: expected a list of some of refused, unknown"),
        ("origin=[], fail_on={'skipped'}", "fail_on"),
        ("origin=[], on_unknown='guess'", "'hold' or 'resend'"),
    ],
)
def test_what_no_run_could_use_is_named_when_the_dag_is_parsed(parameters, expected):
    with pytest.raises(ValueError, match=expected):
        eval(f"KnowledgeBotIngestOperator(task_id='i', ledger_conn_id='l', {parameters})")


# The other parameters -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("knowledge_bot_ledger", {"host": "{folder}/l.db"}),
        ("sqlite", {"host": "{folder}/l.db"}),
        pytest.param("postgres", None, marks=pytest.mark.slow),
        pytest.param("knowledge_bot_ledger", None, marks=pytest.mark.slow),
    ],
)
def test_every_type_of_a_ledger_s_connection_remembers(run, monkeypatch, tmp_path, kind, fields):
    with contextlib.ExitStack() as closing:
        if fields is None:
            server = closing.enter_context(postgresql())
            server.create("ledger")
            fields = {"host": "127.0.0.1", "port": server.port}
            fields |= {"login": "postgres", "schema": "ledger"}
        text = json.dumps({"conn_type": kind, **fields}).replace("{folder}", str(tmp_path))
        monkeypatch.setenv("AIRFLOW_CONN_OTHER", text)
        given = {"origin": HOURS, "ledger_conn_id": "{{ dag_run.conf.ledger }}"}
        xcom = [run({"ledger": "other"}, **given) for _ in range(2)]
    assert [(one["created"], one["unchanged"]) for one in xcom] == [(1, 0), (0, 1)]


@pytest.mark.parametrize(
    "collections",
    ["col_7", ["col_7"], ("col_7",), "{{ dag_run.conf.c }}", ["{{ dag_run.conf.c }}"], None],
)
def test_collections_are_ids_templates_or_the_connection_s_own(run, good, connect, collections):
    connect(URL, default_collection_id="col_7")
    run({"c": "col_7"}, origin=HOURS, collections=collections)
    assert good.requests[0].value["collections"] == ["col_7"]


def test_the_other_parameters_are_templates_too(run, monkeypatch, folder, ledger):
    connection = {"conn_type": "knowledge_bot", "host": URL, "password": "key"}
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(connection))
    run(
        {"name": "handbook", "conn": "other"},
        origin=Folder(folder),
        origin_name="{{ dag_run.conf.name }}",
        on_unknown="resend",
        concurrency=1,
        knowledge_bot_conn_id="{{ dag_run.conf.conn }}",
    )
    assert {entry.origin for entry in Ledger(ledger).entries()} == {"handbook"}


@pytest.mark.parametrize(
    ("options", "sources"), [({"max_items": 2}, 2), ({"rate": 20.0}, 4), ({"max_items": 0}, 0)]
)
def test_a_limit_and_a_rate_hold_for_each_try(run, good, options, sources):
    xcom = run(origin=[{"name": f"t{n}", "content": "c"} for n in range(4)], **options)
    assert xcom["created"] == len(good.requests) == sources
    assert xcom["stopped"] == ("limit" if "max_items" in options else None)
