"""`/v1/chat/completions`, as OpenAI's own client sees it: each chat in its own conversation."""

import json

import openai
import pytest

from gateways import HEADERS, asked, openai_of
from knowledge_bot.conversations import Heads
from knowledge_bot.transcripts import read

BOT = "bot_guide"
PATH = "/v1/chat/completions"


def say(client, *messages, **options):
    """Send a list of texts, the user's and the bot's in turn; return the completion."""
    given = [
        {"role": "assistant" if index % 2 else "user", "content": text}
        for index, text in enumerate(messages)
    ]
    return client.chat.completions.create(model=BOT, messages=given, **options)


def text(completion):
    return completion.choices[0].message.content


def test_a_chat_goes_on_in_its_own_conversation(client, service):
    one = say(client, "Who opens?")
    other = say(client, "Who closes?")
    more = say(client, "Who opens?", text(one), "And on Sunday?")
    assert more.conversation == one.conversation != other.conversation
    assert asked(service) == ["Who opens?", "Who closes?", "And on Sunday?"]


def test_a_regenerated_answer_is_another_conversation(client, service):
    first = say(client, "Who opens?")
    going_on = say(client, "Who opens?", text(first), "And on Sunday?")
    again = say(client, "Who opens?", text(first), "And on Sunday?")
    assert going_on.conversation == first.conversation != again.conversation
    assert "Who opens?" in asked(service)[-1]  # all of the list went there
    assert asked(service)[-1].endswith("And on Sunday?")


def test_an_edited_question_is_another_conversation(client, service):
    first = say(client, "Who opens?")
    edited = say(client, "Who closes?", text(first), "And on Sunday?")
    assert edited.conversation != first.conversation
    assert "Who closes?" in asked(service)[-1]


def test_chats_that_begin_alike_stay_apart(client, service):
    """The same question twice has the same words, but other answers."""
    one, other = say(client, "Hello"), say(client, "Hello")
    on_one = say(client, "Hello", text(one), "More?")
    on_other = say(client, "Hello", text(other), "More?")
    assert on_one.conversation == one.conversation
    assert on_other.conversation == other.conversation
    assert one.conversation != other.conversation


def test_two_gateways_that_share_heads_know_each_others_chats(start, service, tmp_path):
    heads = tmp_path / "heads.db"
    one, two = (
        openai_of(start(base_url="https://shared.test", heads=Heads(heads))) for _ in range(2)
    )
    said = ["Who opens?"]
    conversations = set()
    for turn, client in enumerate((one, two, two, one)):
        completion = say(client, *said)
        conversations.add(completion.conversation["id"])
        said += [text(completion), f"And then? {turn}"]
    assert len(conversations) == 1
    assert asked(service) == ["Who opens?", "And then? 0", "And then? 1", "And then? 2"]


def test_a_store_of_heads_that_is_broken_is_not_the_services_fault(start, service, tmp_path):
    heads = tmp_path / "heads.db"
    client = openai_of(start(heads=Heads(heads)), max_retries=0)
    say(client, "Who opens?")
    for file in tmp_path.iterdir():
        file.write_bytes(b"no database" * 1000)
    with pytest.raises(openai.InternalServerError) as failure:
        say(client, "Who closes?")
    assert (failure.value.status_code, failure.value.code) == (503, "heads_unavailable")
    assert failure.value.body["message"].startswith("The gateway cannot read or store")
    assert asked(service) == ["Who opens?"]


def test_a_named_conversation_is_gone_on_in_with_what_is_new(client, service):
    first = say(client, "Who opens?")
    for option in (
        {"extra_body": {"conversation": first.conversation["id"]}},
        {"extra_body": {"conversation": first.conversation}},
        {"metadata": {"conversation_id": first.conversation["id"]}},
    ):
        more = say(client, "Hello", "Good day", "And on Sunday?", **option)
        assert more.conversation == first.conversation
        assert asked(service)[-1] == "And on Sunday?"


def test_a_stream_is_the_answer_and_goes_on_like_one(client):
    first = say(client, "Who opens?")
    chunks = list(
        say(
            client,
            *("Who opens?", text(first), "And on Sunday?"),
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    sentence = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert sentence.startswith("<answer 2>")
    assert [one.choices[0].finish_reason for one in chunks if one.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 0
    assert {chunk.conversation["id"] for chunk in chunks} == {first.conversation["id"]}


@pytest.mark.parametrize("fault", ["lose_next_answer", "time_out_next"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_lost_answer_is_not_asked_again_by_openais_client(service, client, fault, stream):
    """Its default is two retries, on a lost connection and on every 5xx."""
    getattr(service, fault)()
    with pytest.raises(openai.APIStatusError) as failure:
        say(client, "Who opens?", stream=stream)
    assert asked(service) == ["Who opens?"]
    assert (failure.value.status_code, failure.value.code) == (424, "outcome_unknown")
    assert failure.value.body["delivery"] == "unknown"


def test_an_answer_that_takes_longer_than_the_gateway_waits_is_unknown(start, service):
    http = start(timeout=0.2)
    with service.holding_answers(), pytest.raises(openai.APIStatusError) as failure:
        say(openai_of(http), "Who opens?")
    assert asked(service) == ["Who opens?"]
    assert (failure.value.status_code, failure.value.body["delivery"]) == (424, "unknown")


def test_what_the_service_refused_is_tried_again_where_it_helps(client, service):
    """503 with Retry-After: the service has not acted, and OpenAI's client sends it again."""
    service.fail_next(503, retry_after=0)  # the gateway leaves it to its caller
    assert text(say(client, "Who opens?")) == "<answer 1> of bot_guide"


def test_a_service_that_is_away_is_a_sentence(http, service):
    service.reachable = False
    with pytest.raises(openai.APIStatusError) as failure:
        say(openai_of(http, max_retries=0), "Who opens?")
    assert failure.value.status_code == 503
    assert failure.value.body["delivery"] == "not_delivered"
    assert failure.value.response.headers["x-should-retry"] == "true"


MAY_PASS = (408, 425, 429, 503)


@pytest.mark.parametrize(
    ("refusal", "told", "code"),
    [
        (401, 502, "gateway_key_refused"),
        (402, 402, "insufficient_quota"),
        (403, 502, "gateway_key_refused"),
        (404, 404, "no"),
        (408, 408, "no"),
        (409, 409, "no"),
        (413, 413, "no"),
        (425, 425, "no"),
        (429, 429, "rate_limit_exceeded"),
        (503, 503, "service_unavailable"),
    ],
)
def test_a_refusal_says_whether_it_may_pass(http, service, refusal, told, code):
    service.fail_next(refusal, code="no", message="Not you.", retry_after=0)
    with pytest.raises(openai.APIStatusError) as failure:
        say(openai_of(http, max_retries=0), "Who opens?")
    assert (failure.value.status_code, failure.value.code) == (told, code)
    assert failure.value.body["delivery"] == "refused"
    assert "Not you" in failure.value.message
    headers, again = failure.value.response.headers, refusal in MAY_PASS
    assert (headers["x-should-retry"] == "true", "retry-after" in headers) == (again, again)


def test_instructions_and_tool_results_reach_the_bot(client, service):
    client.chat.completions.create(
        model=BOT,
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Be polite."}]},
            {"role": "user", "content": "Who opens?", "name": "Ada"},
        ],
    )
    (content,) = asked(service)
    assert "System: Be brief." in content
    assert "System: Be polite." in content
    assert content.endswith("Who opens?")


REFUSED = {
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "tool_choice": "required",
    "functions": [{"name": "f"}],
    "n": 2,
    "logprobs": True,
    "response_format": {"type": "json_object"},
    "modalities": ["text", "audio"],
    "audio": {"voice": "alloy", "format": "wav"},
    "web_search_options": {},
}


@pytest.mark.parametrize("parameter", REFUSED)
def test_what_no_bot_can_do_is_refused(client, service, parameter):
    with pytest.raises(openai.BadRequestError) as failure:
        say(client, "Who opens?", **{parameter: REFUSED[parameter]})
    assert failure.value.param == parameter
    assert failure.value.code in ("unsupported_parameter", "unsupported_value")
    assert failure.value.type == "invalid_request_error"
    assert asked(service) == []


# As clients send them, whether or not anybody asked for it.
HARMLESS = json.loads("""{
    "temperature": 0.2, "top_p": 0.9, "max_tokens": 10, "max_completion_tokens": 10, "n": 1,
    "seed": 7, "user": "ada", "store": false, "metadata": {"purpose": "test"},
    "presence_penalty": 0.1, "frequency_penalty": 0.1, "logit_bias": {"1": 1},
    "parallel_tool_calls": true, "reasoning_effort": "low", "service_tier": "auto",
    "response_format": {"type": "text"}, "tools": [], "tool_choice": "none"
}""")


def test_what_steers_a_language_model_changes_nothing(client, service):
    assert text(say(client, "Who opens?", **HARMLESS)) == "<answer 1> of bot_guide"
    assert asked(service) == ["Who opens?"]


@pytest.mark.parametrize("stop", [" of", ["xxx", "_guide", "zzz", " of"]])
def test_a_chat_whose_answers_are_cut_where_the_caller_wants_stays_in_its_conversation(
    client, service, stop
):
    said = []
    for number, question in enumerate(("Who opens?", "And on Sunday?", "And then?"), 1):
        said.append(question)
        said.append(text(say(client, *said, stop=stop)))
        assert said[-1] == f"<answer {number}>"
    assert asked(service) == said[::2]


def test_images_are_refused(client, service):
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(openai.BadRequestError) as failure:
        client.chat.completions.create(model=BOT, messages=[{"role": "user", "content": [part]}])
    assert failure.value.code == "unsupported_value"
    assert failure.value.param == "messages[0].content[0].type"
    assert asked(service) == []


def test_an_image_before_the_question_is_told_as_one(client, service):
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    shown = [{"type": "text", "text": "What is this?"}, part]
    messages = [
        {"role": "user", "content": shown},
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": "Who opens?"},
    ]
    client.chat.completions.create(model=BOT, messages=messages)
    (sent,) = asked(service)
    assert [turn.text for turn in read(sent).turns] == [
        "What is this?\n\n[image]",
        "A cat.",
        "Who opens?",
    ]


SAID = '"messages": [{"role": "user", "content": "x"}]'
BAD = [
    *("", "{", "[]", '"text"', '{"model": "bot_guide"}', f'{{"model": 1, {SAID}}}'),
    *(
        f'{{"model": "bot_guide", "messages": [{messages}]}}'
        for messages in (
            *("", "1", '{"role": "king", "content": "x"}', '{"role": "user"}'),
            *('{"role": "user", "content": 7}', '{"role": "user", "content": ["x"]}'),
            '{"role": "user", "content": [{"type": "text"}]}',
            '{"role": "user", "content": "  "}',
            '{"role": "assistant", "content": null}',
        )
    ),
    *(
        f'{{"model": "bot_guide", {SAID}, {option}}}'
        for option in (
            *(
                '"stop": [""]',
                '"stop": ["a", "b", "c", "d", "e"]',
                '"stream": "yes"',
                '"conversation": {}',
            ),
            '"metadata": {"conversation_id": 5}',
        )
    ),
    b"\xff\xfe",
]


@pytest.mark.parametrize("body", BAD)
def test_a_bad_body_is_400_and_nothing_is_sent(http, service, body):
    headers = {**HEADERS, "Content-Type": "application/json"}
    response = http.post(PATH, content=body, headers=headers)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["delivery"] == "not_delivered"
    assert error["message"].endswith(".")
    assert asked(service) == []


@pytest.mark.parametrize("model", ["gpt-5", "bot_", "bot_a/b", ""])
def test_a_model_that_no_bot_can_be_is_not_found_and_nothing_is_sent(client, service, model):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Who?"}])
    assert caught.value.body["code"] == "model_not_found"
    assert asked(service) == []
