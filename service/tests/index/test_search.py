"""The index of passages: what a search finds, and what it leaves out."""

import pytest

from knowledge_bot_service.index.search import Search, WeightedWords
from knowledge_bot_service.readers.analyzer.vectors import DIMENSIONS
from knowledge_bot_service.readers.passages import IndexEntry
from knowledge_bot_service.store.entries import delete_entries, insert_entries


def add(database, texts, collection=1, status="ready", vector=b""):
    """Add a source of these passages; its number."""

    def write(connection):
        connection.execute(
            "INSERT INTO collection VALUES (?, ?) ON CONFLICT DO NOTHING",
            (collection, f"col_{collection}"),
        )
        (count,) = connection.execute("SELECT count(*) FROM source").fetchone()
        source = connection.execute(
            "INSERT INTO source (public_id, name, kind, status, created_at)"
            " VALUES (?, ?, 'text', ?, 0)",
            (f"src_{count}", f"Source {count}", status),
        ).lastrowid
        connection.execute("INSERT INTO source_collection VALUES (?, ?)", (source, collection))
        entries = [IndexEntry(text, "", text, "[]", vector) for text in texts]
        insert_entries(connection, source, [collection], entries)
        return source

    return database.write(write).result()


def found(search, text, collections=(1,), limit=5):
    words = tuple((word,) for word in text.split())
    return search.find([WeightedWords(words, 1.0)], search.count(words), collections, limit)


def texts(hits):
    return [hit.text for hit in hits]


def test_what_is_not_ready_takes_no_place(database):
    add(database, ["alpha beta gamma delta"])
    add(database, ["alpha beta gamma delta epsilon"] * 300, status="processing")
    hits = found(Search(database), "alpha beta gamma delta epsilon")
    assert texts(hits) == ["alpha beta gamma delta"]


def test_a_collection_that_was_empty_stays_unseen(database):
    database.write(
        lambda connection: connection.execute("INSERT INTO collection VALUES (2, 'col_2')")
    ).result()
    add(database, ["alpha here"])
    search = Search(database)
    assert texts(found(search, "alpha")) == ["alpha here"]
    add(database, ["alpha there"] * 50, collection=2)
    assert texts(found(search, "alpha")) == ["alpha here"]
    assert texts(found(search, "alpha", [2])) == ["alpha there"] * 5
    assert len(found(search, "alpha", [1, 2], limit=100)) == 51
    assert found(search, "alpha", []) == []


@pytest.mark.parametrize("word", ["collection1", "scope", 'a"b'])
def test_words_of_the_index_itself_are_words(database, word):
    add(database, ["alpha", "beta"])
    assert found(Search(database), word) == []
    assert texts(found(Search(database), f"{word} alpha")) == ["alpha"]


def test_what_is_deleted_counts_no_more(database):
    kept = ["alpha beta", "beta gamma", "gamma"]
    gone = add(database, ["alpha"] * 30)
    add(database, kept)
    search = Search(database)
    words = [("alpha",), ("beta",), ("gamma",)]
    search.count(words)
    deleted = database.write(lambda connection: delete_entries(connection, gone, 100)).result()
    assert deleted == 30
    present = search.count(words).idf()
    # Two of three passages have `beta` and `gamma`, one has `alpha`.
    assert present["alpha",] > present["beta",] == present["gamma",] > 0
    assert search.rarest([("delta",), *words], 1) == (("alpha",),)
    assert texts(found(search, "alpha")) == ["alpha beta"]


def test_vectors_are_read_again_only_after_a_change(database):
    near, far = b"\1" * DIMENSIONS, b"\x81" * DIMENSIONS
    add(database, ["alpha"], vector=far)
    search, read = Search(database), list[str]()
    database.reader().set_trace_callback(
        lambda statement: "passage.vectors FROM" in statement and read.append(statement)
    )

    def nearest():
        return texts(search.find([], search.count([]), [1], 1, near))

    assert [nearest(), nearest()] == [["alpha"], ["alpha"]]
    assert len(read) == 1
    add(database, ["beta"], vector=near)
    assert [nearest(), nearest()] == [["beta"], ["beta"]]
    assert len(read) == 2


def test_of_a_question_as_long_as_a_page_the_rarest_words_are_searched_for(database):
    usual, *rare = [f"word{number}" for number in range(49)]
    add(database, [usual, usual, *rare])
    hits = found(Search(database), " ".join([usual, *rare]), limit=100)
    assert sorted(texts(hits)) == sorted(rare)
