"""Two departments share a service: a key that is limited to one finds nothing of the other."""

import itertools
import json
import uuid
from dataclasses import dataclass
from typing import Any

import httpx
import httpx2
import openai
import pytest
from fastapi.routing import APIRoute
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from knowledge_bot_service.web import endpoints, extensions
from knowledge_bot_service.web.page import router as page_router
from serve_command import serving
from service_calls import ask, problem_of, put_text, value_of
from waiting import until

CONFIGURATION = """
keys = [
    {name = "owner", role = "manage", key = "key-of-the-owner"},
    {name = "hr", role = "manage", key = "key-of-hr", bots = ["bot_hr"]},
    {name = "it-1", role = "manage", key = "key-of-it-by-bot", bots = ["bot_it"]},
    {name = "it-2", role = "manage", key = "key-of-it-by-collection", collections = ["col_it"]},
    {name = "it-3", role = "manage", key = "key-of-it-by-both", bots = ["bot_it"], collections = [
        "col_it",
    ]},
    {name = "kiosk", role = "read", key = "key-of-the-kiosk", bots = ["bot_all"], collections = []},
]
collections = [{id = "col_hr", name = "Staff matters"}, {id = "col_it", name = "Machines"}]
bots = [
    {id = "bot_hr", name = "Aunt Agatha", collections = ["col_hr"]},
    {id = "bot_it", name = "Machinist", collections = ["col_it"]},
    {id = "bot_all", name = "Everything", collections = ["col_hr", "col_it"]},
]
"""
# What belongs to the other department alone: names, ids and words of its texts.
SECRETS = (
    "Aunt Agatha",
    "Staff matters",
    "bot_hr",
    "bot_all",
    "col_hr",
    "Smith",
    "salar",
    "payroll",
)
SALARY = "What is the salary of Mr Smith?"
NEW = {"origin": "machines", "key": "printers.txt", "digest": "x", "name": "x"}


@dataclass(frozen=True)
class Shared:
    """The service, and what each department has in it."""

    base_url: str
    salaries: str
    printers: str
    both: str
    conversation: str

    def client(self, key):
        headers = {"X-API-KEY": f"key-of-{key}"}
        return httpx.Client(base_url=self.base_url, headers=headers, timeout=30)

    @property
    def root(self):
        return self.base_url.removesuffix("/public/v1")


def _all_ready(http, sources):
    states = [value_of(http.get(f"/sources/{source}"))["status"] for source in sources]
    return states == ["ready"] * len(sources)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("departments")
    (folder / "kbot.toml").write_text(CONFIGURATION)
    with serving(folder, "--config", "kbot.toml") as (base_url, _, _process):
        headers = {"X-API-KEY": "key-of-the-owner"}
        with httpx.Client(base_url=base_url, headers=headers, timeout=30) as http:
            salary = "The salary of Mr Smith is 5200 euros."
            salaries = put_text(http, "salaries.txt", salary, "col_hr", origin="payroll")["id"]
            paper = "Paper is in room 7."
            printers = put_text(http, "printers.txt", paper, "col_it", origin="machines")["id"]
            everybody = {"origin": "house", "collections": ["col_hr", "col_it"]}
            both = put_text(http, "lunch.txt", "Lunch is at noon.", **everybody)["id"]
            assert until(lambda: _all_ready(http, [salaries, printers, both]), 120)
            told = ask(http, SALARY, bot="bot_hr")
            assert "5200" in told["answer"]
            ask(http, "Where is paper?", bot="bot_it")
        yield Shared(base_url, salaries, printers, both, told["conversation_id"])


@pytest.fixture(params=["it-by-bot", "it-by-collection", "it-by-both"])
def it(request, shared):
    """A client of the other department, whatever its key is limited by."""
    with shared.client(request.param) as client:
        yield client


def gets(shared):
    """The paths of everything that can be got."""
    routers = (endpoints.router, extensions.router, page_router)
    routes = [one for router in routers for one in router.routes if isinstance(one, APIRoute)]
    paths = [route.path for route in routes if "GET" in route.methods]
    assert {"/public/v1/sources/{id}/text", "/page/bots/{bot}/conversations/{id}"} <= {*paths}
    return [*paths, "/healthz", "/metrics"]


def filled(path, ids):
    """A path with ids in all of its places, in every combination."""
    parts = path.replace("}", "{").split("{")
    fixed, places = parts[::2], len(parts) // 2
    return [
        "".join(itertools.chain(*zip(fixed, [*chosen, ""], strict=True)))
        for chosen in itertools.product(ids, repeat=places)
    ]


def test_nothing_of_another_department_is_in_any_answer(shared, it):
    ids = [shared.salaries, shared.conversation, "bot_hr", "col_hr", shared.both, "bot_it"]
    queries = ("", "?collection=col_hr", "?name=salaries.txt", "?search=a&counts=true")
    queries += ("?origin=payroll", "?origin=house")
    found = 0
    for path in gets(shared):
        for place, query in itertools.product(filled(path, ids), queries):
            answer = it.get(f"{shared.root}{place}{query}")
            # An id that is asked for may be said again, as any text would be.
            text = answer.text
            for asked in (*ids[:4], *SECRETS):
                text = text if asked not in place + query else text.replace(asked, "")
            assert not [secret for secret in (*SECRETS, *ids[:2]) if secret in text], place + query
            found += answer.is_success and place.startswith(("/public", "/page"))
    # Its own is there.
    assert found > 8
    assert [one["id"] for one in value_of(it.get("/bots"))["data"]] == ["bot_it"]
    assert [one["id"] for one in value_of(it.get("/collections"))["data"]] == ["col_it"]
    assert "7" in ask(it, "Where is paper?", bot="bot_it")["answer"]


def test_what_is_hidden_is_answered_as_if_it_was_not_there(shared, it):
    def told(method, path, asked, **more):
        answer = it.request(method, path, **more)
        assert answer.status_code >= 400 or answer.json()["value"]["data"] == []
        return answer.status_code, answer.text.replace(asked, "ID")

    page = f"{shared.root}/page"
    for hidden, absent in (
        ("bot_hr", "bot_none"),
        ("bot_all", "bot_none"),
        ("col_hr", "col_none"),
        (shared.salaries, "src_" + "0" * 24),
        (shared.conversation, "conv_" + "0" * 24),
    ):
        for method, path, body in (
            ("GET", "/bots/{}/conversations", None),
            ("GET", f"{page}/bots/{{}}/conversations", None),
            ("GET", f"{page}/bots/bot_it/conversations/{{}}", None),
            ("POST", "/messages", {"bot_id": "{}", "content": SALARY}),
            (
                "POST",
                "/messages",
                {"bot_id": "bot_it", "content": SALARY, "conversation_id": "{}"},
            ),
            ("POST", "/sources/write", {"name": "x", "collections": ["{}"], "content": "x"}),
            ("POST", "/search", {"query": SALARY, "collections": ["{}"]}),
            ("POST", "/search", {"query": SALARY, "bot_id": "{}"}),
            ("PUT", "/sync/write", NEW | {"collections": ["{}"], "content": "x"}),
            ("POST", "/sync/overlap", {"origin": "x", "names": ["x"], "collections": ["{}"]}),
            ("GET", "/sources?collection={}", None),
            ("GET", "/sources/{}", None),
            ("GET", "/sources/{}/text", None),
            ("DELETE", "/sources/{}", None),
        ):
            first, second = (
                told(
                    method,
                    path.format(one),
                    one,
                    json=None
                    if body is None
                    else {"value": json.loads(json.dumps(body).replace("{}", one))},
                )
                for one in (hidden, absent)
            )
            assert first == second, (method, path, hidden)
    form = {"name": "x", "collections": "col_hr"}
    refused = it.post("/sources/upload", data=form, files={"file": ("x.txt", b"x")})
    assert problem_of(refused, 400)["code"] == "unknown_collection"
    with shared.client("the-owner") as owner:
        assert owner.get(f"/sources/{shared.salaries}").is_success
        assert value_of(owner.get("/sources", params={"collection": "col_hr"}))["data"]


def test_passages_of_another_department_are_neither_found_nor_read(shared, it):
    def found(http):
        listed = value_of(http.post("/search", json={"value": {"query": SALARY}}))["data"]
        assert isinstance(listed, list)
        return listed

    assert [one for one in found(it) if one["name"] == "salaries.txt"] == []
    with shared.client("the-owner") as owner:
        (hidden,) = [one for one in found(owner) if one["name"] == "salaries.txt"]
    problem = problem_of(it.get(f"/passages/{hidden['id']}"), 404)
    assert problem["code"] == "unknown_passage"
    with shared.client("the-kiosk") as kiosk:  # which may only read
        assert [one["name"] for one in found(kiosk)][:1] == ["salaries.txt"]
        assert kiosk.get(f"/passages/{hidden['id']}").is_success


def test_a_source_of_both_is_seen_and_neither_named_nor_changed(shared, it):
    address = f"/sources/{shared.both}"
    assert [one["id"] for one in value_of(it.get(address))["collections"]] == ["col_it"]
    entry = {"origin": "house", "key": "lunch.txt", "digest": "x", "name": "x"}
    body = {"value": entry | {"collections": ["col_it"], "content": "x"}}
    for answer in (
        it.delete(address),
        it.put("/sync/write", json=body),
        it.post("/sync/touch", json={"value": {"origin": "house", "entries": [entry]}}),
        it.patch("/sync/origins?origin=house", json={"value": {"name": "x"}}),
        it.delete("/sync/origins?origin=house"),
    ):
        # A 404 would have a ledger forget it.
        problem = problem_of(answer, 403)
        assert problem["code"] == "forbidden"
        assert "col_hr" not in problem["message"]
    with shared.client("the-owner") as owner:
        seen = value_of(owner.get(address))
        assert {one["id"] for one in seen["collections"]} == {"col_hr", "col_it"}
        assert (seen["name"], seen["revision"]) == ("lunch.txt", seen["ready_revision"])


def test_an_origin_of_another_department_is_as_if_it_was_not_there(shared, it):
    missed = {"key": "none", "digest": "x"}
    for method, path, body in (
        ("GET", "/sync?origin={}", None),
        ("GET", "/sync/entries?origin={}", None),
        ("PATCH", "/sync/origins?origin={}", {"name": "x"}),
        ("DELETE", "/sync/origins?origin={}", None),
        ("POST", "/sync/touch", {"origin": "{}", "entries": [missed]}),
        ("POST", "/sync/complete", {"origin": "{}", "run": "1", "limit": 1, "missing": [missed]}),
    ):
        hidden, absent = (
            it.request(
                method,
                path.format(one),
                json=None if body is None else {"value": body | {"origin": one}},
            )
            for one in ("payroll", "of-nobody")
        )
        assert (hidden.status_code, hidden.text.replace("payroll", "O")) == (
            absent.status_code,
            absent.text.replace("of-nobody", "O"),
        ), path
    assert [one["name"] for one in value_of(it.get("/sync/origins"))["data"]] == [
        "house",
        "machines",
    ]


def test_entries_of_another_department_stay_as_they_are(shared, it):
    with shared.client("the-owner") as owner:

        def held(origin):
            return value_of(owner.get("/sync/entries", params={"origin": origin}))["data"]

        before = {origin: held(origin) for origin in ("payroll", "house")}
        for origin, (entry,) in before.items():
            own = NEW | {"origin": origin, "key": entry["key"], "collections": ["col_it"]}
            put = it.put("/sync/write", json={"value": own | {"content": "x"}})
            entries = {"origin": origin, "entries": [own | {"digest": entry["digest"]}]}
            for answer in (put, it.post("/sync/touch", json={"value": entries})):
                assert problem_of(answer, 403)["code"] == "forbidden"
            for run in range(2):
                missing = {"origin": origin, "run": f"{run}", "limit": 1, "missing": [entry]}
                done = value_of(it.post("/sync/complete", json={"value": missing}))
                assert (done["removed"], done["keys"]) == (0, [])
            assert held(origin) == [entry]


@pytest.mark.parametrize(
    ("before", "after", "read", "deleted"),
    [
        (["col_it"], ["col_hr"], 404, 404),
        (["col_hr"], ["col_it"], 404, 404),
        (["col_it"], ["col_it", "col_hr"], 200, 403),
        (["col_it"], ["col_it"], 200, 204),
    ],
)
def test_a_source_that_is_to_move_is_seen_where_both_of_its_texts_are(
    shared, before, after, read, deleted
):
    with shared.client("the-owner") as owner, shared.client("it-by-collection") as it:
        added = put_text(owner, "moves.txt", "It moves.", collections=before)
        address = f"/sources/{added['id']}"
        assert until(lambda: value_of(owner.get(address))["status"] == "ready")
        slow = "".join(f"Page {number} says one more word.\n\n" for number in range(30_000))
        put_text(owner, "moves.txt", slow, collections=after)
        seen = [one["id"] for one in value_of(it.get("/sources"))["data"]]
        answers = [it.get(address), it.get(f"{address}/text"), it.delete(address)]
        # All of that before the new text was ready.
        assert deleted == 204 or value_of(owner.get(address))["status"] != "ready"
        assert (added["id"] in seen) == (read == 200)
        assert [answer.status_code for answer in answers] == [read, read, deleted]
        owner.delete(address)


def test_a_department_manages_its_own(shared, it):
    source = put_text(it, "own.txt", "Cables are blue.", "col_it", origin="own")["id"]
    listed = value_of(it.get("/sources", params={"name": "own.txt"}))
    assert [one["id"] for one in listed["data"]] == [source]
    assert put_text(it, "own.txt", "Now green.", "col_it", origin="own")["id"] == source
    renamed = it.patch("/sync/origins?origin=own", json={"value": {"name": "ours"}})
    assert value_of(renamed)["count"] == 1
    assert it.delete("/sync/origins?origin=ours").is_success
    counts = value_of(it.get("/sources", params={"counts": True}))["counts"]
    assert sum(counts.values()) == 2


def test_what_was_done_for_another_is_not_told_by_its_idempotency_key(shared, it):
    body = {"name": "bonus.txt", "collections": ["col_hr"], "content": "The bonus is 1 euro."}
    asked = {"bot_id": "bot_hr", "content": SALARY}
    for path, sent, code in (
        ("/sources/write", body, "unknown_collection"),
        ("/messages", asked, "unknown_bot"),
    ):
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        with shared.client("hr") as hr:
            first = hr.post(path, json={"value": sent}, headers=headers)
            assert first.is_success
            again = hr.post(path, json={"value": sent}, headers=headers)
            assert again.headers["Idempotent-Replayed"] == "true"
        refused = it.post(path, json={"value": sent}, headers=headers)
        assert problem_of(refused, 400)["code"] == code
        own = {"name": "own.txt", "collections": ["col_it"], "content": "Own."}
        mine = value_of(it.post("/sources/write", json={"value": own}, headers=headers))
        assert mine["id"] != value_of(first)["id"]
        it.delete(f"/sources/{mine['id']}").raise_for_status()
        with shared.client("hr") as hr:
            if path == "/sources/write":
                hr.delete(f"/sources/{value_of(first)['id']}")


def test_a_bot_that_a_key_may_ask_answers_from_what_the_key_does_not_see(shared):
    with shared.client("the-kiosk") as kiosk:
        told = ask(kiosk, SALARY, bot="bot_all")
        assert "5200" in told["answer"]
        (cited,) = told["sources"]
        assert cited["name"] == "salaries.txt"
        refused = kiosk.get(f"{shared.root}/public/v1/sources/{cited['id']}")
        assert problem_of(refused, 404)["code"] == "unknown_source"
        assert value_of(kiosk.get("/collections"))["data"] == []


@pytest.mark.slow
async def test_what_is_mounted_sees_what_the_callers_key_sees(shared):
    bearer = {"Authorization": "Bearer key-of-it-by-both"}
    agent_of = openai.OpenAI(
        base_url=f"{shared.root}/v1", api_key="key-of-it-by-both", max_retries=0
    )
    assert [one.id for one in agent_of.models.list()] == ["bot_it"]
    question: Any = {"role": "user", "content": SALARY}
    for bot in ("bot_hr", "bot_all"):
        with pytest.raises(openai.APIStatusError):
            agent_of.chat.completions.create(model=bot, messages=[question])
    async with (
        httpx2.AsyncClient(headers=bearer) as http,
        Client(streamable_http_client(f"{shared.root}/mcp", http_client=http)) as agent,
    ):
        listed = [
            (await agent.list_tools()).model_dump_json(),
            (await agent.call_tool("list_bots", {})).model_dump_json(),
            (await agent.call_tool("list_collections", {})).model_dump_json(),
        ]
        assert "bot_it" in listed[1]
        assert not [secret for secret in SECRETS if secret in "".join(listed)]
        for tool, arguments in (
            ("ask_bot", {"bot": "bot_hr", "question": SALARY}),
            ("list_conversations", {"bot": "bot_hr"}),
        ):
            refused = await agent.call_tool(tool, arguments)
            assert refused.is_error
            assert "5200" not in refused.model_dump_json()
