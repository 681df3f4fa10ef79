"""Rows of a table: of drivers, of SQLAlchemy, and of what people have at hand."""

import sqlite3
from collections import namedtuple

import pytest

from knowledge_bot import ConfigurationError
from knowledge_bot.ingest import Skipped, Text
from knowledge_bot.origins import Rows, Sql
from refusals import refused

ROWS = [(1, "Hours", "The desk opens at nine.", "t1"), (2, "Lending", "Three weeks.", "t1")]
COLUMNS = ("id", "title", "body", "changed")
BY_NAME = {"key": "id", "text": "body", "title": "title", "version": "changed", "name": "rows"}

Named = namedtuple("Named", COLUMNS)


@pytest.fixture
def database(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db", check_same_thread=False) as connection:
        connection.execute("CREATE TABLE article (id, title, body, changed)")
        connection.executemany("INSERT INTO article VALUES (?, ?, ?, ?)", ROWS)
    connection.commit()
    yield connection
    connection.close()


class Bare:
    """A cursor that can only fetch: DB-API demands no more."""

    def __init__(self):
        self.description = [(name, None) for name in COLUMNS]
        self._rows = iter(ROWS)

    def fetchone(self):
        return next(self._rows, None)


def sqlite_rows(database):
    database.row_factory = sqlite3.Row
    return database.execute("SELECT * FROM article")


def of_sqlalchemy(database, *, mappings=False):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine("sqlite://", creator=lambda: database)
    result = engine.connect().execute(sqlalchemy.text("SELECT * FROM article"))
    return result.mappings() if mappings else result


KINDS = {
    "cursor": lambda database: database.execute("SELECT * FROM article"),
    "cursor that cannot be iterated over": lambda _: Bare(),
    "sqlite3.Row": sqlite_rows,
    "list of sqlite3.Row": lambda database: sqlite_rows(database).fetchall(),
    "SQLAlchemy result": of_sqlalchemy,
    "SQLAlchemy rows": lambda database: of_sqlalchemy(database).all(),
    "SQLAlchemy mappings": lambda database: of_sqlalchemy(database, mappings=True),
    "dicts": lambda _: [dict(zip(COLUMNS, row, strict=True)) for row in ROWS],
    "named tuples": lambda _: [Named(*row) for row in ROWS],
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_kind_are_texts(database, kind):
    assert list(Rows(KINDS[kind](database), **BY_NAME).items()) == [
        Text(key="1", name="Hours", content="The desk opens at nine.", version="t1"),
        Text(key="2", name="Lending", content="Three weeks.", version="t1"),
    ]


def test_columns_may_be_functions_of_the_row():
    (text,) = Rows(
        [{"shop": "north", "id": 7, "body": b"caf\xc3\xa9"}],
        key=lambda row: f"{row['shop']}/{row['id']}",
        text="body",
        name="rows",
    ).items()
    assert text == Text(key="north/7", name="north/7", content="café")


@pytest.mark.parametrize("key", [None, "", "  "])
def test_a_row_with_an_empty_key_is_named_and_the_rest_is_done(send, ledger, key):
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]
    rows.insert(1, {"id": key, "title": "None", "body": "x", "changed": ""})
    report = send(Rows(rows, **BY_NAME | {"name": "articles"}), ledger=ledger)
    assert (report.created, report.invalid) == (2, 1)
    assert [one.name for one in report.failures] == ["row 2"]
    del rows[0]
    assert send(Rows(rows, **BY_NAME | {"name": "articles"}), ledger=ledger).gone == 1


@pytest.mark.parametrize(
    ("row", "name", "said"),
    [
        ({"id": 1, "text": "x"}, "1", "row 2: there is no column 'body'; there are id, text"),
        ({"id": 1, "body": b"\xff"}, "1", "UnicodeDecodeError"),
        ({"id": 1, "body": ["x"]}, "1", "its text is of type list, which is no text"),
        (None, "row 2", "there is no column 'id'"),
        ({"id": {"a": 1}, "body": "x"}, "row 2", "its key is of type dict, which is no text"),
        ({"id": True, "body": "x"}, "row 2", "its key is of type bool, which is no text"),
        ({"id": object(), "body": "x"}, "row 2", "its key is of type object, which is no text"),
        ({"id": float("nan"), "body": "x"}, "row 2", "its key is empty"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_and_hides_no_more_than_its_key(row, name, said):
    good = {"id": 2, "body": "x"}
    one, wrong, other = Rows([good, row, good], key="id", text="body", name="rows").items()
    assert one == other
    assert isinstance(wrong, Skipped)
    known = name != "row 2"
    hides_others = not known and said != "its key is empty"
    assert (wrong.name, wrong.invalid, wrong.partial) == (name, True, hides_others)
    assert (wrong.gone == "unread") is known
    assert said in wrong.reason


def test_beside_a_row_that_cannot_be_read_what_is_gone_is_told(send, ledger):
    def run(*bodies):
        rows = [{"id": f"r{number}", "body": body} for number, body in enumerate(bodies) if body]
        return send(Rows(rows, key="id", text="body", name="articles"), ledger=ledger)

    assert run("a", "b", "c").created == 3
    report = run(b"\xff", "b", None)
    assert (report.invalid, report.unchanged, report.gone) == (1, 1, 1)
    assert [entry.name for entry in ledger.gone()] == ["r2"]


def test_a_row_whose_text_is_gone_is_named_and_not_gone(database, send, ledger):
    def run():
        rows = database.execute("SELECT * FROM article ORDER BY id")
        return send(Rows(rows, key="id", text="body", name="articles"), ledger=ledger)

    run()
    database.execute("UPDATE article SET body = NULL WHERE id = 2")
    report = run()
    assert (report.unchanged, report.invalid, report.gone) == (1, 1, 0)


def test_rows_are_taken_one_at_a_time_and_a_failure_of_the_database_is_reported(send, ledger):
    def rows():
        for number in range(6):
            yield {"id": number, "body": f"text {number}"}
        raise sqlite3.OperationalError("the server closed the connection")

    items = iter(Rows(rows(), key="id", text="body", name="rows").items())
    assert next(items).key == "0"
    report = send(Rows(rows(), key="id", text="body", name="table"), ledger=ledger)
    assert (report.created, report.invalid, report.gone) == (6, 1, 0)
    assert "the server closed the connection" in report.failures[0].error


def test_a_connection_of_sqlite_that_is_bound_to_its_thread_is_reported_with_the_remedy(
    send, tmp_path
):
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        rows = connection.execute("SELECT 1 AS id, 'x' AS body")
        report = send(Rows(rows, key="id", text="body", name="rows"))
    assert "check_same_thread=False" in report.failures[0].error


@pytest.mark.parametrize(
    ("rows", "key", "argument"), [(Bare(), "nr", "key"), ([], 0, "key"), (3, "id", "rows")]
)
def test_what_cannot_be_used_is_reported_at_once(rows, key, argument):
    with refused(argument):
        Rows(rows, key=key, text="body", name="rows")


# Queries ------------------------------------------------------------------------------------------


def articles(database, query="SELECT * FROM article", **more):
    return Sql(query, database=database, **BY_NAME | more)


@pytest.fixture
def file(database, tmp_path):
    """The database's file."""
    return str(tmp_path / "shop.db")


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_query_of_sqlite_is_asked_each_time_and_may_write_nothing(file, database, form):
    rows = articles(form.format(file))
    assert [item.key for item in rows.items()] == ["1", "2"]
    database.execute("DELETE FROM article WHERE id = 1")
    database.commit()
    assert [item.key for item in rows.items()] == ["2"]
    (said,) = articles(form.format(file), "DELETE FROM article").items()
    assert (said.name, said.invalid, said.partial) == ("rows", True, True)
    assert [item.key for item in rows.items()] == ["2"]


def test_a_query_of_any_other_database_is_asked_by_sqlalchemy(file):
    pytest.importorskip("sqlalchemy")
    rows = articles(f"sqlite+pysqlite:///{file}")
    assert [item.content for item in rows.items()] == [row[2] for row in ROWS]


@pytest.mark.slow
def test_a_query_of_postgresql_is_streamed(postgresql):
    query = "SELECT n AS id, 'x' AS body, n AS title, n AS changed FROM generate_series(1, 1200) n"
    assert len(list(articles(postgresql, query).items())) == 1200


def test_a_connection_that_somebody_else_makes_is_closed():
    made = []

    def connect():
        made.append(sqlite3.connect(":memory:"))
        return made[-1]

    rows = Sql("SELECT 1 AS id, 'x' AS body", connect=connect, key="id", text="body", name="t")
    assert [item.key for item in rows.items()] == ["1"]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        made[0].execute("SELECT 1")


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"database": ""}, "database"),
        ({"conn_id": "shop"}, "database"),
        ({"database": 7}, "database"),
        ({"query": ""}, "query"),
        ({"query": None}, "query"),
        ({"name": ""}, "name"),
        ({"key": ""}, "key"),
    ],
)
def test_a_query_that_cannot_be_asked_is_refused_when_it_is_made(given, argument):
    with refused(argument):
        Sql(**{"query": "SELECT 1", "database": "shop.db"} | BY_NAME | given)


@pytest.mark.parametrize(
    ("database", "said"),
    [
        ("/nowhere/shop.db", "there is no file /nowhere/shop.db"),
        ("nonsense://h/d", "nonsense:// cannot be used"),
    ],
)
def test_a_database_that_is_not_there_is_a_sentence(database, said):
    if "://" in database:
        pytest.importorskip("sqlalchemy")
    with pytest.raises(ConfigurationError, match=said):
        list(articles(database).items())


def test_a_missing_column_names_those_that_there_are(file):
    with pytest.raises(ConfigurationError, match="there are id, title, body, changed"):
        list(articles(file, text="words").items())


def test_a_login_is_in_no_error_and_no_repr():
    rows = articles("postgresql://reader:s3cr%65t@127.0.0.1:9/shop")
    (said,) = rows.items()
    assert said.partial
    assert "Connection refused" in said.reason
    for text in (repr(rows), repr(said), rows.name):
        assert "s3cr" not in text
