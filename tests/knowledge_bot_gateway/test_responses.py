"""`/v1/responses`, as OpenAI's own client sees it: nothing is stored, and every answer is known."""

import json
import time

import openai
import pytest

from calls import MESSAGE
from gateways import HEADERS, asked, openai_of
from waiting import until

BOT = "bot_guide"


def test_a_response_is_gone_on_from_by_its_id(client, service):
    first = client.responses.create(model=BOT, input="Who opens?")
    second = client.responses.create(
        model=BOT, input="And on Sunday?", previous_response_id=first.id
    )
    assert second.conversation == first.conversation
    assert second.output_text == "<answer 2> of bot_guide"
    assert asked(service) == ["Who opens?", "And on Sunday?"]


def test_another_gateway_knows_an_id_as_well(start):
    one, other = (start(keys=("one", "two")) for _ in range(2))
    first = openai_of(one, "one").responses.create(model=BOT, input="Who opens?")
    going = {"input": "More?", "previous_response_id": first.id}
    with pytest.raises(openai.NotFoundError):  # it is nobody else's, there as well
        openai_of(other, "two").responses.create(model=BOT, **going)
    second = openai_of(other, "one").responses.create(model=BOT, **going)
    assert second.conversation == first.conversation


def test_a_response_is_gone_on_from_twice(client, service):
    """The service cannot go back: the second time, all turns go to a new conversation."""
    first = client.responses.create(model=BOT, input="Who opens?", instructions="Be brief.")
    going = {"previous_response_id": first.id, "instructions": "Be brief."}
    second = client.responses.create(model=BOT, input="And on Sunday?", **going)
    third = client.responses.create(model=BOT, input="And on Monday?", **going)
    assert second.conversation == first.conversation != third.conversation
    sent = asked(service)[-1]
    assert all(said in sent for said in ("Who opens?", first.output_text, "And on Monday?"))
    assert "Sunday" not in sent
    assert sent.count("Be brief.") == 1


def test_an_id_whose_conversation_has_gone_on_elsewhere_is_refused(start, service):
    """Its earlier turns are not here, so they cannot be sent to another conversation."""
    one, other = (openai_of(start()) for _ in range(2))
    first = one.responses.create(model=BOT, input="Who opens?")
    other.responses.create(model=BOT, input="And on Sunday?", previous_response_id=first.id)
    with pytest.raises(openai.NotFoundError) as failure:
        other.responses.create(model=BOT, input="And on Monday?", previous_response_id=first.id)
    assert failure.value.code == "previous_response_not_found"
    assert len(asked(service)) == 2


def test_a_response_is_fetched_again_by_whom_it_was_for(start):
    http = start(keys=("one", "two"))
    one, two = (openai_of(http, key) for key in ("one", "two"))
    first = one.responses.create(model=BOT, input="Who opens?")
    assert until(lambda: time.time() >= first.completed_at + 1)
    assert one.responses.retrieve(first.id).model_dump() == first.model_dump()
    events = list(one.responses.retrieve(first.id, stream=True))
    later = list(one.responses.retrieve(first.id, stream=True, starting_after=3))
    assert [each.sequence_number for each in later] == [each.sequence_number for each in events[4:]]
    for nobody in (
        lambda: two.responses.retrieve(first.id),
        lambda: one.responses.retrieve("resp_x"),
        lambda: one.responses.retrieve(
            one.responses.create(model=BOT, input="Who?", store=False).id
        ),
    ):
        with pytest.raises(openai.NotFoundError):
            nobody()


def test_a_response_with_longer_turns_than_a_bot_may_be_asked_is_not_kept(client):
    longest = 200_000 - len("<answer 1> of bot_guide")
    kept, dropped = (
        client.responses.create(model=BOT, input="a" * (longest + more)) for more in (0, 1)
    )
    assert client.responses.retrieve(kept.id).output_text == "<answer 1> of bot_guide"
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(dropped.id)


def test_a_number_that_is_none_is_named(http):
    answer = http.get("/v1/responses/resp_x?starting_after=x", headers=HEADERS)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "starting_after"
    other = http.post("/v1/responses/compact", json={}, headers=HEADERS)
    assert other.status_code == 404


@pytest.mark.parametrize("response_id", ["resp_", "resp_!!", "resp_YQ", "x", "resp_Ly8v"])
def test_an_id_from_elsewhere_is_refused(client, service, response_id):
    with pytest.raises(openai.NotFoundError) as failure:
        client.responses.create(model=BOT, input="More?", previous_response_id=response_id)
    assert failure.value.code == "previous_response_not_found"
    assert asked(service) == []


def test_a_list_that_the_caller_keeps_goes_on_in_its_conversation(client, service):
    said = [{"role": "user", "content": "Who opens?"}]
    first = client.responses.create(model=BOT, input=said)
    said += [item.model_dump() for item in first.output]
    said.append({"role": "user", "content": [{"type": "input_text", "text": "And on Sunday?"}]})
    second = client.responses.create(model=BOT, input=said)
    assert second.conversation == first.conversation
    assert asked(service) == ["Who opens?", "And on Sunday?"]


def test_the_same_instructions_are_sent_once(client, service):
    first = client.responses.create(model=BOT, input="Who opens?", instructions="Be brief.")
    second = client.responses.create(
        model=BOT, input="And?", instructions="Be brief.", previous_response_id=first.id
    )
    client.responses.create(
        model=BOT, input="Why?", instructions="Be long.", previous_response_id=second.id
    )
    assert "Be brief." in asked(service)[0]
    assert asked(service)[1] == "And?"
    assert "Be long." in asked(service)[2]
    assert asked(service)[2].endswith("Why?")


def test_a_named_conversation_is_gone_on_in(client, service):
    first = client.responses.create(model=BOT, input="Who opens?")
    second = client.responses.create(model=BOT, input="And?", conversation=first.conversation.id)
    assert second.conversation == first.conversation
    with pytest.raises(openai.BadRequestError):
        client.responses.create(
            model=BOT,
            input="And?",
            conversation=first.conversation.id,
            previous_response_id=first.id,
        )
    assert asked(service) == ["Who opens?", "And?"]
    assert client.responses.retrieve(second.id).output_text == second.output_text
    # The turns before it are not here: the second time they cannot be sent elsewhere.
    third = client.responses.create(model=BOT, input="Why?", previous_response_id=second.id)
    assert third.conversation == first.conversation
    with pytest.raises(openai.NotFoundError) as failure:
        client.responses.create(model=BOT, input="How?", previous_response_id=second.id)
    assert failure.value.code == "previous_response_not_found"
    assert len(asked(service)) == 3


def test_a_stream_tells_the_whole_response(client):
    events = list(client.responses.create(model=BOT, input="Who opens?", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert events[4].delta == events[-1].response.output_text == "<answer 1> of bot_guide"
    with client.responses.stream(model=BOT, input="And?") as stream:
        assert stream.get_final_response().output_text == "<answer 2> of bot_guide"


REFUSED = {
    "tools": [{"type": "web_search"}],
    "background": True,
    "prompt": {"id": "pmpt_1"},
    "text": {"format": {"type": "json_object"}},
    "top_logprobs": 3,
}


@pytest.mark.parametrize("parameter", REFUSED)
def test_what_no_bot_can_do_is_refused(client, service, parameter):
    with pytest.raises(openai.BadRequestError) as failure:
        client.responses.create(model=BOT, input="Hi", **{parameter: REFUSED[parameter]})
    assert failure.value.param.partition(".")[0] == parameter
    assert failure.value.code.startswith("unsupported_")
    assert asked(service) == []


def test_images_and_results_of_tools_are_refused(client, service):
    for item in (
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]},
        {"type": "function_call_output", "call_id": "1", "output": "x"},
    ):
        with pytest.raises(openai.BadRequestError) as failure:
            client.responses.create(model=BOT, input=[item])
        assert failure.value.code == "unsupported_value"
    assert asked(service) == []


def test_what_steers_a_language_model_changes_nothing(client, service):
    steering = {"temperature": 0.1, "max_output_tokens": 5, "reasoning": {"effort": "low"}}
    more = {"store": True, "user": "ada", "truncation": "auto", "parallel_tool_calls": False}
    response = client.responses.create(
        model=BOT, input="Who opens?", metadata={"a": "b"}, **steering, **more
    )
    assert response.status == "completed"
    assert response.usage.total_tokens == 0
    assert response.metadata == {"a": "b"}
    assert asked(service) == ["Who opens?"]


SOURCES = [
    {"id": "src_1", "name": "Handbook"},
    {"id": "src_2", "name": "Hours", "url": "https://example.org/hours"},
]


@pytest.fixture
def naming(client, service):
    """A client before a service that names its sources as data."""
    text = "At nine.\n\nSources: Handbook, Hours"
    service.answer_next(200, json.dumps({**MESSAGE, "answer": text, "sources": SOURCES}).encode())
    return client


def test_sources_are_annotations(naming):
    response = naming.responses.create(model=BOT, input="When?")
    (text,) = response.output[0].content
    file, page = text.annotations
    assert (file.type, file.filename, file.file_id) == ("file_citation", "Handbook", "src_1")
    assert text.text[file.index :].startswith("Handbook")
    assert (page.type, page.url, page.title) == (
        "url_citation",
        "https://example.org/hours",
        "Hours",
    )
    assert text.text[page.start_index : page.end_index] == "Hours"


def test_sources_of_a_chat_completion_are_reported_too(naming):
    message = (
        naming.chat.completions.create(model=BOT, messages=[{"role": "user", "content": "When?"}])
        .choices[0]
        .message
    )
    (page,) = message.annotations
    assert page.url_citation.url == "https://example.org/hours"
    assert [one["name"] for one in message.sources] == ["Handbook", "Hours"]


@pytest.mark.parametrize("url", ["", 7, None])
def test_a_source_with_what_is_no_address_is_named_without_one(client, service, url):
    named = {"answer": "At nine.\n\nSources: Hours", "sources": [{"name": "Hours", "url": url}]}
    service.answer_next(200, json.dumps({**MESSAGE, **named}).encode())
    said = client.chat.completions.create(
        model=BOT, messages=[{"role": "user", "content": "When?"}]
    )
    assert said.choices[0].message.sources == [{"id": None, "name": "Hours", "url": None}]
    assert not said.choices[0].message.annotations
