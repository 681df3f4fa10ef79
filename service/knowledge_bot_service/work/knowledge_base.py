"""The service without HTTP: takes sources, answers questions, stores both."""

import asyncio
import contextlib
import copy
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Self, TypeVar

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from knowledge_bot.models import Bot, Collection, Header
from knowledge_bot_service.answers.answerer import (
    AnsweredMessage,
    ModelFailedError,
    WordedAnswer,
    answer,
)
from knowledge_bot_service.answers.conversations import (
    AskedQuestion,
    ConversationStore,
    asked_in,
)
from knowledge_bot_service.answers.finding import Finder, RankedPassages
from knowledge_bot_service.config.folder import DataFolder
from knowledge_bot_service.config.keys import Key
from knowledge_bot_service.config.refusals import (
    RefusedRequestError,
    StorageError,
    UnknownError,
    invalid,
)
from knowledge_bot_service.config.settings import ServiceConfiguration
from knowledge_bot_service.index.search import Hit, Search
from knowledge_bot_service.store.catalog import Catalog, Removal
from knowledge_bot_service.store.database import ServiceDatabase, new_id, now
from knowledge_bot_service.store.idempotency import IdempotentRequests, Keyed
from knowledge_bot_service.store.material import write_headers, write_text
from knowledge_bot_service.store.origins import (
    Completing,
    Origins,
    Overlap,
    Put,
    Touch,
    TouchedEntry,
    ask_again,
)
from knowledge_bot_service.store.sources import (
    Accepted,
    Kind,
    Material,
    Outcome,
    SourceStore,
    StoredSource,
    collections_of,
    find_job,
    recover,
    unfinished_files,
)
from knowledge_bot_service.work.worker import SMALL, Workers

if TYPE_CHECKING:
    from knowledge_bot_service.answers.language_model import LanguageModel

T = TypeVar("T")

# A longer text goes to a file of its own, since one writer serves everybody: in characters.
_LONG_TEXT: Final = 256 * 1024

QUESTION_LENGTH: Final = 20_000
"""How long a question may be, in characters; a transcript or a prompt around it may be longer."""

# What the ids of conversations look like; see `store.database.new_id`.
_CONVERSATION_ID: Final = re.compile(r"conv_[0-9a-f]{24}")

# The digest of a put that says what it is of.
_SHA256: Final = re.compile(r"sha256:([0-9A-Fa-f]{64})")

# Where more sources are unfinished, many come in at once, and no question waits.
_MOST: Final = 32

# How many questions are answered at the same time; the others wait in their order. More threads
# answer no sooner: each keeps the interpreter from the others, and from the thread that takes
# requests. Measured with 200 clients at once on two cores: with forty, a ping took five times as
# long.
_ANSWERING: Final = max(2, min(4, os.cpu_count() or 1))

# How long a conversation's name, its first question, may be: in characters.
_NAME_LENGTH: Final = 80


@dataclass(frozen=True, slots=True)
class Sent:
    """A source that is sent.

    Attributes:
        name: what lists and answers call it.
        collections: the ids of those that it is for.
        material: what it is made from; a file is at a `new_material_path`.
        headers: what is sent with the request for a page.
        digest: the SHA-256 of a file.
    """

    name: str
    collections: Sequence[str]
    material: Material
    headers: Sequence[Header] = field(default=(), repr=False)
    digest: str = ""

    @property
    def kind(self) -> Kind:
        """How it comes in."""
        if self.material.url is not None:
            return Kind.WEBPAGE
        return Kind.FILE if self.material.content is None else Kind.TEXT

    @property
    def sha256(self) -> str:
        """The SHA-256 of the text or the file; of the address of a page, whose text is not here."""
        text = self.material.url or self.material.content
        return self.digest if text is None else hashlib.sha256(text.encode()).hexdigest()

    @property
    def made_of(self) -> str:
        """What it is made of: a digest, its kind, and the suffix of a file, which says how to read.

        Sources that are made of the same have the same text.
        """
        suffix = PurePosixPath(self.material.filename or "").suffix.lower()
        return f"{self.sha256} {self.kind}{suffix}"

    @property
    def parts(self) -> dict[str, object]:
        """What tells it from others, as `fingerprint` takes it."""
        more: dict[str, object] = {"content": self.sha256}
        if self.kind is Kind.WEBPAGE:
            headers = [(one.name, one.value) for one in self.headers]
            more = {"url": self.material.url, "headers": headers}
        elif self.kind is Kind.FILE:
            more["filename"] = self.material.filename
        return {"name": self.name, "collections": sorted(set(self.collections)), **more}


class Backlog:
    """The unfinished small sources.

    The interface has no way to ask for a source's status (section 3): a client that adds a source
    and asks about it at once, over this connection or another, relies on the service to wait.
    Nobody else should wait for it. So a question waits for a source only

    - that is a small text or file, not a web page or a long document;
    - in the first seconds after it was accepted;
    - unless so many are unfinished that it is a bulk ingestion, which holds no question.

    Every method belongs to the event loop's thread; nothing here asks the database.
    """

    def __init__(self) -> None:
        self._unfinished: dict[str, tuple[frozenset[int], float]] = {}
        self._changed = asyncio.Event()

    def add(self, source: str, collections: Iterable[int]) -> None:
        """A small source is about to be stored."""
        self._unfinished[source] = frozenset(collections), asyncio.get_running_loop().time()

    def remove(self, source: str) -> None:
        """The source is ready, has failed, was not stored, or takes long after all."""
        self._unfinished.pop(source, None)
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, collections: Iterable[int], seconds: float) -> None:
        """Wait for the sources that are here now, in these collections.

        Each is waited for so many seconds after it was accepted.
        """
        if len(self._unfinished) > _MOST:
            return
        asked_for = {*collections}
        ends = {
            source: accepted + seconds
            for source, (its, accepted) in self._unfinished.items()
            if not its.isdisjoint(asked_for)
        }
        while awaited := ends.keys() & self._unfinished.keys():
            try:
                async with asyncio.timeout_at(max(ends[source] for source in awaited)):
                    await self._changed.wait()
            except TimeoutError:
                return


class KnowledgeBase:
    """What a service knows. Make and use it inside one event loop; leave it as a context manager.

    The database is closed when the service is left. Without a `writer` answers are quotes; `count`
    is called with the outcome of each question: `answered`, `not_found` or `failed`.

    Attributes:
        settings: what it was started with.
        collections: those that are seen here, by their ids.
        bots: those that are seen here.
        once: does what requests with idempotency keys ask for.
        scope: what tells the requests with keys of one view from those of another.
        catalog: the sources, as they are seen here.
        origins: what origins hold, as it is seen here.
        workers: who processes the sources.
    """

    def __init__(
        self,
        settings: ServiceConfiguration,
        folder: DataFolder,
        database: ServiceDatabase,
        writer: "LanguageModel | None" = None,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.settings = settings
        self._count = count
        self._material = folder.material
        self._database = database
        self._store = SourceStore(database, [collection.id for collection in settings.collections])
        self._offer(settings, sees_all=True)
        self.scope = ""
        self._backlog = Backlog()
        self._conversations = ConversationStore(self._database)
        self.once = IdempotentRequests(self._database)
        self._removal = Removal(self._database, folder.material)
        self._search = Search(self._database)
        self._finder = Finder(self._search)
        self._answering = ThreadPoolExecutor(_ANSWERING, "answering")
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self.workers = Workers(
            self._database,
            folder=folder.material,
            policy=settings.fetch_policy,
            count=settings.workers,
            on_done=self._on_done,
        )

    def _offer(self, settings: ServiceConfiguration, *, sees_all: bool) -> None:
        self.collections = {
            collection.id: Collection(id=collection.id, name=collection.name)
            for collection in settings.collections
        }
        self.bots = [Bot(id=bot.id, name=bot.name) for bot in settings.bots]
        self._read_by = {bot.id: self._store.numbers_of(bot.collections) for bot in settings.bots}
        self.catalog = Catalog(self._database, self.collections, sees_all=sees_all)
        self.origins = Origins(self._database, self.collections, sees_all=sees_all)

    def seen_by(self, key: Key) -> "KnowledgeBase":
        """The same service, without the bots, collections and sources that are hidden from a key.

        What asks for one of these is answered as if it was not there.
        """
        if not key.is_limited:
            return self
        seen = copy.copy(self)
        seen._offer(key.limit(self.settings), sees_all=False)  # noqa: SLF001 - its own class
        seen.scope = json.dumps([[bot.id for bot in seen.bots], [*seen.collections]])
        return seen

    def __enter__(self) -> Self:
        self._database.run(ask_again)
        connection = self._database.reader()
        for public_id in self._database.run(recover):
            if job := find_job(connection, public_id):
                size = self._size_of(job.material)
                if _is_soon_ready(size):
                    self._backlog.add(public_id, collections_of(connection, job.source))
                self.workers.add(public_id, size)
        self._remove_orphans()
        self._removal.start()
        self.workers.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._answering.shutdown()
        self.workers.stop()
        self._removal.stop()
        self._database.close()

    def conversations_of(self, bot: str) -> ConversationStore:
        """The conversations of all bots, once it is clear that this one is seen here.

        Raises:
            UnknownError: there is no such bot.
        """
        self._bot(bot)
        return self._conversations

    async def check_source(self, source: str, *, changes: bool) -> None:
        """Check that a source may be read here, or changed; one that is not there may pass.

        Raises:
            UnknownError: it is hidden: none of its collections is seen here, or of those that its
                replacement is to be in.
            RefusedRequestError: it is to be changed, and not all of them are.
        """
        if self.catalog.sees_all:
            return
        found = await run_in_threadpool(self.catalog.collections_of, source)
        if not found or any(one.isdisjoint(self.collections) for one in found):
            raise UnknownError("source", source)
        if changes and not all(one.issubset(self.collections) for one in found):
            # Not a 404: a client would take the source for deleted.
            raise RefusedRequestError(
                HTTPStatus.FORBIDDEN,
                "forbidden",
                f"The source {source} is also in a collection that the request's key does not see. "
                "Nothing was done. Use a key that sees all of its collections.",
            )

    async def delete_source(self, source: str) -> None:
        """Delete a source: no question sees it any more when this returns.

        Its passages and its upload are removed afterwards. Conversations that cite it stay.

        Raises:
            UnknownError: there is no such source.
        """
        await self._removing(self._store.delete(source))

    async def delete_origin(self, origin: str) -> None:
        """Delete an origin with its sources, as `delete_source` does; errors: `Origins.delete`."""
        await self._removing(self.origins.delete(origin))

    async def complete(self, completing: Completing) -> str:
        """Note what a run of an origin missed, and decide; returns the body of the answer."""
        return await self._removing(self.origins.complete(completing))

    async def _removing(self, writing: Future[T]) -> T:
        # The write itself wakes the removal: the client may hang up and end this coroutine.
        writing.add_done_callback(lambda _: self._removal.notify())
        return await asyncio.wrap_future(writing)

    async def touch(self, origin: str, touches: Sequence[Touch]) -> list[TouchedEntry]:
        """Touch entries of an origin; returns the outcome of each.

        Raises:
            UnknownError: one of the collections is not here.
            RefusedRequestError: an entry is not to be changed here.
        """
        numbers = [
            None
            if one.collections is None
            else self._store.numbers_of(some.id for some in self._expand(one.collections))
            for one in touches
        ]
        return await asyncio.wrap_future(self.origins.touch(origin, touches, numbers))

    async def overlap(
        self, origin: str, names: Sequence[str], collections: Sequence[str]
    ) -> list[Overlap]:
        """How many of these names other origins have; see `Origins.overlap`.

        Raises:
            UnknownError: one of the collections is not here.
        """
        self._expand(collections)
        return await run_in_threadpool(self.origins.overlap, origin, names, collections)

    def new_material_path(self) -> Path:
        """A fresh place for an upload."""
        return self._material / new_id("upload_")

    async def forget(self, sent: Sent) -> None:
        """Remove the file of a source that is not to be added after all."""
        if sent.material.file is not None:
            await run_in_threadpool((self._material / sent.material.file).unlink)

    async def put(self, sent: Sent, put: Put) -> tuple[Outcome, StoredSource]:
        """Make what is sent the source of an origin's key; returns the outcome with the source.

        Raises:
            RefusedRequestError: 400, it has another digest than is said; or as `Origins.settle`.
        """
        said = _SHA256.fullmatch(put.digest)
        if said and sent.material.url is None and said[1].lower() != sent.sha256:
            await self.forget(sent)
            raise RefusedRequestError(
                HTTPStatus.BAD_REQUEST,
                "digest_mismatch",
                f"Nothing was done: the content has the digest sha256:{sent.sha256}, and the "
                "request says another. It may have changed while it was read; read it again.",
            )
        outcome, source_id, source = await self._accept(sent, put)
        if source is None:
            source = await run_in_threadpool(self.catalog.details, source_id)
        return outcome, source

    async def add(self, sent: Sent, keyed: Keyed | None = None) -> StoredSource:
        """Accept a source, which is fetched and read later.

        Its file is removed, now or when the source is done. With `keyed`, what is done is stored
        with the request's key.

        Raises:
            UnknownError: one of the collections is not here.
            RefusedRequestError: no more sources are allowed.
        """
        _, _, source = await self._accept(sent, keyed)
        assert source is not None  # noqa: S101 - as it is for each that is to be read
        return source

    async def _accept(self, sent: Sent, what: Put | Keyed | None) -> Accepted:
        try:
            collections = self._expand(sent.collections)
        except UnknownError:
            await self.forget(sent)
            raise
        size, material = await self._prepared(sent)
        work = new_id("src_")
        numbers = self._store.numbers_of(one.id for one in collections)
        source = StoredSource(
            id=work,
            name=sent.name,
            collections=collections,
            status="pending",
            created_at=now(),
            revision=new_id("rev_"),
            kind=sent.kind,
            url=sent.material.url,
            origin=what.origin if isinstance(what, Put) else None,
        )
        if _is_soon_ready(size):
            self._backlog.add(work, numbers)
        stored = self._store.accept(
            source=source,
            material=material,
            made_of=sent.made_of,
            quota=self.settings.limits.sources,
            settle=partial(
                self.origins.settle,
                put=what,
                name=sent.name,
                numbers=numbers,
                made_of=sent.made_of,
            )
            if isinstance(what, Put)
            else None,
            done=what.done(work, _answer_of(source)) if isinstance(what, Keyed) else None,
        )
        # The write itself wakes the worker: the client may hang up and end this coroutine.
        stored.add_done_callback(lambda done: self._on_stored(work, material, size, done))
        return await asyncio.wrap_future(stored)

    async def _prepared(self, sent: Sent) -> tuple[int | None, Material]:
        """The size of what is to be read, None where nobody knows, and where it waits."""
        material, content = sent.material, sent.material.content
        size = self._size_of(material)
        if sent.headers or (content is not None and len(content) > _LONG_TEXT):
            path = self.new_material_path()
            if content is None:
                await run_in_threadpool(write_headers, path, sent.headers)
            else:
                await run_in_threadpool(write_text, path, content)
            material = material.model_copy(update={"content": None, "file": path.name})
        return size, material

    def _size_of(self, material: Material) -> int | None:
        if material.url is not None:
            return None
        if material.content is not None:
            return len(material.content)
        try:
            return (self._material / (material.file or "")).stat().st_size
        except OSError:
            return None

    async def ask(
        self, bot: str, content: str, conversation: str | None, keyed: Keyed | None = None
    ) -> AnsweredMessage:
        """Answer a question, in a conversation or as the first of a new one.

        Waits first, for `wait_for_sources` seconds at most, until the small texts and files that
        were accepted just before are ready (`Backlog`). The content is a question, or a transcript
        (`knowledge_bot.transcripts`), which is a question after the turns before it. The answer is
        stored with the request's key, unless the disk is full.

        Raises:
            UnknownError: there is no such bot, or it has no such conversation.
            RefusedRequestError: of a long prompt or transcript, the question is too long.
            ModelFailedError: the model that words the answers gave none. Nothing was stored: no
                conversation has begun or gone on.
        """
        collections = self._bot(bot)
        await self._backlog.wait(collections, self.settings.wait_for_sources)
        asked, worded = await self._loop.run_in_executor(
            self._answering, self._answer, bot, content, conversation, collections
        )
        if self._writer is not None and worded.passages:
            try:
                worded = await self._writer.write(asked, worded.passages)
            except ModelFailedError:
                self._count("failed")
                raise
        message = AnsweredMessage(
            id=new_id("msg_"),
            answer=worded.text,
            conversation_id=conversation or new_id("conv_"),
            created_at=datetime.now(UTC),
            sources=tuple(worded.sources),
            found=worded.found,
        )
        stored = self._conversations.add(
            message,
            bot=bot,
            name=_shortened(asked.question),
            content=content,
            sources=json.dumps([source.model_dump() for source in worded.sources]),
            done=None if keyed is None else keyed.done(message.id, _answer_of(message)),
        )
        # On a full disk an answer is better than none, although its conversation cannot go on.
        with contextlib.suppress(StorageError):
            await asyncio.wrap_future(stored)
        self._count("not_found" if message.found is False else "answered")
        return message

    def _answer(
        self, bot: str, content: str, conversation: str | None, collections: Sequence[int]
    ) -> tuple[AskedQuestion, WordedAnswer]:
        if conversation is None:
            asked = asked_in(content)
        elif self._conversations.exists(bot, conversation):
            asked = asked_in(content, self._conversations.turns(conversation))
        else:
            # What was never an id of a conversation is a bad request; an id may have been one, of a
            # bot or a data folder that is another.
            was_one = _CONVERSATION_ID.fullmatch(conversation)
            status = HTTPStatus.NOT_FOUND if was_one else HTTPStatus.BAD_REQUEST
            raise UnknownError("conversation", conversation, status)
        if len(asked.question) > QUESTION_LENGTH:
            raise invalid(
                f"value.content: its question must have at most {QUESTION_LENGTH:,} characters"
            )
        return asked, answer(asked, self._finder, collections)

    async def search(
        self, query: str, *, bot: str | None, collections: Sequence[str], limit: int
    ) -> RankedPassages:
        """Find the passages that fit a question best; nothing is stored.

        The places to look in are those of `Client.search`; the query may be a prompt that holds the
        question.

        Raises:
            UnknownError: there is no such bot or collection.
        """
        numbers = self._numbers(collections)
        if bot is not None:
            numbers = tuple(one for one in self._bot(bot) if one in numbers)
        await self._backlog.wait(numbers, self.settings.wait_for_sources)
        return await self._loop.run_in_executor(
            self._answering, self._finder.find, asked_in(query), numbers, limit
        )

    async def passage(self, passage: str) -> Hit:
        """A passage that questions are answered from.

        Raises:
            UnknownError: there is none with this id, or not any more.
        """
        hit = await run_in_threadpool(self._search.passage, passage, self._numbers(()))
        if hit is None:
            raise UnknownError("passage", passage)
        return hit

    def _numbers(self, collections: Sequence[str]) -> tuple[int, ...]:
        """The numbers of collections; by default of all, and of those that the bots answer from."""
        if collections:
            return self._store.numbers_of(one.id for one in self._expand(collections))
        numbers = self._store.numbers_of(self.collections)
        return tuple({*numbers, *chain.from_iterable(self._read_by.values())})

    def _on_stored(
        self, work: str, material: Material, size: int | None, stored: Future[Accepted]
    ) -> None:
        outcome, _, source = ("failed", "", None) if stored.exception() else stored.result()
        # What is replaced answers until then, so that no question waits for its replacement.
        if outcome != "created":
            self._on_done(work)
        if source is not None:
            self._removal.notify()
            self.workers.add(work, size)
        elif material.file is not None:
            (self._material / material.file).unlink(missing_ok=True)

    def _on_done(self, source: str) -> None:
        # Of a source that is deleted or replaced something is left.
        self._removal.notify()
        # Called in the writer's and the workers' threads. Once the loop has ended nobody waits.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._backlog.remove, source)

    def _expand(self, collections: Sequence[str]) -> tuple[Collection, ...]:
        for collection in collections:
            if collection not in self.collections:
                raise UnknownError("collection", collection, HTTPStatus.BAD_REQUEST)
        return tuple(self.collections[collection] for collection in dict.fromkeys(collections))

    def _bot(self, bot: str) -> tuple[int, ...]:
        """The numbers of the collections that a bot answers from."""
        if bot not in self._read_by:
            raise UnknownError("bot", bot, HTTPStatus.BAD_REQUEST)
        return self._read_by[bot]

    def _remove_orphans(self) -> None:
        needed = unfinished_files(self._database.reader())
        for path in self._material.iterdir():
            if path.name in needed:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _answer_of(value: BaseModel) -> str:
    """The body of an answer with a value."""
    return f'{{"value":{value.model_dump_json()}}}'


def _is_soon_ready(size: int | None) -> bool:
    return size is not None and size <= SMALL


def _shortened(question: str) -> str:
    name = " ".join(question.split())
    return name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1].rstrip() + "…"
