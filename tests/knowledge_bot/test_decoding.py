"""Compressed answers: read, bounded, and named where they are damaged."""

import gzip
import zlib

import pytest
from pydantic_core import to_json

from calls import SOURCE, create
from knowledge_bot import UnexpectedResponseError
from scripted_server import answer

BODY = to_json(SOURCE)


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress)],
)
def test_a_compressed_answer_is_read(call, scripted, encoding, compress):
    server = scripted(answer(body=compress(BODY), headers={"Content-Encoding": encoding}))
    assert call(create, server.url).id == "src_1"


def test_an_empty_encoding_is_none(call, scripted):
    server = scripted(answer(body=BODY, headers={"Content-Encoding": "identity"}))
    assert call(create, server.url).id == "src_1"


DAMAGED = {
    "a bomb": (gzip.compress(b" " * 40 * 2**20), "gzip", "larger than 16 MiB"),
    "too large": (b" " * 17 * 2**20, "identity", "larger than 16 MiB"),
    "cut short": (gzip.compress(BODY)[:-9], "gzip", "cut short"),
    "junk": (b"junk", "gzip", "damaged"),
    "not asked for": (BODY, "br", "encoded as 'br'"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_an_answer_that_cannot_be_decoded_is_named(call, scripted, kind):
    body, encoding, words = DAMAGED[kind]
    server = scripted(answer(body=body, headers={"Content-Encoding": encoding}))
    with pytest.raises(UnexpectedResponseError, match=words):
        call(create, server.url)
    assert len(server.requests) == 1
