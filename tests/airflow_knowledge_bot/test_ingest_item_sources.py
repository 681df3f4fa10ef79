"""Every place that items come from, with its options, in runs of a real worker."""

import contextlib
import itertools
import json
import re
import sqlite3
from functools import partial

import pytest
from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.sdk import Connection

from calls import KEY, SOURCE
from knowledge_bot.ingest import Ledger
from page_server import answer as page
from page_server import serving
from postgresql_server import postgresql
from scripted_server import answer

pytestmark = pytest.mark.integration

PAGES = ("/a.html", "/b.html")


def sent(server):
    """Return what the service got, by the fields that identify it."""
    found = []
    for request in server.requests:
        if request.path.endswith("upload"):
            found.append(request.body.split(b'filename="')[1].split(b'"')[0].decode())
        else:
            value = request.json()["value"]
            found.append(value.get("url") or f"{value['name']}: {value['content']}")
    return sorted(found)


@pytest.fixture
def good(connect, scripted):
    """A service that creates whatever it is sent, and gives each source an id of its own."""
    numbers = itertools.count(1)
    server = scripted(
        reply_to=lambda _: answer(body={"value": SOURCE | {"id": f"src_{next(numbers)}"}})
    )
    connect(server.url, max_retries=0)
    return server


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
def listed(site, tmp_path):
    """The site's address, and a file that lists its pages."""
    file = tmp_path / "urls.txt"
    file.write_text("\n".join(site.url(path) for path in PAGES))
    return site.url(""), file


@pytest.fixture
def folder(tmp_path):
    where = tmp_path / "handbook"
    where.mkdir()
    for name in ("a.txt", "b.tmp", "c.md", ".secret"):
        (where / name).write_text(name)
    return where


@pytest.fixture
def run(dags, good, ledger):
    """`run(parameters, …)`: one run of a task with these parameters, which must end well."""

    def once(parameters, before="", **conf):
        dag = dags.load(
            f"{before}\n---\ningest({parameters})" if before else f"ingest({parameters})"
        )
        done = dags.run(dag, run_conf=conf or None)
        assert done.state == "success", done.log
        return done

    return once


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ("folder={folder!r}", ["a.txt", "b.tmp", "c.md"]),
        ("folder='{{{{ dag_run.conf.where }}}}'", ["a.txt", "b.tmp", "c.md"]),
        ("folder=__import__('pathlib').Path({folder!r})", ["a.txt", "b.tmp", "c.md"]),
        ("folder={folder!r}, source_options={{'patterns': '*.txt'}}", ["a.txt"]),
        (
            "folder={folder!r}, source_options={{'exclude': ['*.{{{{ dag_run.conf.end }}}}']}}",
            ["a.txt", "c.md"],
        ),
        ("objects='file://{folder}/*.txt'", ["a.txt"]),
        ("objects=ObjectStoragePath('file://{folder}')", ["a.txt", "b.tmp", "c.md"]),
        ("objects='file://{folder}', source_options={{'exclude': '*.tmp'}}", ["a.txt", "c.md"]),
        ("objects='file://{folder}', source_options={{'storage_options': {{}}}}", 3),
        ("folder={folder!r}, source_options={{'hidden': True}}", 4),
        ("objects='file://{folder}', source_options={{'hidden': True}}", 4),
    ],
)
def test_files_are_found_as_their_options_say(run, good, folder, parameters, names):
    run(parameters.format(folder=str(folder)), where=str(folder), end="tmp")
    if isinstance(names, int):
        assert len(sent(good)) == names
    else:
        assert sent(good) == names


@pytest.mark.parametrize(
    ("parameters", "paths"),
    [
        ("site='{site}/'", ["/", *PAGES]),
        ("site='{{{{ dag_run.conf.site }}}}/', source_options={{'depth': 0, 'rate': 50}}", ["/"]),
        ("site='{site}/', source_options={{'include': ['/b.html'], 'rate': 50.0}}", ["/b.html"]),
        ("sitemap='{site}/map.xml'", PAGES),
        ("sitemap='{site}/map.xml', source_options={{'compare': 'content', 'rate': 50}}", PAGES),
        ("feed='{site}/feed.xml'", PAGES),
        ("urls=['{site}/a.html', '{{{{ dag_run.conf.site }}}}/b.html']", PAGES),
        ("urls='{file}'", PAGES),
        ("urls='{file}', source_options={{'compare': 'lastmod', 'rate': 50}}", PAGES),
    ],
)
def test_pages_are_found_as_their_options_say(run, good, listed, parameters, paths):
    start, file = listed
    run(parameters.format(site=start, file=file), site=start)
    assert sent(good) == sorted(f"{start}{path}" for path in paths)


def test_a_page_that_changed_is_sent_again_where_the_pages_are_compared(run, good, site):
    parameters = f"sitemap={site.url('/map.xml')!r}, source_options={{'compare': 'content'}}"
    run(parameters)
    site.answers["/b.html"] = page(b"<main>another text</main>", kind="text/html")
    xcom = run(parameters).task.xcom
    assert (xcom["created"], xcom["unchanged"], xcom["superseded"]) == (1, 1, 1)
    (replaced,) = xcom["named"]["superseded"]
    assert replaced["name"] == site.url("/b.html")
    assert (replaced["source_id"], replaced["replaced_by"]) != (None, None)


def test_pages_without_a_sign_of_change_are_reported_each_night(run, good, site):
    for created in (2, 0):
        done = run(f"sitemap={site.url('/map.xml')!r}")
        assert (done.task.xcom["created"], done.task.xcom["unversioned"]) == (created, 2)
        assert "[warning  ] unversioned: 2 pages give no sign of a change" in done.log


def test_lines_of_json_are_items_also_for_collections_of_their_own(run, good, folder):
    lines = [{"name": "a", "content": "{{ c }}"}, {"path": "a.txt", "collections": "col_2"}]
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    run(f"jsonl='{folder}/items.jsonl'")
    assert sent(good) == ["a.txt", "a: {{ c }}"]


DOCUMENTS = """
[
    {"text": "At nine. {{ x }}", "metadata": {"file_name": "hours.md", "file_path": "/d/hours.md"}},
    {"page_content": "Till ten.", "metadata": {"source": "late.md", "title": "Late"}},
]
"""
SENT = ["Late: Till ten.", "hours.md: At nine. {{ x }}"]


@pytest.mark.parametrize(
    "parameters",
    [
        f"documents={DOCUMENTS}",
        f"documents=upstream({DOCUMENTS})",
        f"documents=lambda: iter({DOCUMENTS})",
        f"documents=[SimpleNamespace(**one) for one in {DOCUMENTS}]",
    ],
    ids=["dicts", "upstream", "function", "objects"],
)
def test_documents_are_texts_by_the_rules_of_loaders(run, good, parameters):
    run(parameters, before="from types import SimpleNamespace")
    assert sent(good) == SENT


def test_documents_of_airflow_s_own_loader_are_texts_and_known_by_their_files(run, good, folder):
    pytest.importorskip("airflow.providers.common.ai.operators.document_loader")
    before = """
from airflow.providers.common.ai.operators.document_loader import DocumentLoaderOperator
"""
    loader = f"DocumentLoaderOperator(task_id='load', source_path='{folder}/*.txt').output"
    for created in (1, 0):
        done = run(f"documents={loader}", before=before)
        assert done.tasks["ingest"].xcom["created"] == created
    assert sent(good) == ["a.txt: a.txt"]


def test_options_may_name_documents_by_functions(run, good):
    options = "{'key': lambda one: 'k', 'name': lambda one: one.metadata['title']}"
    run(f"documents={DOCUMENTS}[1:], source_options={options}")
    assert sent(good) == ["Late: Till ten."]


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
ROWS = (
    "[(1, 'Hours', 'At nine. {{ x }}', 'v1'), (2, 'Ferry', 'At ten.', 'v1'), (3, 'Empty', '', '')]"
)
COLUMNS = "source_options={'key': 'id', 'text': 'body', 'name': 'title', 'version': 'changed'}"


@pytest.fixture
def shop(monkeypatch, tmp_path):
    """A database with a table of articles, and the connection `shop` to it."""
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE article (id, title, body, changed)")
        database.executemany("INSERT INTO article VALUES (?, ?, ?, ?)", eval(ROWS))
    connection = {"conn_type": "sqlite", "host": str(file)}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(connection))
    before = Connection.get_hook

    def get_hook(self, *, hook_params=None):
        hook = HOOKS.get(self.conn_type)
        return hook(self.conn_id) if hook else before(self, hook_params=hook_params)

    monkeypatch.setattr(Connection, "get_hook", get_hook)
    return partial(sqlite3.connect, file)


def test_rows_of_a_query_are_texts_and_only_what_changed_is_sent(run, good, shop):
    query = "sql='SELECT * FROM article WHERE id < {{ dag_run.conf.most }}', sql_conn_id='shop'"
    first = run(f"{query}, {COLUMNS}", most="9").task.xcom
    assert (first["created"], first["skipped"]) == (2, 1)
    assert sent(good) == ["Ferry: At ten.", "Hours: At nine. {{ x }}"]
    with shop() as database:
        database.execute("UPDATE article SET body = 'At eleven.', changed = 'v2' WHERE id = 2")
    second = run(f"{query}, {COLUMNS}", most="9").task.xcom
    assert (second["created"], second["unchanged"]) == (1, 1)
    assert sent(good)[0] == "Ferry: At eleven."


def test_rows_that_are_no_longer_there_are_gone_where_the_table_has_a_name(run, good, shop):
    query = "sql='SELECT * FROM article', sql_conn_id='shop', origin='articles', gone_limit=1"
    run(f"{query}, {COLUMNS}")
    with shop() as database:
        database.execute("DELETE FROM article WHERE id = 1")
    xcom = run(f"{query}, {COLUMNS}").task.xcom
    assert xcom["gone"] == 1
    assert [one["name"] for one in xcom["named"]["gone"]] == ["Hours"]
    # Another table may have the same keys.
    other = query.replace("articles", "drafts")
    assert run(f"{other}, {COLUMNS}").task.xcom["created"] == 1


def test_what_hides_whether_something_is_gone_is_reported(dags, good, ledger, folder):
    items = "[{'name': 'a', 'content': 'c'}, {'title': 'none'}]"
    done = dags.run(dags.load(f"ingest(items={items}, origin='shop', fail_on=())"))
    assert done.state == "success"
    assert "[warning  ] Nothing was marked as gone, because not all items were seen: " in done.log


def test_a_query_on_postgresql_is_streamed(run, good, shop, monkeypatch):
    with postgresql() as server:
        monkeypatch.setenv("AIRFLOW_CONN_LARGE", server.url())
        query = "SELECT n AS id, repeat('x', 10) AS body FROM generate_series(1, 1200) AS n"
        result = run(
            f"sql={query!r}, sql_conn_id='large', source_options={{'key': 'id', 'text': 'body'}}"
        ).task.xcom
    assert result["created"] == len(good.requests) == 1200


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("sql='SELECT * FROM none_such', sql_conn_id='shop', " + COLUMNS, "no such table"),
        ("sql='SELECT id, body FROM article', sql_conn_id='shop', " + COLUMNS, "no column 'title'"),
        ("sql='SELECT * FROM article', sql_conn_id='shop'", "lacks 'key' and 'text'"),
        ("sql='SELECT 1', sql_conn_id='none_such', " + COLUMNS, "'none_such', which"),
        ("sql='SELECT 1', sql_conn_id='oracle', " + COLUMNS, "'oracle'.*on this worker"),
        ("sql='SELECT 1', sql_conn_id='knowledge_bot_default', " + COLUMNS, "takes SQL"),
        ("sql='{{ params.get(\"x\") or \"\" }}', sql_conn_id='shop', " + COLUMNS, "'sql' is empty"),
        ("sql='SELECT 1', sql_conn_id=' ', " + COLUMNS, "'sql_conn_id' is empty"),
        ("sql=7, sql_conn_id='shop', " + COLUMNS, "'sql' is int where a query"),
        ("folder='/', source_options={'depth': 3}", "Its options: patterns, exclude, hidden"),
        ("site='https://x.example', source_options={'dept': 3}", "has 'dept'.*Its options: depth,"),
        ("site='https://x.example', source_options={'depth': 'x'}", "'depth' is a number, not 'x'"),
        ("site='ftp://x.example'", "'site'.*is not an http"),
        ("sitemap='/nowhere.xml'", "'sitemap'.*there is no file /nowhere.xml"),
        ("urls=['https://x'], source_options={'compare': 'x'}", "'urls'.*compare: expected"),
        ("items=[], source_options={'depth': 1}", "'items' does not take. Its options: none"),
        ("items=[], source_options=7", "'source_options' is int where a dict"),
        ("items=[], source_options=upstream('x')", "'source_options' is str where a dict"),
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
        ("sitemap=upstream(None)", "are all empty once they are rendered"),
        ("items=upstream(None)", "are all empty once they are rendered"),
        ("items='{{ 1 }}'", "'items' gives str instead of several"),
        ("documents='{{ 1 }}'", "'documents' gives str instead of several"),
        ("documents={'text': 'x'}", "'documents' gives dict instead of several"),
        ("documents=[{'title': 'x'}]", "document: .* 'text' or 'page_content'.* only 'title'"),
        ("items=[], collections=upstream(None)", "collections: it is not given"),
        ("items=[], knowledge_bot_conn_id=''", "'knowledge_bot_conn_id' is empty"),
        ("items=[], knowledge_bot_conn_id=upstream(None)", "'knowledge_bot_conn_id' is empty"),
        ("items=[], collections='{{ params.get(\"x\") or \"\" }}'", "collections: "),
        ("items=[], collections=7", "collections: expected ids, not int"),
        ("items=[], ledger_conn_id=''", "'ledger_conn_id' is empty"),
        ("items=[], ledger_conn_id='none_such'", "'ledger_conn_id' names a connection that"),
        ("items=[], ledger_conn_id='oracle'", "'ledger_conn_id' names.*'oracle'"),
        ("items=[], knowledge_bot_conn_id='none_such'", "'knowledge_bot_conn_id' names"),
        ("items=[], origin='{{ \" \" }}'", "origin: expected a name"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("ledger", "shop")
def test_what_cannot_be_used_is_named_before_anything_is_sent(
    dags, good, monkeypatch, parameters, expected
):
    monkeypatch.setenv("AIRFLOW_CONN_ORACLE", '{"conn_type": "oracle", "host": "h"}')
    done = dags.run(dags.load(f"ingest({parameters})"))
    assert done.state == "failed"
    assert re.search(expected, done.log), done.log[-3000:]
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
def test_what_no_run_could_use_is_named_when_the_dag_is_parsed(dags, parameters, expected):
    with pytest.raises(ValueError, match=expected):
        dags.load(f"ingest({parameters})")


@pytest.mark.parametrize(
    ("connection", "folder"),
    [
        ({"conn_type": "knowledge_bot_ledger", "host": "{folder}/l.db"}, True),
        ({"conn_type": "sqlite", "host": "{folder}/l.db"}, True),
        ("postgres", False),
        ("knowledge_bot_ledger", False),
    ],
)
def test_every_type_of_a_ledger_s_connection_remembers(
    run, monkeypatch, tmp_path, connection, folder
):
    with contextlib.ExitStack() as closing:
        if not folder:
            server = closing.enter_context(postgresql())
            server.create("ledger")
            connection = {"conn_type": connection, "host": "127.0.0.1", "port": server.port}
            connection |= {"login": "postgres", "schema": "ledger"}
        text = json.dumps(connection).replace("{folder}", str(tmp_path))
        monkeypatch.setenv("AIRFLOW_CONN_OTHER", text)
        items = [{"name": "a", "content": "c"}]
        given = f"items={items}, ledger_conn_id='{{{{ dag_run.conf.ledger }}}}'"
        xcom = [run(given, ledger="other").task.xcom for _ in range(2)]
    assert [(one["created"], one["unchanged"]) for one in xcom] == [(1, 0), (0, 1)]


@pytest.mark.parametrize(
    "collections",
    [
        "'col_7'",
        "['col_7']",
        "('col_7',)",
        "upstream(['col_7'])",
        "'{{ dag_run.conf.c }}'",
        "['{{ dag_run.conf.c }}']",
        "None",
    ],
)
def test_collections_are_ids_templates_or_the_connection_s_own(run, good, connect, collections):
    connect(good.url, default_collection_id="col_7")
    run(f"items=[{{'name': 'a', 'content': 'c'}}], collections={collections}", c="col_7")
    assert good.requests[0].json()["value"]["collections"] == ["col_7"]


def test_the_other_parameters_are_templates_too(run, good, monkeypatch, folder, ledger):
    connection = {"conn_type": "knowledge_bot", "host": good.url, "password": KEY}
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(connection))
    run(
        f"folder={str(folder)!r}, origin='{{{{ dag_run.conf.name }}}}', on_unknown='resend', "
        "concurrency=1, gone_limit=0.0, knowledge_bot_conn_id='{{ dag_run.conf.conn }}'",
        name="handbook",
        conn="other",
    )
    assert {entry.origin for entry in Ledger(ledger).entries()} == {"handbook"}


@pytest.mark.parametrize(("options", "sources"), [("limit=2", 2), ("rate=20.0", 4), ("limit=0", 0)])
def test_a_limit_and_a_rate_hold_for_each_try(run, good, options, sources):
    items = [{"name": f"t{n}", "content": "c"} for n in range(4)]
    xcom = run(f"items={items}, {options}").task.xcom
    assert xcom["created"] == len(good.requests) == sources
    assert xcom["stopped"] == ("limit" if "limit" in options else None)
