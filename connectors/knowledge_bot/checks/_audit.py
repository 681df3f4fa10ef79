"""`audit` and `aaudit`: which documents of an origin a bot does not find.

Nobody writes a question: the rarest words of a document's most distinctive sentences are asked, and
an answer has to hold such a sentence. What the service has written down of its sources (extensions
`sync` and `sources`) is believed where it says that something is missing, old or unreadable, and
for what cannot be read here.
"""

import asyncio
import contextlib
import math
import random
import threading
import time
from collections.abc import AsyncIterable, Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from knowledge_bot._answers import Answer
from knowledge_bot._client import AsyncClient, Client
from knowledge_bot._endpoints import check_number, identifier
from knowledge_bot._threads import in_own_loop, in_thread
from knowledge_bot.checks._bots import check_bot, check_client
from knowledge_bot.checks._coverage import Audit, AuditedDocument, Finding
from knowledge_bot.checks._report import OnProgress, Progress
from knowledge_bot.checks._sentences import Corpus, holds, letters, sentences, words
from knowledge_bot.errors import (
    BadRequestError,
    ConfigurationError,
    KnowledgeBotError,
    NotFoundError,
)

if TYPE_CHECKING:
    from knowledge_bot.models import Passage, SourceDetails, SyncEntry

# Sentences of a document that are asked for, and passages that are looked at: by the rarest words
# of a sentence, and by the whole of it.
_SENTENCES = 2
_PASSAGES = 5
_MORE_PASSAGES = 20

# Words of a document that says nothing of its own, with which it is asked for by its name.
_NAMED_BY = 12

_ATTEMPTS = 3

_KNOWN = "audit takes a Client, aaudit an AsyncClient"


class AuditOptions(TypedDict, total=False):
    """How an audit runs: the options of `audit` and `aaudit`.

    Attributes:
        sample: how many documents are judged, taken at random each time; None: all.
        budget: the most messages that are sent, where the bot is asked by messages: one or two for
            each document. None: as many as it takes.
        min_coverage: the share of the documents that has to be found for `Audit.ok`, 0 to 1.
        concurrency: how many requests may be under way.
        on_progress: called with how far it is: before the first question, and after each document.
    """

    sample: int | None
    budget: int | None
    min_coverage: float
    concurrency: int
    on_progress: OnProgress | None


def audit(client: Client, bot_id: str, origin: Any, **options: Unpack[AuditOptions]) -> Audit:
    """Find out which documents of an origin a bot does not find.

    A document is found if the bot can say two of its sentences: by `search` where the service
    announces `passages`, else by messages, each of which leaves a conversation; then one of the two
    is enough. How many there will be at most, the first call of `on_progress` says, and `budget`
    bounds it. It blocks, and may be called from a running event loop's thread.

    Args:
        client: asks the service.
        bot_id: the bot, `bot_…`.
        origin: what `ingest` takes, such as a `knowledge_bot.origins.Folder`.
        options: `sample`, `budget` and the others of `AuditOptions`: for their meaning, see
            `help(knowledge_bot.checks.AuditOptions)`.

    Returns:
        The documents, each with what became of it, and the share of those that were found.

    Raises:
        ConfigurationError: an argument cannot be used, or the origin has no documents.
        KnowledgeBotError: the service cannot be asked, or has no such bot.
        Exception: what the origin or a callback raised.
    """
    check_client(Client, client, _KNOWN)
    run = _Run(client, in_thread, bot_id, origin, **options)

    def interrupted(error: BaseException, _: Future[Audit]) -> None:
        run.ended.set()
        raise error

    with client._run_span("audit") as counted:  # noqa: SLF001 - the core's own
        found = in_own_loop(run.audit, "audit", interrupted)
        counted(found.counts)
    return found


async def aaudit(
    client: AsyncClient, bot_id: str, origin: Any, **options: Unpack[AuditOptions]
) -> Audit:
    """Audit as `audit` does, without blocking; items may be an asynchronous iterable.

    Arguments, result and errors are those of `audit`.
    """
    check_client(AsyncClient, client, _KNOWN)
    run = _Run(client, lambda function, *given: function(*given), bot_id, origin, **options)
    with client._run_span("audit") as counted:  # noqa: SLF001 - as above
        found = await run.audit()
        counted(found.counts)
    return found


@dataclass(slots=True)
class _Candidate:
    """A document while it is judged.

    Attributes:
        place: where it comes in the origin.
        item: the item; None of what the origin could not read.
        text: what it says; None where that cannot be read here.
        reason: why it cannot be.
        entry: what the service has written down of it, where it keeps the book.
        wanted: the sentences that the bot has to say.
        left: how many messages are kept for it.
    """

    place: int
    key: str
    name: str
    item: Any = None
    text: str | None = None
    reason: str = ""
    entry: "SyncEntry | None" = None
    wanted: list[str] = field(default_factory=list)
    left: int = 0

    def judged(self, outcome: Finding, reason: str = "") -> AuditedDocument:
        return AuditedDocument(self.key, self.name, outcome, reason)


@dataclass
class _Run:
    """One audit.

    Attributes:
        call: calls a function that uses the client, and awaits what it returns.
        ended: set by another thread: nothing more is asked.
    """

    client: Any
    call: Any
    bot_id: str
    origin: Any
    sample: int | None = None
    budget: int | None = None
    min_coverage: float = 0.98
    concurrency: int = 4
    on_progress: OnProgress | None = None
    ended: threading.Event = field(default_factory=threading.Event, init=False)

    def __post_init__(self) -> None:
        from knowledge_bot.ingest._feeding import RunOrigin

        check_number("min_coverage", self.min_coverage, 0, 1)
        check_number("concurrency", self.concurrency, 1, whole=True)
        for name, least in (("sample", 1), ("budget", _SENTENCES)):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), least, whole=True)
        if self.on_progress is not None and not callable(self.on_progress):
            raise ConfigurationError.expected("on_progress", "a function", self.on_progress)
        identifier("bot_id", self.bot_id, "bot_")
        self._place = RunOrigin(self.origin, None, ["the origin"])
        self.client._check("audit")  # noqa: SLF001 - the core's own
        self._began = time.monotonic()
        self._asked = 0
        self._room = math.inf  # questions that the budget leaves, and that are kept for no document
        self._judged: dict[int, AuditedDocument] = {}
        self._by_search = self._has_book = self._lists_sources = self._found_any = False
        self._sources_of_book: set[str] = set()

    async def audit(self) -> Audit:
        announced = await self.call(self.client.extensions)
        self._by_search, self._lists_sources = "passages" in announced, "sources" in announced
        documents = await self._documents()
        total = len(documents)
        if all(one.item is None for one in documents):
            why = documents[0].reason if documents else "There are none"
            raise ConfigurationError.of("origin", f"{self._place.name} has no documents. {why}")
        budget = None if self._by_search else self.budget
        self._room = budget or math.inf
        documents = _sampled(documents, self.sample, budget)
        await in_thread(self._read, documents)
        if "sync" in announced:
            await self._look_up(documents)
        documents = _without_twins(documents)
        self._corpus = Corpus(one.text for one in documents if one.text)
        for one in documents:
            one.wanted = self._corpus.distinctive(one.text or "", _SENTENCES)
        most = int(min(self._room, sum(map(self._needed, documents))))
        self._far = Progress(len(documents), 0, len(documents), 0, 0.0, most=most)
        self._tell()
        await self._judge_all(documents)
        return Audit(
            documents=tuple(self._judged[place] for place in sorted(self._judged)),
            bot_id=self.bot_id,
            origin=self._place.name,
            total=total,
            ways="search" if self._by_search else "messages",
            asked=self._asked,
            min_coverage=self.min_coverage,
            duration=time.monotonic() - self._began,
        )

    def _tell(self, *judged: AuditedDocument) -> None:
        found = sum(one.outcome is Finding.FOUND for one in judged)
        self._far = replace(
            self._far,
            passed=self._far.passed + found,
            open=self._far.open - len(judged),
            asked=self._asked,
            elapsed=time.monotonic() - self._began,
        )
        if self.on_progress is not None:
            self.on_progress(self._far)

    # What the origin has --------------------------------------------------------------------------

    async def _documents(self) -> list[_Candidate]:
        """Return what the origin holds; what is left out of it on purpose is no document."""
        from knowledge_bot.origins._origin import NoMemory

        self._place.listed = False  # items are read here, and not compared
        return [*_numbered(await _all_of(await in_thread(self._place.items, NoMemory())))]

    def _read(self, documents: list[_Candidate]) -> None:
        from knowledge_bot.origins._documents import UnreadableError
        from knowledge_bot.origins._texts import TextReader

        with contextlib.closing(TextReader(self.origin)) as reader:
            for one in documents:
                if one.item is None or self.ended.is_set():
                    continue
                try:
                    text = reader.text(one.item)
                except (OSError, UnreadableError) as error:
                    one.item, one.reason = None, _unread(error)
                else:
                    one.text = text if text and letters(text) else None

    async def _look_up(self, documents: list[_Candidate]) -> None:
        """Note what the service has written down, if it knows the origin."""
        name = self._place.name
        self._has_book = (await self.call(self.client.compare_origin, name)).known
        if self._has_book:
            book = {one.key: one for one in await self.call(self.client.list_entries, name)}
            self._sources_of_book = {one.source_id for one in book.values()}
            for one in documents:
                one.entry = book.get(one.key)

    # What the bot finds ---------------------------------------------------------------------------

    def _needed(self, one: _Candidate) -> int:
        """Return how often the bot is asked for a document at most."""
        if one.wanted:  # by search once more for each that is not among the first passages
            return len(one.wanted) * (2 if self._by_search else 1)
        if one.entry is not None:
            return int(self._by_search)
        return int(bool(one.text) and not self._has_book and not self._lists_sources)

    async def _judge_all(self, documents: list[_Candidate]) -> None:
        waiting = sorted(documents, key=lambda one: not one.wanted)  # what those show helps others
        workers = [asyncio.create_task(self._work(waiting)) for _ in range(self.concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for one in workers:
                one.cancel()

    async def _work(self, waiting: list[_Candidate]) -> None:
        """Judge what the budget has room for, also with what others left of it meanwhile."""
        while not self.ended.is_set():
            one = next((one for one in waiting if self._needed(one) <= self._room), None)
            if one is None:
                return
            waiting.remove(one)
            one.left = self._needed(one)
            self._room -= one.left
            judged = self._judged[one.place] = await self._judge(one)
            self._room += one.left
            self._tell(judged)

    async def _judge(self, one: _Candidate) -> AuditedDocument:
        if one.reason:
            return one.judged(Finding.UNREADABLE, one.reason)
        if one.entry is not None and (known := await self._by_the_book(one, one.entry)):
            return known
        return await (self._by_asking if one.wanted else self._by_what_is_said)(one)

    async def _by_what_is_said(self, one: _Candidate) -> AuditedDocument:
        """Judge a document without sentences of its own, by what the service says of its source."""
        if (known := await self._sources(one)) is not None:
            return one.judged(*_of_status(*known[:1]))
        if one.text:
            return await self._by_its_name(one, one.text)
        reason = "Its text cannot be read here, and the service does not say what became of it."
        return one.judged(Finding.UNREADABLE, reason)

    async def _by_the_book(self, one: _Candidate, entry: "SyncEntry") -> AuditedDocument | None:
        """Judge a document by what the service has written down; None where only asking shows."""
        if entry.status != "failed":
            if entry.digest.startswith("sha256:"):
                try:
                    digest = await in_thread(one.item.content_digest)
                except OSError as error:  # it was there a moment ago
                    return one.judged(Finding.UNREADABLE, _unread(error))
                if entry.digest != f"sha256:{digest.hex()}":
                    return one.judged(Finding.OLD, "The service holds another version of it.")
            if one.wanted:
                return None
        judged = one.judged(*_of_status(entry))
        if judged.outcome is Finding.FOUND and self._by_search and not await self._sees(one):
            reason = (
                "The service has read it, but the bot does not find it, nor what was fed with it."
            )
            return one.judged(Finding.MISSING, reason)
        return judged

    async def _sees(self, one: _Candidate) -> bool:
        """Return whether the bot finds a source by its name, or has found another of the origin.

        What stands in it cannot be asked here, and a bot may read other collections.
        """
        if not self._found_any:
            await self._passages(one.name, _MORE_PASSAGES)
        return self._found_any

    async def _by_its_name(self, one: _Candidate, text: str) -> AuditedDocument:
        """Judge a document that says nothing of its own, by whether the bot names it."""
        query = " ".join([one.name, *words(text)[:_NAMED_BY]])
        first = [*sentences(text)[:1]]
        is_held, names_it = await self._asked_for(one, query, *(first or [text]))
        if names_it and (is_held or not first):
            return one.judged(Finding.FOUND)
        reason = "It says nothing that no other document says, and the bot does not name it so."
        return one.judged(Finding.OLD if names_it else Finding.MISSING, reason)

    async def _sources(self, one: _Candidate) -> "Sequence[SyncEntry | SourceDetails] | None":
        """Return a document's sources, the newest first; None where the service does not say."""
        if self._has_book:
            return [one.entry] if one.entry else []
        if not self._lists_sources:
            return None
        found: list[SourceDetails] = await self.call(self.client.list_sources, one.name)
        return found

    async def _by_asking(self, one: _Candidate) -> AuditedDocument:
        wanted, held, there = one.wanted, 0, False
        enough = len(wanted) if self._by_search else 1
        for sentence in wanted:
            question = self._corpus.question(sentence)
            is_held, names_it = await self._asked_for(one, question, sentence)
            if self._by_search and not is_held:
                is_held, too = await self._searched(one, sentence, sentence, _MORE_PASSAGES)
                names_it |= too
            held += is_held
            there |= names_it
            if held == enough:
                return one.judged(Finding.FOUND)
        if not there and (known := await self._sources(one)) is not None:
            if not known or known[0].status != "ready":
                return one.judged(*_of_status(*known[:1]))
            there = not self._has_book
        lacking = (
            f"The bot was asked for {len(wanted)} of its sentences, and said {held or 'none'}."
        )
        return one.judged(Finding.OLD if there else Finding.MISSING, lacking)

    async def _asked_for(self, one: _Candidate, question: str, sentence: str) -> tuple[bool, bool]:
        """Return whether the bot says a sentence, and whether it names the document."""
        if self._by_search:
            return await self._searched(one, question, sentence, _PASSAGES)
        one.left -= 1
        said = Answer.of(
            await self._request(self.client.send_message, bot_id=self.bot_id, content=question)
        )
        texts = [said.text, *(passage.text for passage in said.cited)]
        return holds(texts, sentence), said.names(one.name)

    async def _searched(
        self, one: _Candidate, query: str, sentence: str, limit: int
    ) -> tuple[bool, bool]:
        found = await self._passages(query, limit)
        by_source: dict[str, str] = {}  # a sentence may begin in one passage and end in another
        for passage in found:
            before = by_source.get(passage.source_id, "")
            by_source[passage.source_id] = f"{before}\n{passage.text}"
        is_held = holds(by_source.values(), sentence)
        return is_held, is_held or any(passage.name == one.name for passage in found)

    async def _passages(self, query: str, limit: int) -> "list[Passage]":
        found: list[Passage] = await self._request(
            self.client.search, query, bot_id=self.bot_id, limit=limit
        )
        self._found_any |= any(one.source_id in self._sources_of_book for one in found)
        return found

    async def _request(self, function: Callable[..., Any], *given: Any, **more: Any) -> Any:
        """Ask the service, again where that may help: a question changes nothing.

        Raises:
            KnowledgeBotError: it cannot be asked, or has no such bot.
        """
        for attempt in range(_ATTEMPTS):
            self._asked += 1
            try:
                return await self.call(lambda: function(*given, **more))
            except (BadRequestError, NotFoundError) as error:
                await check_bot(self.bot_id, self.client, self.call, error)
                raise
            except KnowledgeBotError as error:
                if not error.may_pass or attempt + 1 == _ATTEMPTS or self._room < 1:
                    raise
                self._room -= 1
        raise AssertionError("unreachable")


def _unread(error: Exception) -> str:
    return f"It cannot be read here: {getattr(error, 'strerror', None) or error}."


async def _all_of(several: Any) -> list[Any]:
    if isinstance(several, AsyncIterable):
        return [one async for one in several]
    return await in_thread(list, several)


def _numbered(items: list[Any]) -> Iterator[_Candidate]:
    from knowledge_bot.ingest import File, Skipped, Text, WebPage

    for place, item in enumerate(items):
        if isinstance(item, Skipped):
            if item.invalid or item.partial:
                reason = f"It cannot be read here: {item.reason.rstrip('.')}."
                yield _Candidate(place, item.name, item.name, reason=reason)
        elif isinstance(item, File | Text | WebPage):
            name = (
                item.name if not isinstance(item, File) else item.name or PurePath(item.path).name
            )
            yield _Candidate(place, item.identity, name, item)
        else:
            raise ConfigurationError.expected("origin", "an origin of items", item)


def _sampled(
    documents: list[_Candidate], sample: int | None, budget: int | None
) -> list[_Candidate]:
    """Return as many documents as are judged, in any order where they are not all."""
    count = min(one for one in (len(documents), sample, budget) if one)
    if count == len(documents) and (budget is None or budget >= _SENTENCES * count):
        return documents
    return random.sample(documents, count)


def _without_twins(documents: list[_Candidate]) -> list[_Candidate]:
    """Return the documents, of several that say the same the one that the service has."""
    kept: dict[bytes | int, _Candidate] = {}
    for one in documents:  # a digest, since all texts are held already
        said = sha256(letters(one.text).encode()).digest() if one.text else one.place
        if said not in kept or (kept[said].entry is None and one.entry is not None):
            kept[said] = one
    return [*kept.values()]


def _of_status(source: "SyncEntry | SourceDetails | None" = None) -> tuple[Finding, str]:
    """Return what the service says of a document for whose sentences it cannot be asked."""
    if source is None:
        return Finding.MISSING, "The service has no source of it."
    if source.status == "failed":
        reason = (source.reason or "it does not say why").rstrip(".")
        return Finding.UNREADABLE, f"The service could not read it: {reason}."
    if source.status == "ready":
        return (
            Finding.FOUND,
            "The service has read it; nothing that it alone says can be asked here.",
        )
    return Finding.MISSING, f"The service has not read it yet: its source is {source.status}."
