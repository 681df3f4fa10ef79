"""Every way in which OpenAI's own clients ask: sync and async, whole and streamed."""

import inspect

import httpx2
import openai
import pytest

from gateways import KEY

BOT = "bot_guide"
ASKED = {"model": BOT, "messages": [{"role": "user", "content": "Who opens?"}]}
INPUT = {"model": BOT, "input": "Who opens?"}
PARTS = [{"role": "user", "content": [{"type": "text", "text": "Who opens?"}]}]
ITEMS = [{"type": "message", "role": "user", "content": "Who opens?"}]
INPUT_PARTS = [{"role": "user", "content": [{"type": "input_text", "text": "Who opens?"}]}]

# For each shape how it is asked, and how the answer is read from what comes back, or its pieces.
SHAPES = {
    "completion": (
        lambda client: client.chat.completions.create(**ASKED),
        lambda it: it.choices[0].message.content,
    ),
    "completion of parts": (
        lambda client: client.chat.completions.create(model=BOT, messages=PARTS),
        lambda it: it.choices[0].message.content,
    ),
    "completion, parsed": (
        lambda client: client.chat.completions.parse(**ASKED),
        lambda it: it.choices[0].message.content,
    ),
    "completion, raw": (
        lambda client: client.chat.completions.with_raw_response.create(**ASKED),
        lambda it: it.parse().choices[0].message.content,
    ),
    "completion, streamed": (
        lambda client: client.chat.completions.create(**ASKED, stream=True),
        lambda chunks: "".join(one.choices[0].delta.content or "" for one in chunks),
    ),
    "completion, streamed with usage": (
        lambda client: client.chat.completions.create(
            **ASKED, stream=True, stream_options={"include_usage": True}
        ),
        lambda chunks: "".join(one.choices[0].delta.content or "" for one in chunks if one.choices),
    ),
    "response": (lambda client: client.responses.create(**INPUT), lambda it: it.output_text),
    "response to items": (
        lambda client: client.responses.create(model=BOT, input=ITEMS),
        lambda it: it.output_text,
    ),
    "response to parts": (
        lambda client: client.responses.create(model=BOT, input=INPUT_PARTS),
        lambda it: it.output_text,
    ),
    "response, parsed": (
        lambda client: client.responses.parse(**INPUT),
        lambda it: it.output_text,
    ),
    "response, raw": (
        lambda client: client.responses.with_raw_response.create(**INPUT),
        lambda it: it.parse().output_text,
    ),
    "response, streamed": (
        lambda client: client.responses.create(**INPUT, stream=True),
        lambda events: "".join(
            one.delta for one in events if one.type == "response.output_text.delta"
        ),
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_blocking_client_gets_the_answer(client, bots, shape):
    ask, read = SHAPES[shape]
    found = ask(client)
    answer = read(list(found) if "streamed" in shape else found)
    assert answer == "<answer 1> of bot_guide"
    assert bots.contents == ["Who opens?"]


@pytest.mark.parametrize("shape", SHAPES)
async def test_an_awaiting_client_gets_the_answer(address, bots, shape):
    ask, read = SHAPES[shape]
    async with (
        httpx2.AsyncClient() as http,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=KEY, http_client=http) as client,
    ):
        found = ask(client)
        found = await found if inspect.isawaitable(found) else found
        answer = read([one async for one in found] if "streamed" in shape else found)
    assert answer == "<answer 1> of bot_guide"
    assert bots.contents == ["Who opens?"]
