"""Passages: what questions are answered from, found and read by programs."""

import pytest

from in_process import InProcess
from service_calls import add_text, client_of, problem_of, value_of

COLLECTIONS = {"col_one": "One", "col_two": "Two"}
BOTS = {"bot_one": ["col_one"], "bot_two": ["col_two"]}
FERRY = "The ferry leaves at 7:45 from pier four. A ticket for a bicycle costs three crowns."


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("searched")
    with InProcess(folder, collections=COLLECTIONS, bots=BOTS) as running:
        with client_of(running) as client:
            add_text(client, "Ferry", FERRY, collection="col_one")
            add_text(client, "Museum", "The museum keeps 412 barrels.", collection="col_two")
        running.wait_until_ready(300)
        yield running


def search(http, query, **more):
    found = value_of(http.post("/search", json={"value": {"query": query, **more}}))["data"]
    assert isinstance(found, list)
    return found


def test_a_passage_is_found_and_read(http):
    (found,) = search(http, "What does a ticket for a bicycle cost?", limit=1)
    source = value_of(http.get("/sources", params={"name": "Ferry"}))["data"][0]
    assert found == {
        "id": found["id"],
        "source_id": source["id"],
        "name": "Ferry",
        "url": None,
        "revision": source["ready_revision"],
        "text": FERRY,
        "score": found["score"],
        "found": True,
    }
    read = value_of(http.get(f"/passages/{found['id']}"))
    assert read == {**found, "score": None, "found": None}


def test_it_looks_where_it_is_told_to(http):
    query = "Which barrels does the museum keep?"
    both = {"bot_id": "bot_two", "collections": ["col_one", "col_two"]}
    for place in ({}, {"bot_id": "bot_two"}, {"collections": ["col_two"]}, both):
        assert [one["name"] for one in search(http, query, **place)] == ["Museum"]
    nowhere = {"bot_id": "bot_one", "collections": ["col_two"]}
    for place in ({"bot_id": "bot_one"}, {"collections": ["col_one"]}, nowhere):
        assert search(http, query, **place) == []


def test_a_number_that_another_collection_alone_has_is_a_doubt(http):
    query = "What does a ticket for the bicycle 412 cost?"
    for bicycles, found in ((["col_one"], False), (["col_one", "col_two"], True)):
        best = search(http, query, collections=bicycles)[0]
        assert (best["name"], best["found"]) == ("Ferry", found)


def test_the_question_of_a_prompt_is_what_is_searched_for(http):
    prompt = "Use the context.\nQuestion: Which barrels does the museum keep?\nContext: A ferry.\n"
    assert [one["name"] for one in search(http, prompt)] == ["Museum"]


def test_what_fits_better_comes_first_and_no_more_than_wanted(service, http):
    for number in range(12):
        add_text(http, f"{number}", f"The ferry number {number} is old.", collection="col_one")
    service.wait_until_ready(300)
    found = search(http, "Which ferry takes a bicycle?")
    assert len(found) == 10
    assert found[0]["name"] == "Ferry"
    scores = [one["score"] for one in found]
    assert scores == sorted(scores, reverse=True)
    assert len(search(http, "ferry", limit=3)) == 3
    assert len(search(http, "ferry", limit=40)) == 13


@pytest.mark.parametrize("how", ["replaced", "deleted"])
def test_a_passage_is_gone_with_its_text(service, http, how):
    entry = {"origin": "harbour", "key": "mill", "name": "Mill", "collections": ["col_two"]}

    def put(content, digest):
        value = {**entry, "version": None, "digest": digest, "content": content}
        added = value_of(http.put("/sync/write", json={"value": value}))["source"]["id"]
        service.wait_until_ready(300)
        return added

    source_id = put("The windmill grinds barley on Mondays.", "1")
    (found,) = search(http, "When does the windmill grind barley?")
    if how == "deleted":
        assert http.delete(f"/sources/{source_id}").is_success
    else:
        assert put("The windmill grinds barley on Fridays.", "2") == source_id
    assert problem_of(http.get(f"/passages/{found['id']}"), 404)["code"] == "unknown_passage"
    texts = [one["text"] for one in search(http, "When does the windmill grind barley?")]
    assert found["text"] not in texts
    assert len(texts) == (how == "replaced")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "invalid_request"),
        ({"query": ""}, "invalid_request"),
        ({"query": "x" * 20_001}, "invalid_request"),
        ({"query": "x", "limit": 0}, "invalid_request"),
        ({"query": "x", "limit": 41}, "invalid_request"),
        ({"query": "x", "bot_id": "bot_none"}, "unknown_bot"),
        ({"query": "x", "collections": ["col_none"]}, "unknown_collection"),
    ],
)
def test_a_search_that_cannot_be_is_refused(http, fields, code):
    assert problem_of(http.post("/search", json={"value": fields}), 400)["code"] == code


def test_it_is_said_where_nothing_is_about_the_question(http):
    found = search(http, "Who was the first king of the ferry tale country Norway in 1905?")
    assert [one["found"] for one in found] == [False] * len(found) != []
