"""Receiving an upload: its form, whose file goes to the disk."""

import hashlib
import json
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from fastapi import Request
from pydantic import ValidationError
from python_multipart.exceptions import FormParserError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from knowledge_bot_service.config.refusals import invalid
from knowledge_bot_service.store.material import writing
from knowledge_bot_service.store.sources import Material
from knowledge_bot_service.web.problems import sentences
from knowledge_bot_service.web.requests import MOST_COLLECTIONS, NewSource
from knowledge_bot_service.work.knowledge_base import Sent

# The form's parts beside the file: a name and as many collections as a source can have.
_MOST_FIELDS: Final = MOST_COLLECTIONS + 10

_CHUNK: Final = 1024 * 1024

_New = TypeVar("_New", bound=NewSource)


async def receive_upload(request: Request, path: Path, form: type[_New]) -> tuple[Sent, _New]:
    """Write a form's file to `path` and read its fields, which are those of `form`.

    Both notations of the interface are taken: a field `value` with the JSON object, or the fields
    `name` and `collections` (repeated, or one JSON array), each with a file part named `file`. The
    file is synchronised to the disk; after an error nothing is there.

    Raises:
        RefusedRequestError: 400, the form is not what the interface asks for.
    """
    parser = MultiPartParser(
        request.headers, request.stream(), max_files=1, max_fields=_MOST_FIELDS
    )
    try:
        received = await parser.parse()
    except (MultiPartException, FormParserError) as error:  # Starlette before 1.8 lets it through
        raise invalid(f"the body is no form with one part named `file`: {error}") from None
    except ClientDisconnect:
        # Nobody reads this; as an error of ours, it would be in the log as a fault.
        raise invalid("the client hung up before the end of the form") from None
    try:
        file = received.get("file")
        if not isinstance(file, UploadFile):
            raise invalid("the form has no part named `file` with a filename")
        source = form.model_validate(_source_fields(received))
        digest = await run_in_threadpool(_write, file.file, path)
    except ValidationError as error:
        raise invalid(sentences(error.errors(include_input=False, include_url=False))) from None
    finally:
        await received.close()
    filename = (file.filename or "").replace("\x00", "").rpartition("/")[2] or source.name
    material = Material(file=path.name, filename=filename, content_type=file.content_type)
    return Sent(source.name, source.collections, material, digest=digest), source


def _write(file: BinaryIO, path: Path) -> str:
    """Write a file durably; returns its SHA-256."""
    digest = hashlib.sha256()
    with writing(path) as written:
        while chunk := file.read(_CHUNK):
            written.write(chunk)
            digest.update(chunk)
    return digest.hexdigest()


def _source_fields(form: FormData) -> object:
    if (value := form.get("value")) is not None:
        return _parsed(value, "value")
    collections = [*form.getlist("collections"), *form.getlist("collections[]")]
    found = {name: form[name] for name in ("name",) if name in form}
    if len(collections) == 1 and str(collections[0]).lstrip().startswith("["):
        return {**found, "collections": _parsed(collections[0], "collections")}
    return {**found, "collections": collections} if collections else found


def _parsed(value: object, field: str) -> object:
    try:
        return json.loads(str(value))
    except (ValueError, RecursionError):
        raise invalid(f"the form field `{field}` is not JSON in UTF-8") from None
