"""Compressed answers: read, bounded, and named where they are damaged."""

import gzip
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from calls import KEY, MESSAGE, SOURCE, ask, create
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
