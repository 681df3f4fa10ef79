"""Input as nobody should send it: each gets an error or a reason, and the service stays up.

`pytest -m "slow or not slow" --log-cli-level=INFO FILE` prints what each one got.
"""

import io
import logging
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from document_files import SENTENCE
from knowledge_bot_service import LocalService
from service_calls import client_of, value_of

_log = logging.getLogger(__name__)
logging.getLogger("httpx").setLevel(logging.WARNING)

MIB = 1024**2

# Everything hostile must be over with in this time, in seconds.
PATIENCE = 30


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service with the limits that it has by default."""
    folder = tmp_path_factory.mktemp("hostile")
    with LocalService(folder, bots=["bot_one"]) as running:
        yield running
        _log.info("peak memory of the service: %d MiB", peak_memory(running) // MIB)


@pytest.fixture
def http(service):
    with client_of(service) as client:
        yield client
        # Still there, and in shape.
        assert client.get("/ping").json() == "pong"
        assert peak_memory(service) < 1024 * MIB


def peak_memory(service):
    """The most memory that the service itself has had, in bytes."""
    status = Path(f"/proc/{service.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def bomb(size=100 * MIB):
    """A Word document of a tenth of a megabyte that unpacks to `size` bytes."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("word/document.xml", "w") as body,
    ):
        body.write(b"<w:document xmlns:w='urn:x'>")
        for _ in range(size // MIB):
            body.write(b" " * MIB)
    return packed.getvalue()


def laughing_docx():
    """A Word document whose one word unfolds a billion times."""
    entities = '<!ENTITY a0 "lol">' + "".join(
        f'<!ENTITY a{number} "{f"&a{number - 1};" * 10}">' for number in range(1, 10)
    )
    body = "<w:body><w:p><w:r><w:t>&a9;</w:t></w:r></w:p></w:body>"
    word = f"<w:document xmlns:w='w'>{body}</w:document>"
    laughs = f"<?xml version='1.0'?><!DOCTYPE x [{entities}]>{word}"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("word/document.xml", laughs)
    return packed.getvalue()


# What else cannot be read has its reasons in the readers' own tests.
FAILING: dict[str, tuple[Callable[[], bytes], str]] = {
    "DOCX bomb": (bomb, "larger|bomb|unpack"),
    "billion laughs in a DOCX": (laughing_docx, "entit|damaged"),
}


def end_of(service, source):
    """What became of a source, and why."""
    service.wait_until_ready(PATIENCE)
    (state,) = [state for state in service.sources() if state.id == source]
    return state.status, state.reason or ""


@pytest.mark.parametrize("what", FAILING)
def test_a_hostile_file_fails_with_its_reason(service, http, what):
    make, reason = FAILING[what]
    form = {"name": what, "collections": "col_default"}
    response = http.post("/sources/upload", data=form, files={"file": ("a.docx", make())})
    status, said = end_of(service, value_of(response)["id"])
    _log.info("%s: %s, %s", what, status, said)
    assert status == "failed"
    assert re.search(reason, said), said


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_text_of_50_mb_is_read(service, http):
    paragraph = SENTENCE * 10 + "\n\n"
    content = paragraph * (50_000_000 // len(paragraph))
    body = {"name": "Text", "collections": ["col_default"], "content": content}
    source = value_of(http.post("/sources/write", json={"value": body}, timeout=600))["id"]
    service.wait_until_ready(1200)
    (state,) = [state for state in service.sources() if state.id == source]
    _log.info("a text of 50 MB: %s", state.status)
    assert state.status == "ready"
