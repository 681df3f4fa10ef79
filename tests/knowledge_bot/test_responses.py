"""Answers: read although something in them is odd, unpacked, bounded, and named if damaged."""

import gzip
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from calls import KEY, MESSAGE, SOURCE, ask, create, read, settled
from knowledge_bot import BadRequestError, Client, UnexpectedResponseError
from knowledge_bot.testing import MemoryService

BODY = to_json(SOURCE)


def raw_deflate(body):
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


# What servers send under these names: "deflate" stands for two formats.
COMPRESSIONS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "raw deflate": raw_deflate,
    "identity": bytes,
}


@pytest.mark.parametrize("encoding", COMPRESSIONS)
def test_a_compressed_answer_is_read(call, service, encoding):
    headers = {"Content-Encoding": encoding.split()[-1]}
    service.answer_next(200, COMPRESSIONS[encoding](BODY), headers)
    assert call(create, service).id == "src_1"
    assert service.requests[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("key", ["key", "default", "1", "src_1", KEY])
def test_an_answer_that_holds_the_key_arrives_as_it_was_sent(call, service, key):
    shown = f"the {key} is at the desk, room 1"
    service.answer_next(200, to_json({**MESSAGE, "answer": shown, "id": f"msg_{key}"}))
    message = call(ask, service, api_key=key)
    assert (message.answer, message.id) == (shown, f"msg_{key}")


def test_an_answer_that_cannot_be_read_does_not_show_the_key(call, service):
    service.answer_next(200, to_json({"echo": KEY, "identifier": "src_77"}))
    with pytest.raises(UnexpectedResponseError) as caught:
        call(create, service)
    assert caught.value.body == b'{"echo":"***","identifier":"src_77"}'
    assert KEY not in str(caught.value)


@given(
    encoding=st.sampled_from(sorted(COMPRESSIONS)),
    repeated=st.integers(0, 20_000),
    random=st.randoms(use_true_random=False),
)
def test_a_compressed_answer_of_any_size_is_read_whole(encoding, repeated, random):
    answer = (random.randbytes(7) * repeated).hex()
    body = COMPRESSIONS[encoding](to_json({**MESSAGE, "answer": answer}))
    service = MemoryService(bots={"bot_1": {}})
    service.answer_next(200, body, {"Content-Encoding": encoding.split()[-1]})
    with Client(KEY, "https://service.test", transport=service.transport) as client:
        assert ask(client).answer == answer


# Answers to a message, in which one stands: what is odd about them, and what of it arrives.
TEXT = '{"id":"msg_1","answer":"At nine.","conversation_id":"conv_1","created_at":1700000000000%s}'
ODD = {
    "nothing": (TEXT % "", {}),
    "byte order mark": ("\ufeff" + TEXT % "", {}),
    "UTF-16": ((TEXT % "").encode("utf-16"), {}),
    "bytes that are no UTF-8": (TEXT.encode() % b',"n":"\xff"', {"n": "\ufffd"}),
    "a line end behind it": (TEXT % "" + "\r\n\r\n", {}),
    "something behind it": (TEXT % "" + "\0", {}),
    "created_at null": (TEXT.replace("1700000000000%s", "null"), {"created_at": None}),
    "created_at missing": (TEXT.replace(',"created_at":1700000000000%s', ""), {"created_at": None}),
    "created_at no time": (TEXT.replace("1700000000000%s", '"now"'), {"created_at": None}),
    "created_at not a number": (TEXT.replace("1700000000000%s", "NaN"), {"created_at": None}),
    "created_at in microseconds": (TEXT % "000", {}),
    "created_at in nanoseconds": (TEXT % "000000", {}),
    "created_at in seconds": (TEXT.replace("000%s", ""), {}),
    "id a number": (TEXT.replace('"msg_1"', "7") % "", {"id": "7"}),
    "id null": (TEXT.replace('"msg_1"', "null") % "", {"id": ""}),
    "no conversation": (TEXT.replace('"conv_1"', "[]") % "", {"conversation_id": ""}),
    "the answer a number": (TEXT.replace('"At nine."', "9") % "", {"answer": "9"}),
    "half an emoji": (TEXT.replace("nine", r"\ud83d") % "", {"answer": "At \ufffd."}),
    "the other half": (TEXT.replace("nine", r"\ude00") % "", {"answer": "At \ufffd."}),
    "a whole one and half of one": (
        TEXT.replace("nine", r"\\\ud83d\ude00\ud83d") % "",
        {"answer": "At \\\U0001f600\ufffd."},
    ),
    "a line end in it": (TEXT.replace("nine", "\n9") % "", {"answer": "At \n9."}),
    "an endless number": (TEXT % (',"n":-' + "9" * 5000 + ".5e3"), {"n": None}),
    "a number that is none": (TEXT % ',"n":-Infinity', {"n": None}),
    "300 lists": (TEXT % (',"n":' + "[" * 300 + "]" * 300), {}),
    "brackets in a text": (TEXT % (',"n":' + "[" * 300 + '"]}\\""' + "]" * 300), {}),
    "an unknown `value`": (TEXT % ',"value":0.5', {"value": 0.5}),
    "an unknown object `value`": (TEXT % ',"value":{"id":7}', {"value": {"id": 7}}),
    "wrapped": ('{"value":' + TEXT % "" + "}", {}),
    "wrapped, with more beside it": ('{"id":"req_1","value":' + TEXT % "" + "}", {}),
}


@pytest.mark.parametrize("odd", ODD)
def test_an_answer_is_not_lost_for_what_nobody_needs(call, service, odd):
    body, arrives = ODD[odd]
    service.answer_next(200, body if isinstance(body, bytes) else body.encode())
    message = call(ask, service)
    expected = json.loads(TEXT % "") | arrives
    assert {**expected, **message.model_dump(mode="json", include=set(expected))} == expected


@pytest.mark.parametrize(
    "odd",
    [
        {"name": None},
        {"collections": None},
        {"collections": ["col_1"]},
        {"status": {}},
        {"created_at": None},
        {"value": 1},
    ],
)
def test_nor_is_a_source(call, service, odd):
    service.answer_next(200, to_json({**SOURCE, **odd}))
    assert call(create, service).id == "src_1"


@pytest.mark.parametrize(
    ("data", "ids"), [(None, []), ([{"id": 1}], ["1"]), ([{"id": "bot_1", "name": 2}], ["bot_1"])]
)
def test_nor_is_a_list(call, service, data, ids):
    service.answer_next(200, b"\xef\xbb\xbf" + to_json({"data": data, "value": 1}))
    assert [bot.id for bot in call(read, service)] == ids


@pytest.mark.parametrize("data", [0, "", {}, [None], [{}], [{"id": None}]])
def test_what_stands_for_nothing_in_a_list_is_an_error_and_no_absence(call, service, data):
    service.answer_next(200, to_json({"data": data}))
    with pytest.raises(UnexpectedResponseError):
        call(read, service)


@pytest.mark.parametrize(
    "body", ["pong", " pong\n", "\ufeffpong", '\ufeff"pong"', '{"value":"pong"}']
)
def test_nor_is_a_ping(call, service, body):
    service.answer_next(200, body.encode(), where=lambda request: request.is_ping)
    assert call(lambda client: client.ping(), service)


def test_a_conversation_goes_on_although_an_answer_does_not_name_it(call, service):
    service.answer_next(200, to_json({**MESSAGE, "conversation_id": None}))

    async def ask_twice(client):
        chat = client.chat("bot_1", "conv_1")
        await settled(chat.ask("When?"))
        await settled(chat.ask("And?"))

    with pytest.raises(BadRequestError):  # this service knows of none
        call(ask_twice, service)
    assert [one.value["conversation_id"] for one in service.requests] == ["conv_1"] * 2


def as_object(fields):
    return "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}"


# Anything that JSON can hold, and some things that it cannot.
ANYTHING = st.recursive(
    st.sampled_from(["null", "NaN", "-Infinity", "9" * 5000, "1e999", r'"\ud83d"', '"\t"', '"\\""'])
    | st.integers().map(str)
    | st.text().map(lambda text: to_json(text).decode()),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda found: f"[{','.join(found)}]")
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(as_object)
        | inner.map(lambda found: "[" * 110 + found + "]" * 110)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize(
    "examples", [30, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_whatever_stands_beside_an_answer_it_arrives(examples):
    service = MemoryService(bots={"bot_1": {}})
    client = Client(KEY, "https://service.test", max_retries=0, transport=service.transport)
    names = st.sampled_from(["id", "conversation_id", "created_at", "value", "data", "code", "x"])

    @settings(max_examples=examples, deadline=None, suppress_health_check=[*HealthCheck])
    @given(st.dictionaries(names, ANYTHING), st.booleans(), st.sampled_from(["", "\ufeff"]))
    def holds(beside, wrapped, mark):
        body = as_object({**beside, "answer": '"At nine."'})
        service.answer_next(
            200, (mark + (as_object({"value": body}) if wrapped else body)).encode()
        )
        message = ask(client)
        assert message.answer == "At nine."
        assert repr(message)

    holds()


DAMAGED = {
    "a bomb": (gzip.compress(b" " * 40 * 2**20), "gzip", "larger than 16 MiB"),
    "too large": (b" " * 17 * 2**20, "identity", "larger than 16 MiB"),
    "cut short": (gzip.compress(BODY)[:-9], "gzip", "cut short"),
    "junk": (b"junk", "gzip", "damaged"),
    "not asked for": (BODY, "br", "encoded as 'br'"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_an_answer_that_cannot_be_decoded_is_named(call, service, kind):
    body, encoding, words = DAMAGED[kind]
    service.answer_next(200, body, {"Content-Encoding": encoding})
    with pytest.raises(UnexpectedResponseError, match=words):
        call(create, service)
    assert len(service.requests) == 1


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="only Linux resets peak memory"
)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_bomb_does_not_unfold(kind):
    # In a process of its own, since memory is what is measured.
    done = subprocess.run(
        [sys.executable, "-c", BOMB, kind],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 32 * 2**20, done.stdout


BOMB = """
import asyncio, sys, zlib
from pathlib import Path
from knowledge_bot import AsyncClient, Client, UnexpectedResponseError
from knowledge_bot.testing import MemoryService

compressor = zlib.compressobj(1, wbits=31)
bomb = b"".join(compressor.compress(bytes(2**20)) for _ in range(80)) + compressor.flush()
service = MemoryService()

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024

async def main():
    with service.standing_in():
        kind = AsyncClient if sys.argv[1] == "async" else Client
        client = kind("key", "https://service.test")
    for is_bomb in (False, True):
        if is_bomb:
            service.answer_next(200, bomb, {"Content-Encoding": "gzip"})
            Path("/proc/self/clear_refs").write_text("5")
            before = peak()
        try:
            listed = client.list_bots()
            if kind is AsyncClient:
                await listed
        except UnexpectedResponseError:
            print(peak() - before)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "expected", [{"detail": "not acceptable here"}, {"error": {"reason": "not acceptable here"}}]
)
def test_a_refusal_in_the_words_of_a_proxy_is_reported(call, service, expected):
    service.answer_next(400, to_json(expected))
    with pytest.raises(BadRequestError, match="not acceptable here"):
        call(create, service)
