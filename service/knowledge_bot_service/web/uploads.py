"""Receiving an upload: multipart fields in memory, the file straight to disk."""

import hashlib
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from fastapi import Request
from pydantic import ValidationError
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from knowledge_bot_service.config.refusals import invalid
from knowledge_bot_service.store.material import synchronise_file, synchronise_folder
from knowledge_bot_service.store.sources import Material
from knowledge_bot_service.web.problems import sentences
from knowledge_bot_service.web.requests import MOST_COLLECTIONS, NewSource
from knowledge_bot_service.work.knowledge_base import Sent

# The form's fields together with the headers of all parts, in bytes, and the number of its parts: a
# name, a file and as many collections as a source can have.
_MAX_FIELDS: Final = 1024 * 1024
_MAX_PARTS: Final = MOST_COLLECTIONS + 10

_FILE: Final = "file"

_New = TypeVar("_New", bound=NewSource)

# The sender gets the error of a bad form; a log line for each would fill the log.
logging.getLogger("python_multipart").setLevel(logging.ERROR)


async def receive_upload(request: Request, path: Path, form: type[_New]) -> tuple[Sent, _New]:
    """Write a form's file to `path` and read its fields, which are those of `form`.

    Both notations of the interface are taken: a field `value` with the JSON object, or the fields
    `name` and `collections` (repeated, or one JSON array), each with a file part named `file`. The
    file is synchronised to the disk; after an error nothing is there.

    Raises:
        RefusedRequestError: 400, the form is not what the interface asks for.
    """
    boundary = parse_options_header(request.headers.get("content-type"))[1].get(b"boundary")
    if not boundary:
        raise invalid("the content type multipart/form-data needs a boundary")
    partial = path.with_suffix(".part")
    try:
        with partial.open("wb") as file:
            read = await _read_form(request.stream(), boundary, file)
            await run_in_threadpool(synchronise_file, file)
        sent = _sent(read, path, form)
        partial.rename(path)
        await run_in_threadpool(synchronise_folder, path.parent)
    finally:
        partial.unlink(missing_ok=True)
    return sent


async def _read_form(stream: AsyncIterator[bytes], boundary: bytes, file: BinaryIO) -> "_Form":
    form = _Form(file)
    try:
        parser = MultipartParser(boundary, form.callbacks())
        async for chunk in stream:
            if chunk:
                await run_in_threadpool(parser.write, chunk)
        parser.finalize()
    except FormParserError as error:
        raise invalid(f"the body is not multipart/form-data: {error}") from None
    except ClientDisconnect:
        # Nobody reads this; as an error of ours, it would be in the log as a fault.
        raise invalid("the client hung up before the end of the form") from None
    if not form.ended:
        raise invalid("the multipart/form-data body ends before its last boundary")
    return form


class _Form:
    """Collects what the parser reports: fields in memory, the file part into `file`."""

    def __init__(self, file: BinaryIO) -> None:
        self.fields: list[tuple[str, bytes]] = []
        self.filename: str | None = None
        self.content_type: str | None = None
        self.ended = False
        self.digest = hashlib.sha256()
        self._file = file
        self._size = self._parts = 0
        self._header_name = b""
        self._header_value = b""
        self._headers: dict[bytes, bytes] = {}
        self._name = ""
        self._value = bytearray()

    def callbacks(self) -> Any:
        """The methods that are named as what the parser reports."""
        return {name: getattr(self, name) for name in dir(self) if name.startswith("on_")}

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > _MAX_FIELDS:
            raise invalid(f"the form's fields are larger than {_MAX_FIELDS:,} bytes together")

    def on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise invalid(f"the form has more than {_MAX_PARTS:,} parts")
        self._headers = {}
        self._value = bytearray()

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._count(end - start)
        self._header_name += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._count(end - start)
        self._header_value += data[start:end]

    def on_header_end(self) -> None:
        self._headers[self._header_name.lower()] = self._header_value
        self._header_name = self._header_value = b""

    def on_headers_finished(self) -> None:
        disposition = self._headers.get(b"content-disposition", b"").decode("latin-1")
        options = parse_options_header(disposition)[1]
        self._name = _decoded(options.get(b"name", b""))
        if self._name == _FILE:
            if self.filename is not None:
                raise invalid("the form has two parts named `file`; a source is one file")
            self.filename = _filename(options.get(b"filename", b""))
            content_type = self._headers.get(b"content-type")
            self.content_type = _decoded(content_type) if content_type else None

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._name == _FILE:
            content = memoryview(data)[start:end]
            self._file.write(content)
            self.digest.update(content)
            return
        self._count(end - start)
        self._value += data[start:end]

    def on_part_end(self) -> None:
        if self._name != _FILE:
            self.fields.append((self._name, bytes(self._value)))

    def on_end(self) -> None:
        self.ended = True


def _sent(read: _Form, path: Path, form: type[_New]) -> tuple[Sent, _New]:
    if read.filename is None:
        raise invalid("the form has no part named `file`")
    try:
        source = form.model_validate(_source_fields(read.fields))
    except ValidationError as error:
        raise invalid(sentences(error.errors(include_input=False, include_url=False))) from None
    sent = Sent(
        source.name,
        source.collections,
        Material(
            file=path.name,
            filename=read.filename or source.name,
            content_type=read.content_type,
        ),
        digest=read.digest.hexdigest(),
    )
    return sent, source


def _source_fields(fields: list[tuple[str, bytes]]) -> object:
    values = [value for name, value in fields if name == "value"]
    if values:
        return _parsed(values[-1], "value")
    found: dict[str, object] = {
        name: _text(value, name) for name, value in fields if name == "name"
    }
    collections = [value for name, value in fields if name in {"collections", "collections[]"}]
    if len(collections) == 1 and collections[0].lstrip().startswith(b"["):
        found["collections"] = _parsed(collections[0], "collections")
    elif collections:
        found["collections"] = [_text(value, "collections") for value in collections]
    return found


def _parsed(value: bytes, field: str) -> object:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise invalid(f"the form field `{field}` is not JSON in UTF-8") from None


def _text(value: bytes, field: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise invalid(f"the form field `{field}` is not UTF-8") from None


def _filename(value: bytes) -> str:
    # These three are escaped, and no others (HTML standard, multipart/form-data encoding).
    name = _decoded(value).replace("%22", '"').replace("%0D", "").replace("%0A", "")
    return name.replace("\x00", "").rpartition("/")[2]


def _decoded(value: bytes) -> str:
    # The library hands options on as Latin-1 bytes of what were UTF-8 bytes.
    return value.decode("utf-8", "replace")
