"""Uploads: what is sent, in constant memory, and what a broken one proves."""

import asyncio
import codecs
import io
import json
import os
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from email.parser import BytesParser
from email.policy import HTTP

import pytest

from calls import KEY, SOURCE
from knowledge_bot import (
    AsyncClient,
    Client,
    ConfigurationError,
    Delivery,
    RateLimitError,
    RequestTimeoutError,
)
from knowledge_bot.ingest import File, aingest
from refusals import refused
from scripted_server import answer
from waiting import open_files, until

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
def test_a_file_is_taken_as_a_path_bytes_or_a_file_object(call, service, tmp_path, kind):
    path = tmp_path / "handbook.md"
    path.write_bytes(b"# We open at 9\r\n")
    with path.open("rb") as stream:
        file = {"path": path, "text path": str(path), "bytes": b"# We open at 9\r\n"}.get(
            kind, stream
        )
        assert call(sender(file=file, filename="handbook.md"), service).id
        assert not stream.closed
    fields, content = parts(service.requests[0])
    assert json.loads(fields.get_content()) == {"name": "Handbook", "collections": ["col_1"]}
    assert fields.get_param("name", header="content-disposition") == "value"
    assert content.get_payload(decode=True) == b"# We open at 9\r\n"
    assert content.get_param("name", header="content-disposition") == "file"
    assert content.get_filename() == "handbook.md"
    assert content.get_content_type() == "text/markdown"


def test_the_fields_can_be_sent_as_plain_form_fields(call, service):
    call(
        lambda client: client.upload_source(
            name="Größe", collections=["col_1", "col_2"], file=b"x", content_type="text/plain"
        ),
        service,
        upload_encoding="fields",
    )
    sent = [
        (p.get_param("name", header="content-disposition"), p.get_payload(decode=True))
        for p in parts(service.requests[0])
    ]
    assert sent == [
        ("name", "Größe".encode()),
        ("collections", b"col_1"),
        ("collections", b"col_2"),
        ("file", b"x"),
    ]


def test_a_file_object_is_read_from_where_it_stands_at_each_attempt(call, service):
    service.fail_next(429, retry_after=0)
    stream = io.BytesIO(b"skipped,sent")
    stream.seek(8)
    call(sender(file=stream), service)
    bodies = [parts(request)[1].get_payload(decode=True) for request in service.requests]
    assert bodies == [b"sent", b"sent"]


def closed():
    stream = io.BytesIO(b"x")
    stream.close()
    return stream


class Pipe(io.RawIOBase):
    """A stream that gives its content once and cannot seek."""

    def __init__(self, content: bytes) -> None:
        self._stream = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._stream.read(size)


def test_a_stream_that_cannot_seek_is_sent_whole_and_never_again(call, scripted, service):
    server = scripted(answer(body=SOURCE))
    call(sender(file=Pipe(b"x" * 3 * MIB)), server.url)
    assert len(parts(server.requests[0])[1].get_payload(decode=True)) == 3 * MIB
    assert server.requests[0].headers["transfer-encoding"] == "chunked"
    service.fail_next(429, retry_after=0)
    with pytest.raises(RateLimitError):
        call(sender(file=Pipe(b"x")), service)
    assert len(service.requests) == 1


@pytest.mark.parametrize("size", [1, MIB // 2])
def test_progress_of_a_small_file_is_reported_once(call, service, size):
    shown = []
    call(
        sender(file=b"x" * size, on_progress=lambda sent, total: shown.append((sent, total))),
        service,
    )
    assert shown == [(size, size)]


def test_progress_begins_anew_with_each_attempt(call, service):
    service.fail_next(429, retry_after=0)
    shown = []
    call(sender(file=b"x" * MIB, on_progress=lambda sent, _: shown.append(sent)), service)
    assert shown == [MIB // 2, MIB, MIB // 2, MIB]


def test_a_path_is_opened_anew_for_each_attempt(call, service, tmp_path):
    path = tmp_path / "notes.md"
    path.write_bytes(b"first")

    def rewrite(request):
        if not request.is_ping:
            path.unlink()
            path.write_bytes(b"and longer")
        return not request.is_ping

    service.fail_next(429, retry_after=0, where=rewrite)
    call(sender(file=path), service)
    sent = [parts(request)[1].get_payload(decode=True) for request in service.requests]
    assert sent == [b"first", b"and longer"]


@pytest.mark.parametrize("size", [1, MIB])
def test_progress_that_raises_stops_the_upload_with_its_own_error(call, service, size):

    def fail(sent: int, total: int | None) -> None:
        raise LookupError("no bar")

    with pytest.raises(LookupError, match="no bar"):
        call(sender(file=b"x" * size, on_progress=fail), service)
    assert service.requests == []


@pytest.mark.parametrize(("change", "word"), [(-1000, "shrank"), (1000, "grew")])
def test_a_file_that_changes_while_it_is_sent_is_an_error_and_not_delivered(
    call, service, tmp_path, change, word
):
    path = tmp_path / "growing.log"
    path.write_bytes(b"x" * 8 * MIB)

    def once(sent: int, total: int | None) -> None:
        os.truncate(path, 8 * MIB + change)

    with pytest.raises(ConfigurationError, match=word) as caught:
        call(sender(file=path, on_progress=once), service)
    assert caught.value.delivery is Delivery.NOT_DELIVERED
    assert service.requests == []


class Changing(io.BytesIO):
    """A file that somebody writes to while it is read."""

    def __init__(self, size, later):
        super().__init__(b"x" * size)
        self._later = later

    def read(self, size=-1):
        self.truncate(min(self._later, len(self.getvalue())))
        found = super().read(size)
        self.seek(0, os.SEEK_END)
        self.write(b"x" * (self._later - len(self.getvalue())))
        self.seek(len(found))
        return found


@pytest.mark.parametrize(("later", "word"), [(10, "shrank"), (30, "grew")])
def test_a_small_file_that_changes_while_it_is_read_is_not_sent(call, service, later, word):
    with pytest.raises(ConfigurationError, match=word) as caught:
        call(sender(file=Changing(20, later)), service)
    assert caught.value.delivery is Delivery.NOT_DELIVERED
    assert service.requests == []


@pytest.mark.parametrize(("kind", "hops"), [("path", 1), ("bytes", 0), ("bytearray", 0)])
async def test_a_small_file_needs_one_thread_at_most(service, tmp_path, kind, hops):
    class Counting(ThreadPoolExecutor):
        submitted = 0

        def submit(self, *args, **options):
            self.submitted += 1
            return super().submit(*args, **options)

    threads = Counting(1)
    asyncio.get_running_loop().set_default_executor(threads)
    path = tmp_path / "small.bin"
    path.write_bytes(b"x" * 2000)
    file = {"path": path, "bytes": b"x" * 2000, "bytearray": bytearray(2000)}[kind]
    service.fail_next(429, retry_after=0)
    transport = service.async_transport
    async with AsyncClient(KEY, "https://service.test", transport=transport) as client:
        await sender(file=file)(client)
    assert len(service.requests) == 2
    assert threads.submitted == 2 * hops
    assert open_files(tmp_path) == 0


def text(kind, size):
    """A file object that gives text."""
    if kind == "text":
        return io.StringIO("x" * size)
    if kind == "codecs":
        return codecs.getreader("utf-8")(io.BytesIO(b"x" * size))
    made = {"temporary": tempfile.NamedTemporaryFile, "spooled": tempfile.SpooledTemporaryFile}
    stream = made[kind](mode="w+")
    stream.write("x" * size)
    stream.seek(0)
    return stream


@pytest.mark.parametrize("kind", ["text", "codecs", "temporary", "spooled"])
@pytest.mark.parametrize("size", [1, MIB])
def test_a_file_that_gives_no_bytes_is_named_before_anything_is_sent(call, service, kind, size):
    with text(kind, size) as stream, refused("file"):
        call(sender(file=stream), service)
    assert service.requests == []


def test_a_pipe_that_has_nothing_yet_and_does_not_wait_is_refused_and_not_cut(call, service):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with open(reading, "rb", 0) as pipe, refused("file"):
        call(sender(file=pipe), service)
    os.close(writing)
    assert service.requests == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such paths")
@pytest.mark.parametrize("size", [1, MIB])
def test_a_pipe_by_its_path_is_sent_whole_and_once(call, service, tmp_path, size):
    os.mkfifo(tmp_path / "pipe")
    service.fail_next(429)
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"x" * size,))
    writer.start()
    with pytest.raises(RateLimitError):
        call(sender(file=tmp_path / "pipe"), service)
    writer.join()
    assert [request.file[1] for request in service.requests] == [b"x" * size]


@pytest.fixture
def idle(tmp_path):
    """`idle(kind)`: a file that gives nothing, or stops giving, until the test ends."""
    ends = []

    def make(kind):
        if kind == "a path that nobody writes to":
            os.mkfifo(tmp_path / "idle")
            return tmp_path / "idle"
        reading, writing = os.pipe()
        ends.append(writing)
        if kind == "a pipe that stops":
            os.write(writing, b"x")
        return open(reading, "rb", 0)

    yield make
    for end in ends:
        os.close(end)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such paths")
@pytest.mark.parametrize("kind", ["a pipe", "a pipe that stops", "a path that nobody writes to"])
def test_a_timeout_ends_an_upload_whatever_its_file_does(call, scripted, idle, kind):
    server = scripted(answer(body=SOURCE))
    with pytest.raises(RequestTimeoutError) as caught:
        call(sender(file=idle(kind)), server.url, timeout=0.2)
    assert caught.value.delivery is Delivery.NOT_DELIVERED
    assert server.requests == []


@pytest.mark.parametrize("kind", ["a pipe", "a pipe that stops"])
async def test_a_cancellation_ends_an_upload_whatever_its_file_does(scripted, idle, kind):
    server = scripted(answer(body=SOURCE))
    async with AsyncClient(KEY, server.url) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await sender(file=idle(kind))(client)
    assert server.requests == []


async def test_an_upload_of_an_ingestion_ends_in_time_whatever_its_file_does(
    service, idle, tmp_path
):
    files = iter([io.BytesIO(b"x")])  # which is read to be compared

    def opened():
        return next(files, None) or idle("a pipe that stops")

    transport = service.async_transport
    async with AsyncClient(KEY, "https://service.test", transport=transport, timeout=0.2) as client:
        item = File(path="idle.md", open=opened)
        report = await aingest(client, [item], collections="col_1", ledger=tmp_path / "l")
    assert (report.undelivered, service.requests) == (1, [])


async def test_a_file_is_closed_once_its_last_read_returns_though_the_upload_ended(
    service, tmp_path
):
    may_end = threading.Event()

    class Stalled(Pipe):
        def read(self, size=-1):
            return super().read(size) or (may_end.wait(60) and b"")

    stalled = Stalled(b"x")
    files = iter([io.BytesIO(b"x"), stalled])  # the first is read to be compared
    transport = service.async_transport
    async with AsyncClient(KEY, "https://service.test", transport=transport, timeout=0.2) as client:
        item = File(path="stalled.md", open=lambda: next(files))
        await aingest(client, [item], collections="col_1", ledger=tmp_path / "l")
    assert not stalled.closed
    may_end.set()
    assert until(lambda: stalled.closed)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("missing.md", "No such file"),
        (".", "directory"),
        ("\0", "null"),
        (b"", "is empty"),
        (Pipe(b""), "is empty"),
        (7, "expected a path, bytes or a binary file object, not int"),
        (closed(), "closed file"),
    ],
)
def test_a_file_that_cannot_be_sent_is_a_clear_error(call, service, file, words):
    with pytest.raises(ConfigurationError, match=words):
        call(sender(file=file), service)
    assert service.requests == []


@pytest.mark.parametrize(
    ("filename", "content_type"),
    [
        ("notes.tar", "application/x-tar"),
        ("notes.tar.gz", "application/octet-stream"),
        ("notes.txt.bz2", "application/octet-stream"),
        ("notes", "application/octet-stream"),
    ],
)
def test_a_compressed_file_is_not_sent_as_what_is_in_it(filename, content_type):
    request = Client.upload_source(name="n", collections="col_1", file=b"x", filename=filename)
    assert request.upload.content_type == content_type


def test_a_content_type_cannot_smuggle_a_header(call, service):
    with pytest.raises(ConfigurationError, match="media type"):
        call(
            sender(file=b"x", content_type="text/plain\r\nX-Evil: 1"),
            service,
        )


@pytest.mark.parametrize(
    ("filename", "sent"),
    [
        ('a"; filename="b.md', b'filename="a%22; filename=%22b.md"'),
        ("a\r\nX-Evil: 1\r\n\r\nb.md", b'filename="a%0D%0AX-Evil: 1%0D%0A%0D%0Ab.md"'),
        ("Öffnung 日本.md", 'filename="Öffnung 日本.md"'.encode()),
        ("half \ud800.md", b'filename="half ?.md"'),
        ("nul\0.md", b'filename="nul%00.md"'),
    ],
)
def test_a_hostile_file_name_stays_one_name_of_one_part(call, service, filename, sent):
    call(sender(file=b"x", filename=filename), service)
    head = service.requests[0].body.split(b"\r\n\r\n")[-2].split(b"\r\n")
    assert head[-2] == b'Content-Disposition: form-data; name="file"; ' + sent
    assert [part.get_content_disposition() for part in parts(service.requests[0])] == [
        "form-data"
    ] * 2


class OnlyReads:
    def __init__(self, content):
        self.read = io.BytesIO(content).read


@pytest.mark.parametrize(
    "file",
    [lambda: OnlyReads(b"xyz"), lambda: memoryview(b"x_y_z_")[::2], lambda: bytearray(b"xyz")],
)
def test_whatever_gives_bytes_is_a_file(call, service, file):
    call(sender(file=file()), service)
    assert parts(service.requests[0])[1].get_payload(decode=True) == b"xyz"
