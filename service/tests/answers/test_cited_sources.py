"""Which sources an answer names, as data beside its text, and that it found nothing."""

from pathlib import Path

import httpx

from in_process import InProcess
from knowledge_bot import Client
from knowledge_bot_service import LocalService
from page_server import answer, serving
from service_calls import add_text, ask

HTML = (
    "<html><head><title>Lighthouse</title></head><body><article><p>The lighthouse of Rua was built"
    " in 1874 by Ana Sousa. Its lamp was changed in 1931.</p></article></body></html>"
)


def test_the_sources_of_an_answer_are_data_in_the_order_of_its_text(
    fresh: InProcess, fresh_http: httpx.Client
) -> None:
    names = {}
    for name, content in {
        "Boats, canoes, rafts": "The canoes are kept in the boathouse by Ruth Okafor.",
        "Paddles": "The paddles are kept in the cellar by Ruth Okafor.",
    }.items():
        names[add_text(fresh_http, name, content)["id"]] = name
    fresh.wait_until_ready(300)
    message = ask(fresh_http, "Where are the canoes and the paddles kept by Ruth Okafor?")
    words, _, listed = message["answer"].partition("\n\nSources: ")
    assert "boathouse" in words
    assert "cellar" in words
    assert {one["id"]: one["name"] for one in message["sources"]} == names
    # One that holds a comma is one name in the data.
    assert listed == ", ".join(one["name"] for one in message["sources"])
    assert message["found"] is True
    for source in message["sources"]:
        assert source["url"] is None
        (passage,) = source["passages"]
        assert passage["quote"] in passage["text"]
        assert passage["text"] in words


def test_a_quote_stands_in_the_passage_word_for_word(
    fresh: InProcess, fresh_http: httpx.Client
) -> None:
    row = "Otter | 12 | cellar"
    item = "- Ask the keeper of the paddles:\n  1. his name\n  2. her number"
    answer = "They are lent for a week."
    text = f"Boat | Seats | Kept in\n--- | --- | ---\n{row}\n\nBefore you leave:\n\n{item}\n- Go."
    asked = f"\n\nHow long are the life jackets lent? {answer} Bring them back dry."
    add_text(fresh_http, "Boats", text + asked)
    fresh.wait_until_ready(300)
    quotes = {}
    for question in (
        "Where is the Otter kept?",
        "What do I ask the keeper of the paddles?",
        "How long are the life jackets lent?",
    ):
        ((passage,),) = (source["passages"] for source in ask(fresh_http, question)["sources"])
        assert passage["quote"] in passage["text"]
        quotes[question] = passage["quote"]
    assert list(quotes.values()) == [row, item, answer]


def test_sources_of_one_name_are_told_apart(fresh: InProcess, fresh_http: httpx.Client) -> None:
    ids = {
        add_text(fresh_http, "Note", "The red key opens the cellar of the old mill.")["id"],
        add_text(fresh_http, "Note", "The blue key opens the cellar of the old mill as well.")[
            "id"
        ],
    }
    fresh.wait_until_ready(300)
    message = ask(fresh_http, "Which key opens the cellar of the old mill, the red or the blue?")
    assert message["answer"].endswith("\n\nSources: Note")
    assert {one["id"] for one in message["sources"]} == ids


def test_a_web_page_is_named_with_its_address(tmp_path: Path) -> None:
    with (
        LocalService(tmp_path, allow_fetch=["127.0.0.1/32"]) as service,
        Client(service.api_key, service.base_url) as client,
        serving() as pages,
    ):
        pages.answers["/rua"] = answer(HTML.encode())
        url = pages.url("/rua")
        client.create_webpage_source(name="Lighthouse", collections="col_default", url=url)
        # No question waits for a page.
        service.wait_until_ready(300)
        message = client.send_message(
            bot_id="bot_default", content="Who built the lighthouse of Rua?"
        )
    (source,) = (message.model_extra or {})["sources"]
    assert (source["name"], source["url"]) == ("Lighthouse", url)


def test_an_answer_that_found_nothing_says_so_and_a_greeting_does_not(
    fresh_http: httpx.Client,
) -> None:
    add_text(fresh_http, "Rules", "Nobody sings in the lift.")
    refusal = ask(fresh_http, "Who won the cup final in 1998?")
    assert (refusal["found"], refusal["sources"]) == (False, [])
    greeting = ask(fresh_http, "Hello!")
    assert (greeting["found"], greeting["sources"]) == (None, [])
