"""`/v1/chat/completions`, as OpenAI's own client sees it: each chat in its own conversation."""

import asyncio
import contextlib

import httpx
import openai
import pytest

from gateways import KEY
from knowledge_bot.conversations import Heads
from knowledge_bot.transcripts import read
from scripted_server import answer, close, silence
from waiting import until_awaited

BOT = "bot_guide"


def say(client, *messages, **options):
    """Send a list of texts, the user's and the bot's in turn; return the completion."""
    given = [
        {"role": "assistant" if index % 2 else "user", "content": text}
        for index, text in enumerate(messages)
    ]
    return client.chat.completions.create(model=BOT, messages=given, **options)


def text(completion):
    return completion.choices[0].message.content


def test_a_chat_goes_on_in_its_own_conversation(client, bots):
    one = say(client, "Who opens?")
    other = say(client, "Who closes?")
    more = say(client, "Who opens?", text(one), "And on Sunday?")
    assert more.conversation == one.conversation != other.conversation
    assert bots.contents == ["Who opens?", "Who closes?", "And on Sunday?"]


def test_a_regenerated_answer_is_another_conversation(client, bots):
    first = say(client, "Who opens?")
    going_on = say(client, "Who opens?", text(first), "And on Sunday?")
    again = say(client, "Who opens?", text(first), "And on Sunday?")
    assert going_on.conversation == first.conversation != again.conversation
    assert "Who opens?" in bots.contents[-1]  # all of the list went there
    assert bots.contents[-1].endswith("And on Sunday?")


def test_an_edited_question_is_another_conversation(client, bots):
    first = say(client, "Who opens?")
    edited = say(client, "Who closes?", text(first), "And on Sunday?")
    assert edited.conversation != first.conversation
    assert "Who closes?" in bots.contents[-1]


def test_chats_that_begin_alike_stay_apart(client, bots):
    """The same question twice has the same words, but other answers."""
    one, other = say(client, "Hello"), say(client, "Hello")
    on_one = say(client, "Hello", text(one), "More?")
    on_other = say(client, "Hello", text(other), "More?")
    assert on_one.conversation == one.conversation
    assert on_other.conversation == other.conversation
    assert one.conversation != other.conversation


def test_two_gateways_that_share_heads_know_each_others_chats(start, bots, tmp_path):
    addresses = [start(heads=Heads(tmp_path / "heads.db")) for _ in range(2)]
    one, two = (openai.OpenAI(base_url=f"{one}/v1", api_key=KEY) for one in addresses)
    said = ["Who opens?"]
    conversations = set()
    for turn, client in enumerate((one, two, two, one)):
        completion = say(client, *said)
        conversations.add(completion.conversation["id"])
        said += [text(completion), f"And then? {turn}"]
    assert len(conversations) == 1
    assert bots.contents == ["Who opens?", "And then? 0", "And then? 1", "And then? 2"]


def test_a_named_conversation_is_gone_on_in_with_what_is_new(client, bots):
    first = say(client, "Who opens?")
    for option in (
        {"extra_body": {"conversation": first.conversation["id"]}},
        {"extra_body": {"conversation": first.conversation}},
        {"metadata": {"conversation_id": first.conversation["id"]}},
    ):
        more = say(client, "Hello", "Good day", "And on Sunday?", **option)
        assert more.conversation == first.conversation
        assert bots.contents[-1] == "And on Sunday?"


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


def test_a_lost_answer_is_not_asked_again_by_openais_client(bots, client):
    """Its default is two retries, on a lost connection and on every 5xx."""
    bots.lose_next = [close]
    with pytest.raises(openai.APIStatusError) as failure:
        say(client, "Who opens?")
    assert len(bots.contents) == 1
    assert (failure.value.status_code, failure.value.code) == (424, "outcome_unknown")
    assert failure.value.body["delivery"] == "unknown"


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_takes_too_long_is_not_asked_again(bots, start, stream):
    bots.lose_next = [silence]
    address = start(seconds=0.5)
    client = openai.OpenAI(base_url=f"{address}/v1", api_key=KEY)
    with pytest.raises(openai.APIStatusError) as failure:
        say(client, "Who opens?", stream=stream)
    assert len(bots.contents) == 1
    assert failure.value.status_code == 424
    assert failure.value.body["delivery"] == "unknown"


def test_what_the_service_refused_is_tried_again_where_it_helps(bots, start):
    """503 with Retry-After: the service has not acted, and OpenAI's client sends it again."""
    refusal = answer(503, {"code": "busy", "message": "Later."}, {"Retry-After": "0"})
    bots.refuse_next = [refusal] * 2 + [None]  # the gateway leaves trying again to its caller
    client = openai.OpenAI(base_url=f"{start()}/v1", api_key=KEY)
    assert text(say(client, "Who opens?")).startswith("<answer 1>")


def test_a_service_that_is_away_is_a_sentence(start, bots):
    address = start()
    bots.server.stop()
    client = openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0)
    with pytest.raises(openai.APIStatusError) as failure:
        say(client, "Who opens?")
    assert failure.value.status_code == 503
    assert failure.value.body["delivery"] == "not_delivered"
    assert failure.value.response.headers["x-should-retry"] == "true"


@pytest.mark.parametrize(
    ("status", "expected", "code"),
    [
        (401, 502, "gateway_key_refused"),
        (402, 402, "insufficient_quota"),
        (403, 502, "gateway_key_refused"),
        (404, 404, "no"),
        (409, 409, "no"),
        (429, 429, "rate_limit_exceeded"),
    ],
)
def test_a_refusal_keeps_its_status_and_has_openais_code(bots, start, status, expected, code):
    refusal = answer(status, {"code": "no", "message": "Not you."}, {"Retry-After": "0"})
    bots.refuse_next = [refusal] * 3
    client = openai.OpenAI(base_url=f"{start()}/v1", api_key=KEY, max_retries=0)
    with pytest.raises(openai.APIStatusError) as failure:
        say(client, "Who opens?")
    assert (failure.value.status_code, failure.value.code) == (expected, code)
    assert failure.value.body["delivery"] == "refused"
    assert "Not you" in failure.value.message


def test_instructions_and_tool_results_reach_the_bot(client, bots):
    client.chat.completions.create(
        model=BOT,
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Be polite."}]},
            {"role": "user", "content": "Who opens?", "name": "Ada"},
        ],
    )
    (content,) = bots.contents
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
def test_what_no_bot_can_do_is_refused(client, bots, parameter):
    with pytest.raises(openai.BadRequestError) as failure:
        say(client, "Who opens?", **{parameter: REFUSED[parameter]})
    assert failure.value.param == parameter
    assert failure.value.code in ("unsupported_parameter", "unsupported_value")
    assert failure.value.type == "invalid_request_error"
    assert bots.contents == []


HARMLESS = {
    "temperature": 0.2,
    "top_p": 0.9,
    "max_tokens": 10,
    "max_completion_tokens": 10,
    "n": 1,
    "seed": 7,
    "user": "ada",
    "store": False,
    "metadata": {"purpose": "test"},
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "logit_bias": {"1": 1},
    "parallel_tool_calls": True,
    "reasoning_effort": "low",
    "service_tier": "auto",
    "response_format": {"type": "text"},
    "tools": [],
    "tool_choice": "none",
}


def test_what_steers_a_language_model_changes_nothing(client, bots):
    assert text(say(client, "Who opens?", **HARMLESS)) == "<answer 1> of bot_guide"
    assert bots.contents == ["Who opens?"]


def test_an_answer_is_cut_where_the_caller_wants(client):
    assert text(say(client, "Who opens?", stop=[" of", "zzz"])) == "<answer 1>"


def test_images_are_refused(client, bots):
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(openai.BadRequestError) as failure:
        client.chat.completions.create(model=BOT, messages=[{"role": "user", "content": [part]}])
    assert failure.value.code == "unsupported_value"
    assert failure.value.param == "messages[0].content[0].type"
    assert bots.contents == []


def test_an_image_before_the_question_is_told_as_one(client, bots):
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    shown = [{"type": "text", "text": "What is this?"}, part]
    messages = [
        {"role": "user", "content": shown},
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": "Who opens?"},
    ]
    client.chat.completions.create(model=BOT, messages=messages)
    (sent,) = bots.contents
    assert [turn.text for turn in read(sent).turns] == [
        "What is this?\n\n[image]",
        "A cat.",
        "Who opens?",
    ]


BAD = [
    b"",
    b"{",
    b"[]",
    b'"text"',
    b"\xff\xfe",
    b'{"model": "bot_guide"}',
    b'{"model": 1, "messages": [{"role": "user", "content": "x"}]}',
    b'{"model": "bot_guide", "messages": []}',
    b'{"model": "bot_guide", "messages": [1]}',
    b'{"model": "bot_guide", "messages": [{"role": "king", "content": "x"}]}',
    b'{"model": "bot_guide", "messages": [{"role": "user"}]}',
    b'{"model": "bot_guide", "messages": [{"role": "user", "content": 7}]}',
    b'{"model": "bot_guide", "messages": [{"role": "user", "content": ["x"]}]}',
    b'{"model": "bot_guide", "messages": [{"role": "user", "content": [{"type": "text"}]}]}',
    b'{"model": "bot_guide", "messages": [{"role": "user", "content": "  "}]}',
    b'{"model": "bot_guide", "messages": [{"role": "assistant", "content": null}]}',
    b'{"model": "bot_guide", "messages": [{"role": "user", "content": "x"}], "stop": [""]}',
    b'{"model": "bot_guide", "messages": [{"role": "user", "content": "x"}], "stream": "yes"}',
    b'{"model": "bot_guide", "messages": [{"role": "user", "content": "x"}], "conversation": {}}',
    (
        b'{"model": "bot_guide", "messages": [{"role": "user", "content": "x"}], "metadata": {'
        b'"conversation_id": 5}}'
    ),
    b'{"model": "bot_guide", "messages": [{"role": "user", "content": "x"}], "conversation": "x"}',
    b'{"model": "bot_guide", "messages": [{"role": "user", "content": "\\ud800"}]}',
]


@pytest.mark.parametrize("body", BAD)
def test_a_bad_body_is_400_and_nothing_is_sent(address, bots, body):
    response = httpx.post(
        f"{address}/v1/chat/completions",
        content=body,
        headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["delivery"] == "not_delivered"
    assert error["message"].endswith(".")
    assert bots.contents == []


def test_too_many_at_once_should_come_again_and_are_not_sent(start, bots):
    bots.lose_next = [silence]
    address = start(parallel=1, seconds=3)
    headers = {"Authorization": f"Bearer {KEY}"}
    body = {"model": BOT, "messages": [{"role": "user", "content": "Who opens?"}]}

    async def ask_two():
        async with httpx.AsyncClient(headers=headers, timeout=30) as http:
            first = asyncio.create_task(http.post(f"{address}/v1/chat/completions", json=body))
            assert await until_awaited(lambda: bots.contents)
            other = {**body, "messages": [{"role": "user", "content": "Who closes?"}]}
            second = await http.post(f"{address}/v1/chat/completions", json=other)
            first.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await first
            return second

    second = asyncio.run(ask_two())
    assert second.status_code == 429
    assert second.headers["retry-after"] == "1"
    assert second.headers["x-should-retry"] == "true"
    assert second.json()["error"]["delivery"] == "not_delivered"
    assert len(bots.contents) == 1


def test_a_body_that_does_not_come_as_json_is_refused_with_advice(address, bots):
    result = httpx.post(
        f"{address}/v1/chat/completions",
        content=b'{"model": "bot_1", "messages": [{"role": "user", "content": "x"}]}',
        headers={"Authorization": f"Bearer {KEY}", "Content-Type": "text/plain"},
    )
    assert result.status_code == 400
    assert "Content-Type: application/json" in result.json()["error"]["message"]
    assert bots.contents == []


@pytest.mark.parametrize("model", ["gpt-5", "bot_", "bot_a/b", ""])
def test_a_model_that_no_bot_can_be_is_not_found_and_nothing_is_sent(client, bots, model):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Who?"}])
    assert caught.value.body["code"] == "model_not_found"
    assert bots.contents == []
