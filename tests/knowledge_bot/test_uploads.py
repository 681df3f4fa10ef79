"""Uploads: what is sent, in constant memory, and what a broken one proves."""

import asyncio
import io
import json
import os
import subprocess
import sys
import threading
import time
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calls import KEY, SOURCE
from knowledge_bot import AsyncClient, Client, ConfigurationError, ConnectionLostError, Delivery
from knowledge_bot.uploads import Upload
from scripted_server import answer, close

MIB = 1024 * 1024


def parts(received):
    """The parts of a multipart request, as the standard library reads them."""
    head = f"Content-Type: {received.headers['content-type']}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + received.body)
    return list(message.iter_parts())


def sender(**arguments):
    """A call that uploads with these arguments."""
    return lambda client: client.upload_source(name="Handbook", collections="col_1", **arguments)


@pytest.mark.parametrize("kind", ["path", "text path", "bytes", "file object"])
def test_a_file_is_taken_as_a_path_bytes_or_a_file_object(call, scripted, tmp_path, kind):
    server = scripted(answer(body=SOURCE))
    path = tmp_path / "handbook.md"
    path.write_bytes(b"# We open at 9\r\n")
    with path.open("rb") as stream:
        file = {"path": path, "text path": str(path), "bytes": b"# We open at 9\r\n"}.get(
            kind, stream
        )
        assert call(sender(file=file, filename="handbook.md"), server.url).id == "src_1"
        assert not stream.closed
    fields, content = parts(server.requests[0])
    assert json.loads(fields.get_content()) == {"name": "Handbook", "collections": ["col_1"]}
    assert fields.get_param("name", header="content-disposition") == "value"
    assert content.get_payload(decode=True) == b"# We open at 9\r\n"
    assert content.get_param("name", header="content-disposition") == "file"
    assert content.get_filename() == "handbook.md"
    assert content.get_content_type() == "text/markdown"


def test_the_fields_can_be_sent_as_plain_form_fields(call, scripted):
    server = scripted(answer(body=SOURCE))
    call(
        lambda client: client.upload_source(
            name="Größe", collections=["col_1", "col_2"], file=b"x", content_type="text/plain"
        ),
        server.url,
        upload_encoding="fields",
    )
    sent = [
        (p.get_param("name", header="content-disposition"), p.get_payload(decode=True))
        for p in parts(server.requests[0])
    ]
    assert sent == [
        ("name", "Größe".encode()),
        ("collections", b"col_1"),
        ("collections", b"col_2"),
        ("file", b"x"),
    ]


def test_a_file_object_is_read_from_where_it_stands_at_each_attempt(call, scripted):
    server = scripted(answer(429, headers={"Retry-After": "0"}), answer(body=SOURCE))
    stream = io.BytesIO(b"skipped,sent")
    stream.seek(8)
    call(sender(file=stream), server.url)
    bodies = [parts(request)[1].get_payload(decode=True) for request in server.requests]
    assert bodies == [b"sent", b"sent"]


class Pipe(io.RawIOBase):
    """A stream that gives its content once and cannot seek."""

    def __init__(self, content: bytes) -> None:
        self._stream = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._stream.read(size)


def test_a_stream_that_cannot_seek_is_sent_whole_and_never_again(call, scripted):
    server = scripted(answer(body=SOURCE))
    call(sender(file=Pipe(b"x" * 3 * MIB)), server.url)
    assert len(parts(server.requests[0])[1].get_payload(decode=True)) == 3 * MIB
    assert server.requests[0].headers["transfer-encoding"] == "chunked"

    refusing = scripted(answer(429, headers={"Retry-After": "0"}))
    with pytest.raises(Exception, match="429"):
        call(sender(file=Pipe(b"x")), refusing.url)
    assert len(refusing.requests) == 1


def test_an_upload_that_breaks_off_is_not_delivered_and_sent_again(call, scripted, tmp_path):
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(32 * MIB)
    server = scripted(close, read_limit=MIB)
    with pytest.raises(ConnectionLostError) as caught:
        call(sender(file=path), server.url, max_retries=1)
    assert caught.value.delivery is Delivery.NOT_DELIVERED
    assert server.started == 2
    assert server.requests == []


def test_progress_is_told_in_bytes_of_the_file(call, scripted, tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(b"x" * (2 * MIB + 5))
    told = []
    call(
        sender(file=path, on_progress=lambda sent, total: told.append((sent, total))),
        scripted(answer(body=SOURCE)).url,
    )
    assert told == sorted(told)
    assert told[-1] == (2 * MIB + 5, 2 * MIB + 5)


def test_progress_that_raises_stops_the_upload_with_its_own_error(call, scripted):
    server = scripted(answer(body=SOURCE))

    def fail(sent: int, total: int | None) -> None:
        raise LookupError("no bar")

    with pytest.raises(LookupError, match="no bar"):
        call(sender(file=b"x" * MIB, on_progress=fail), server.url)
    assert server.requests == []


@pytest.mark.parametrize(("change", "word"), [(-1000, "shrank"), (1000, "grew")])
def test_a_file_that_changes_while_it_is_sent_is_an_error_and_not_delivered(
    call, scripted, tmp_path, change, word
):
    server = scripted(answer(body=SOURCE))
    path = tmp_path / "growing.log"
    path.write_bytes(b"x" * 8 * MIB)

    def once(sent: int, total: int | None) -> None:
        os.truncate(path, 8 * MIB + change)

    with pytest.raises(ConfigurationError, match=word) as caught:
        call(sender(file=path, on_progress=once), server.url)
    assert caught.value.delivery is Delivery.NOT_DELIVERED
    assert server.requests == []


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("missing.md", "No such file"),
        (".", "directory"),
        ("\0", "null"),
        (b"", "is empty"),
        (Pipe(b""), "is empty"),
        (7, "expected a path, bytes or a binary file object, not int"),
        (io.StringIO("text"), "binary mode"),
    ],
)
def test_a_file_that_cannot_be_sent_is_a_clear_error(call, scripted, file, words):
    server = scripted(answer(body=SOURCE))
    with pytest.raises(ConfigurationError, match=words):
        call(sender(file=file), server.url)
    assert server.requests == []


def test_a_content_type_cannot_smuggle_a_header(call, scripted):
    with pytest.raises(ConfigurationError, match="media type"):
        call(
            sender(file=b"x", content_type="text/plain\r\nX-Evil: 1"),
            scripted(answer(body=SOURCE)).url,
        )


@given(filename=st.text(min_size=1, max_size=40).filter(str.strip))
def test_no_file_name_can_end_its_line_or_its_quotes(filename):
    upload = Upload.prepare(
        {"name": "n", "collections": ["col_1"]},
        b"content",
        filename=filename,
        content_type="text/plain",
        on_progress=None,
    )
    body = upload.open("value")
    head = next(body.stream())
    disposition = head.split(b"\r\n")[5]
    assert head.count(b"\r\n") == 8
    assert disposition.startswith(b'Content-Disposition: form-data; name="file"; filename="')
    assert disposition.count(b'"') == 4
    assert disposition.endswith(b'"')
    body.close()


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells peak memory")
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_large_file_is_sent_in_constant_memory(kind, tmp_path):
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(256 * MIB)
    # The server discards what it reads; in a process of its own, since memory is what is measured.
    done = subprocess.run(
        [sys.executable, "-c", LARGE_UPLOAD, kind, str(path), str(Path(__file__).parents[1])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 16 * MIB, done.stdout


LARGE_UPLOAD = """
import asyncio, sys
from pathlib import Path
kind, path, tests = sys.argv[1:]
sys.path.insert(0, tests)
from calls import SOURCE
from knowledge_bot import AsyncClient, Client
from scripted_server import ScriptedServer, answer

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024

server = ScriptedServer([answer(body=SOURCE)], keep_bodies=False)

def use(client, file):
    return client.upload_source(name="n", collections="col_1", file=file)

def measured():
    Path("/proc/self/clear_refs").write_text("5")
    return peak()

if kind == "sync":
    with Client("key", server.url) as client:
        use(client, b"warm")
        before = measured()
        use(client, path)
else:
    async def main():
        async with AsyncClient("key", server.url) as client:
            await use(client, b"warm")
            before = measured()
            await use(client, path)
            return before
    before = asyncio.run(main())
print(peak() - before)
"""


async def test_a_slow_file_does_not_hold_up_the_event_loop(scripted):
    server = scripted(answer(body=SOURCE))

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            assert threading.current_thread() is not threading.main_thread()
            time.sleep(0.05)
            return super().read(size)

    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.005)
            beats += 1

    beating = asyncio.create_task(heart())
    async with AsyncClient(KEY, server.url) as client:
        await client.upload_source(name="n", collections="col_1", file=Slow(b"x" * 2 * MIB))
    beating.cancel()
    assert beats > 10


async def test_a_cancelled_upload_leaves_the_file_closed_and_the_client_usable(scripted, tmp_path):
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(64 * MIB)
    server = scripted(answer(body=SOURCE))
    async with AsyncClient(KEY, server.url) as client:
        begun = asyncio.Event()
        task = asyncio.create_task(
            client.upload_source(
                name="n",
                collections="col_1",
                file=path,
                on_progress=lambda sent, total: begun.set(),
            )
        )
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert any("cannot have acted" in note for note in caught.value.__notes__)
        await client.upload_source(name="n", collections="col_1", file=b"x")
    assert str(path) not in [
        os.readlink(link.path) for link in os.scandir("/proc/self/fd") if os.path.islink(link.path)
    ]


def test_many_uploads_at_once_share_nothing(scripted, tmp_path):
    server = scripted(answer(body=SOURCE))
    with Client(KEY, server.url) as client:
        threads = [
            threading.Thread(target=sender(file=bytes([65 + n]) * MIB), args=(client,))
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    contents = {parts(request)[1].get_payload(decode=True)[:1] for request in server.requests}
    assert contents == {bytes([65 + n]) for n in range(8)}
