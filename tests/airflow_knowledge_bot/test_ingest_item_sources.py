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
from page_server import answer as page
from page_server import serving
from postgresql_server import postgresql

pytestmark = pytest.mark.usefixtures("ledger")

PAGES = ("/a.html", "/b.html")
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
def site():
    """A site of two pages with a sitemap and a feed."""
    with serving() as running:
        for path in ("/", *PAGES):
            links = "".join(f'<a href="{other}">x</a>' for other in PAGES)
            running.answers[path] = page(f"<main>{path} {links}</main>".encode(), kind="text/html")
        urls = "".join(f"<url><loc>{running.url(path)}</loc></url>" for path in PAGES)
        sitemap = f"<urlset>{urls}</urlset>"
        running.answers["/map.xml"] = page(sitemap.encode(), kind="application/xml")
        entries = "".join(
            f"<item><title>{path}</title><link>{running.url(path)}</link></item>" for path in PAGES
        )
        feed = f'<rss version="2.0"><channel><title>t</title>{entries}</channel></rss>'
        running.answers["/feed.xml"] = page(feed.encode(), kind="application/xml")
        yield running


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
    ("place", "options", "names"),
    [
        ("folder=FOLDER", {}, SHOWN),
        ("folder={{ dag_run.conf.folder }}", {}, SHOWN),
        ("folder=FOLDER", {"patterns": "*.txt"}, ["a.txt"]),
        ("folder=FOLDER", {"exclude": ["*.{{ dag_run.conf.end }}"]}, ["a.txt", "c.md"]),
        ("folder=FOLDER", {"hidden": True}, [".secret", *SHOWN]),
        ("objects=file://FOLDER/*.txt", {}, ["a.txt"]),
        ("objects=file://FOLDER", {"exclude": "*.tmp"}, ["a.txt", "c.md"]),
        ("objects=file://FOLDER", {"storage_options": {}}, SHOWN),
        ("objects=file://FOLDER", {"hidden": True}, [".secret", *SHOWN]),
    ],
)
def test_files_are_found_as_their_options_say(run, folder, place, options, names):
    parameter, _, where = place.replace("FOLDER", str(folder)).partition("=")
    run({"folder": str(folder), "end": "tmp"}, **{parameter: where}, source_options=options)
    assert sent(run.service) == names


def test_paths_may_be_objects(run, good, folder):
    run(folder=folder)
    assert run(objects=ObjectStoragePath(f"file://{folder}"))["created"] == 3


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
        ("docs/c.md", ["c.md"]),
        ("docs/*.pdf", []),
    ],
)
def test_objects_are_found_by_wildcard_and_known_by_their_address(
    run, good, bucket, pattern, expected
):
    for address in (f"{bucket}/{pattern}", ObjectStoragePath(f"{bucket}/{pattern}")):
        report = run(objects=address)
        assert report["created"] + report["unchanged"] == len(expected)
    assert sent(good) == expected


def test_only_objects_that_changed_are_opened_and_what_vanished_is_gone(run, bucket, monkeypatch):
    opened = []
    plain = MemoryFileSystem._open

    def counting(self, path, mode="rb", **options):
        if mode == "rb":
            opened.append(path)
        return plain(self, path, mode=mode, **options)

    monkeypatch.setattr(MemoryFileSystem, "_open", counting)
    monkeypatch.setattr("knowledge_bot.ingest.sources._objects._SETTLED", -10.0)
    assert run(objects=f"{bucket}/docs")["created"] == 3
    opened.clear()
    assert run(objects=f"{bucket}/docs")["unchanged"] == 3
    assert opened == []
    storage = MemoryFileSystem()
    storage.pipe("/bucket/docs/a.txt", b"another text")
    storage.rm("/bucket/docs/c.md")
    report = run(objects=f"{bucket}/docs")
    assert (report["created"], report["unchanged"], report["gone"]) == (1, 1, 1)
    assert set(opened) == {"/bucket/docs/a.txt"}


def test_an_object_that_cannot_be_read_now_is_left_to_the_next_try(run, good, bucket, monkeypatch):
    def failing(self, path, **options):
        if path.endswith("a.txt"):
            raise TimeoutError("the store does not answer")
        return plain(self, path, **options)

    plain = MemoryFileSystem._open
    monkeypatch.setattr(MemoryFileSystem, "_open", failing)
    with pytest.raises(IncompleteIngestionError, match="the store does not answer"):
        run(objects=f"{bucket}/docs")
    monkeypatch.undo()
    assert len(good.requests) == 2


# Pages --------------------------------------------------------------------------------------------


@pytest.fixture
def listed(site, tmp_path):
    """The site's address, and a file that lists its pages."""
    (tmp_path / "urls.txt").write_text("\n".join(site.url(path) for path in PAGES))
    return site.url(""), str(tmp_path / "urls.txt")


@pytest.mark.parametrize(
    ("place", "options", "paths"),
    [
        ("site=SITE/", {}, ["/", *PAGES]),
        ("site={{ dag_run.conf.site }}/", {"depth": 0, "rate": 50}, ["/"]),
        ("site=SITE/", {"include": ["/b.html"], "rate": 50.0}, ["/b.html"]),
        ("sitemap=SITE/map.xml", {}, PAGES),
        ("sitemap=SITE/map.xml", {"compare": "content", "rate": 50}, PAGES),
        ("feed=SITE/feed.xml", {}, PAGES),
        ("urls=['SITE/a.html', 'SITE/b.html']", {}, PAGES),
        ("urls=FILE", {"compare": "lastmod", "rate": 50}, PAGES),
    ],
)
def test_pages_are_found_as_their_options_say(run, listed, place, options, paths):
    start, file = listed
    parameter, _, where = place.replace("SITE", start).replace("FILE", file).partition("=")
    run({"site": start}, **{parameter: where}, source_options=options)
    assert sent(run.service) == sorted(f"{start}{path}" for path in paths)


def test_a_page_that_changed_is_sent_again_where_the_pages_are_compared(run, site):
    given = {"sitemap": site.url("/map.xml"), "source_options": {"compare": "content"}}
    run(**given)
    site.answers["/b.html"] = page(b"<main>another text</main>", kind="text/html")
    xcom = run(**given)
    assert (xcom["created"], xcom["unchanged"], xcom["superseded"]) == (1, 1, 1)
    (replaced,) = xcom["named"]["superseded"]
    assert replaced["name"] == site.url("/b.html")
    assert (replaced["source_id"], replaced["replaced_by"]) != (None, None)


def test_pages_without_a_sign_of_change_are_reported_each_night(run, site, capfd):
    for created in (2, 0):
        xcom = run(sitemap=site.url("/map.xml"))
        assert (xcom["created"], xcom["unversioned"]) == (created, 2)
        assert "unversioned: 2 pages give no sign of a change" in "".join(capfd.readouterr())


# Items, lines and documents -----------------------------------------------------------------------


def test_lines_of_json_are_items_also_for_collections_of_their_own(run, good, folder):
    lines = [{"name": "a", "content": "{{ c }}"}, {"path": "a.txt", "collections": "col_2"}]
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    run(jsonl=f"{folder}/items.jsonl")
    assert sent(good) == ["a.txt", "a: {{ c }}"]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"path": "/data/tides.txt", "nmae": "Tides"}, "invalid: /data/tides.txt: nmae: "),
        ({"path": 7}, "invalid: 7: path: "),
        ({"name": "Hours", "url": "https://svc.example", "headers": "A: b"}, "invalid: Hours: "),
    ],
)
def test_an_item_that_is_none_is_named_and_the_others_are_there(run, good, item, expected):
    with pytest.raises(AirflowFailException, match=expected):
        run(items=[item, *HOURS])
    assert sent(good) == ["Hours: At nine."]


DOCUMENTS = [
    {"text": "At nine. {{ x }}", "metadata": {"file_name": "hours.md", "file_path": "/d/hours.md"}},
    {"page_content": "Till ten.", "metadata": {"source": "late.md", "title": "Late"}},
]


@pytest.mark.parametrize(
    "documents",
    [DOCUMENTS, lambda: iter(DOCUMENTS), [SimpleNamespace(**one) for one in DOCUMENTS]],
    ids=["dicts", "function", "objects"],
)
def test_documents_are_texts_by_the_rules_of_loaders(run, good, documents):
    run(documents=documents)
    assert sent(good) == ["Late: Till ten.", "hours.md: At nine. {{ x }}"]


def test_options_may_name_documents_by_functions(run, good):
    options = {"key": lambda one: "k", "name": lambda one: one.metadata["title"]}
    run(documents=DOCUMENTS[1:], source_options=options)
    assert sent(good) == ["Late: Till ten."]


@pytest.mark.slow
def test_documents_of_airflow_s_own_loader_are_texts_and_known_by_their_files(dags, good, folder):
    pytest.importorskip("airflow.providers.common.ai.operators.document_loader")
    dag = dags.load(
        f"""
        from airflow.providers.common.ai.operators.document_loader import DocumentLoaderOperator
        ---
        loader = DocumentLoaderOperator(task_id="load", source_path="{folder}/*.txt")
        ingest(documents=loader.output)
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


class PostgresHook(DbApiHook):
    """Likewise for PostgreSQL."""

    conn_name_attr = "conn_id"

    def get_conn(self):
        import psycopg

        return psycopg.connect(
            self.get_connection(self.get_conn_id()).get_uri().replace("postgres:", "postgresql:", 1)
        )


HOOKS = {"sqlite": SqliteHook, "postgres": PostgresHook}


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
        hook = HOOKS.get(self.conn_type)
        return hook(self.conn_id) if hook else before(self, hook_params=hook_params)

    monkeypatch.setattr(Connection, "get_hook", get_hook)
    return partial(sqlite3.connect, file)


COLUMNS = {"key": "id", "text": "body", "name": "title", "version": "changed"}
ARTICLES = {"sql": "SELECT * FROM article", "sql_conn_id": "shop", "source_options": COLUMNS}


def test_rows_of_a_query_are_texts_and_only_what_changed_is_sent(run, good, shop):
    query = ARTICLES | {"sql": "SELECT * FROM article WHERE id < {{ dag_run.conf.most }}"}
    first = run({"most": 9}, **query)
    assert (first["created"], first["skipped"]) == (2, 1)
    assert sent(good) == ["Ferry: At ten.", "Hours: At nine. {{ x }}"]
    with shop() as database:
        database.execute("UPDATE article SET body = 'At eleven.', changed = 'v2' WHERE id = 2")
    second = run({"most": 9}, **query)
    assert (second["created"], second["unchanged"]) == (1, 1)
    assert sent(good)[0] == "Ferry: At eleven."


def test_rows_that_are_no_longer_there_are_gone_where_the_table_has_a_name(run, shop):
    query = ARTICLES | {"gone_limit": "{{ dag_run.conf.limit }}"}
    run({"limit": 1}, **query, origin="articles")
    with shop() as database:
        database.execute("DELETE FROM article WHERE id = 1")
    xcom = run({"limit": 0.1}, **query, origin="articles")
    assert (xcom["gone"], xcom["gone_withheld"]) == (0, 1)
    xcom = run({"limit": 1}, **query, origin="articles")  # a person says that it may be so
    assert xcom["gone"] == 1
    assert [one["name"] for one in xcom["named"]["gone"]] == ["Hours"]
    # Another table may have the same keys.
    assert run({"limit": 1}, **query, origin="drafts")["created"] == 1


def test_what_hides_whether_something_is_gone_is_reported(run, capfd):
    run(items=[*HOURS, {"title": "none"}], origin="shop", fail_on=())
    said = "".join(capfd.readouterr())
    assert "Nothing was marked as gone, because not all items were seen: " in said


@pytest.mark.slow
def test_a_query_on_postgresql_is_streamed(run, good, shop, monkeypatch):
    query = "SELECT n AS id, repeat('x', 10) AS body FROM generate_series(1, 1200) AS n"
    with postgresql() as server:
        monkeypatch.setenv("AIRFLOW_CONN_LARGE", server.url())
        columns = {"key": "id", "text": "body"}
        result = run(sql=query, sql_conn_id="large", source_options=columns)
    assert result["created"] == len(good.requests) == 1200


# What cannot be used ------------------------------------------------------------------------------


UNUSABLE = [
    ("sql='SELECT * FROM none_such', sql_conn_id='shop', source_options=COLUMNS", "no such table"),
    ("sql='SELECT id FROM article', sql_conn_id='shop', source_options=COLUMNS", "no column"),
    ("sql='SELECT * FROM article', sql_conn_id='shop'", "lacks 'key' and 'text'"),
    ("sql='SELECT 1', sql_conn_id='none_such', source_options=COLUMNS", "'none_such', which"),
    ("sql='SELECT 1', sql_conn_id='oracle', source_options=COLUMNS", "'oracle'.*on this worker"),
    ("sql='SELECT 1', sql_conn_id='knowledge_bot_default', source_options=COLUMNS", "takes SQL"),
    ("sql='{{ \" \" }}', sql_conn_id='shop', source_options=COLUMNS", "'sql' is empty"),
    ("sql='SELECT 1', sql_conn_id=' ', source_options=COLUMNS", "'sql_conn_id' is empty"),
    ("sql=7, sql_conn_id='shop', source_options=COLUMNS", "'sql' is int where a query"),
    ("folder='/', source_options={'depth': 3}", "Its options: patterns, exclude, hidden"),
    ("site='https://x.example', source_options={'dept': 3}", "has 'dept'.*Its options: depth,"),
    ("site='https://x.example', source_options={'depth': 'x'}", "'depth' is a number, not 'x'"),
    ("site='ftp://x.example'", "'site'.*is not an http"),
    ("sitemap='/nowhere.xml'", "'sitemap'.*there is no file /nowhere.xml"),
    ("urls=['https://x'], source_options={'compare': 'x'}", "'urls'.*compare: expected"),
    ("items=[], source_options={'depth': 1}", "'items' does not take. Its options: none"),
    ("items=[], source_options=7", "'source_options' is int where a dict"),
    ("items=[], source_options='x'", "'source_options' is str where a dict"),
    ("folder=7", "'folder' is int where a path"),
    ("folder='/nowhere'", "'folder'.*on this worker.*/nowhere"),
    ("jsonl='/nowhere'", "'jsonl'.*on this worker.*/nowhere"),
    ("folder=''", "'folder' is empty"),
    ("objects='file:///nowhere/*.txt'", "'objects' cannot be read"),
    ("objects='s3://bucket/*.txt'", "'objects' cannot be read"),
    ("jsonl=['x']", "'jsonl' is list where a path"),
    ("urls=[7]", "'urls' is list where a file's path, or a list of addresses"),
    ("urls=''", "'urls' is empty"),
    ("urls='/nowhere.txt'", "'urls'.*on this worker.*/nowhere"),
    ("site=7", "'site' is int where an address"),
    ("feed=' '", "'feed' is empty"),
    ("items='{{ 1 }}'", "'items' gives str instead of several"),
    ("documents='{{ 1 }}'", "'documents' gives str instead of several"),
    ("documents={'text': 'x'}", "'documents' gives dict instead of several"),
    ("documents=[{'title': 'x'}]", "document: .* 'text' or 'page_content'.* only 'title'"),
    ("items=[], collections=None", "collections: it is not given"),
    ("items=[], knowledge_bot_conn_id=''", "'knowledge_bot_conn_id' is empty"),
    ("items=[], knowledge_bot_conn_id=None", "'knowledge_bot_conn_id' is empty"),
    ("items=[], collections='{{ params.get(\"x\") or \"\" }}'", "collections: "),
    ("items=[], collections=7", "collections: expected ids, not int"),
    ("items=[], ledger_conn_id=''", "'ledger_conn_id' is empty"),
    ("items=[], ledger_conn_id='none_such'", "'ledger_conn_id' names a connection that"),
    ("items=[], ledger_conn_id='oracle'", "'ledger_conn_id' names.*'oracle'"),
    ("items=[], knowledge_bot_conn_id='none_such'", "'knowledge_bot_conn_id' names"),
    ("items=[], origin='{{ \" \" }}'", "origin: expected a name"),
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


def test_parameters_that_all_render_to_nothing_are_named(good):
    operator = KnowledgeBotIngestOperator(task_id="i", ledger_conn_id="ledger", items=HOURS)
    operator.items = None
    with pytest.raises(AirflowFailException, match="are all empty once they are rendered"):
        operator.execute({"ti": None})
    assert good.requests == []


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("", "exactly one of the parameters 'items'.* and none is"),
        ("items=[], folder='/x'", "'items' and 'folder' are given"),
        ("sql='SELECT 1'", "sql and sql_conn_id are given together"),
        ("items=[], sql_conn_id='shop'", "sql and sql_conn_id are given together"),
        ("items=[], concurrency=0", "concurrency: expected a whole number, 1 or more, not 0"),
        ("items=[], concurrency='8'", "concurrency"),
        ("items=[], gone_limit=2", "gone_limit: expected a number, 0 to 1"),
        ("items=[], limit=-1", "limit: expected a whole number"),
        ("items=[], limit=1.5", "limit"),
        ("items=[], rate=0", "rate: expected a number"),
        ("items=[], rate=True", "rate"),
        ("items=[], wait=-1", "wait: expected a number, 0 or more"),
        ("items=[], ledger_wait='5m'", "ledger_wait: expected a number"),
        ("items=[], max_refused=-1", "max_refused: expected a number, 0 or more"),
        ("items=[], max_refused=1.5", "max_refused: expected a number, 0 to 1"),
        ("items=[], fail_on='refused'", "fail_on: expected a list of some of refused, unknown"),
        ("items=[], fail_on={'skipped'}", "fail_on"),
        ("items=[], on_unknown='guess'", "'hold' or 'resend'"),
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
        given = {"items": HOURS, "ledger_conn_id": "{{ dag_run.conf.ledger }}"}
        xcom = [run({"ledger": "other"}, **given) for _ in range(2)]
    assert [(one["created"], one["unchanged"]) for one in xcom] == [(1, 0), (0, 1)]


@pytest.mark.parametrize(
    "collections",
    ["col_7", ["col_7"], ("col_7",), "{{ dag_run.conf.c }}", ["{{ dag_run.conf.c }}"], None],
)
def test_collections_are_ids_templates_or_the_connection_s_own(run, good, connect, collections):
    connect(URL, default_collection_id="col_7")
    run({"c": "col_7"}, items=HOURS, collections=collections)
    assert good.requests[0].value["collections"] == ["col_7"]


def test_the_other_parameters_are_templates_too(run, monkeypatch, folder, ledger):
    connection = {"conn_type": "knowledge_bot", "host": URL, "password": "key"}
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(connection))
    run(
        {"name": "handbook", "conn": "other"},
        folder=folder,
        origin="{{ dag_run.conf.name }}",
        on_unknown="resend",
        concurrency=1,
        knowledge_bot_conn_id="{{ dag_run.conf.conn }}",
    )
    assert {entry.origin for entry in Ledger(ledger).entries()} == {"handbook"}


@pytest.mark.parametrize(
    ("options", "sources"), [({"limit": 2}, 2), ({"rate": 20.0}, 4), ({"limit": 0}, 0)]
)
def test_a_limit_and_a_rate_hold_for_each_try(run, good, options, sources):
    xcom = run(items=[{"name": f"t{n}", "content": "c"} for n in range(4)], **options)
    assert xcom["created"] == len(good.requests) == sources
    assert xcom["stopped"] == ("limit" if "limit" in options else None)
