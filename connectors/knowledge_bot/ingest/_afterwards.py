"""What a run does once everything is sent: it waits until that is ready, and removes what is stale.

Only sources that the ledger knows are ever removed, each on the revision that it knows. A removal
that was cut off is done again by the next run: a source that is not there any more is removed.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from knowledge_bot._endpoints import UNKNOWN_SOURCE
from knowledge_bot._extensions import end_of_life
from knowledge_bot._responses import KEY_REUSED
from knowledge_bot._retries import seconds_to_wait
from knowledge_bot.errors import APIError, KnowledgeBotError, UnsupportedError
from knowledge_bot.ingest._ledger import (
    Entry,
    PrunePlan,
    SupersededSource,
    drop,
    entries_of,
    forget_revision,
    forget_unsent,
    superseded_of,
    withdraw,
)
from knowledge_bot.ingest._limiter import is_away, settles
from knowledge_bot.ingest._report import Kind, Outcome, logger
from knowledge_bot.ingest._store import (
    CHANGED_THERE,
    Batch,
    Gone,
    Row,
    State,
    Store,
    superseded_rows,
)

if TYPE_CHECKING:
    from knowledge_bot._database import Connection
    from knowledge_bot.ingest._limiter import Limiter
    from knowledge_bot.ingest._options import CheckedOptions
    from knowledge_bot.ingest._report import Counters
    from knowledge_bot.ingest._sending import Sender

Removable = Entry | SupersededSource

# How many items of an origin may be removed the first time that they are missed, at least, and as a
# share of all.
_FEW, _SHARE = 5, 0.05

# How many removals are written to the ledger together, and after how many failures in a row no
# other is tried.
_GROUP = 100
_FAILURES = 20

# Seconds by which the clocks of this machine and of the service may differ, and seconds after which
# a request of a process that died has arrived, if it ever does.
_CLOCKS = 300
_ON_ITS_WAY = 2.0

# Seconds between two looks at what is not ready yet: the first, and the longest.
_FIRST_LOOK, _LONGEST_LOOK = 0.1, 2.0

_UNSETTLED = ["pending", "processing", "failed"]


def check_supported(options: "CheckedOptions", extensions: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that a service announces what a run needs of it.

    Raises:
        UnsupportedError: it does not.
    """
    sources = extensions.get("sources")
    if options.wait_ready and sources is None:
        raise UnsupportedError.of(
            "wait_ready",
            "the service does not announce the extension 'sources', so nobody can see what is "
            "ready there. Nothing was sent",
        )
    if options.prune and not callable(options.prune) and not (sources or {}).get("manage"):
        if sources is not None:
            raise UnsupportedError.of(
                "prune",
                "this API key may not delete sources. Nothing was sent. Use one with the role "
                "manage",
            )
        raise UnsupportedError.of(
            "prune",
            "the service does not announce 'sources', so nothing can be removed there. "
            "Nothing was sent. Pass a function that removes a source (`kbot ingest "
            "--prune-command`), or remove by hand what `kbot ledger gone` and `kbot ledger "
            "superseded` list, and then `kbot ledger forget` it",
        )


async def sources_of(sender: "Sender", store: Store, name: str, key: str) -> list[str]:
    """Return the sources of a name that a request with this key may have created.

    Raises:
        KnowledgeBotError: they cannot be listed.
    """
    listed = await sender.call("list_sources", name=name)
    since = end_of_life(key, {}) - _CLOCKS
    young = [one.id for one in listed if not one.created_at or one.created_at.timestamp() >= since]
    held = await asyncio.to_thread(store.holds, young)
    return [each for each in young if each not in held]


class Afterwards:
    """The end of one run.

    Args:
        store: the ledger.
        sender: asks the service.
        limiter: gives turns to ask.
        counters: count what becomes of each source.
        options: of the run.
        doubts: says of a missing item's key whether its disk may not be mounted.
    """

    def __init__(
        self,
        store: Store,
        sender: "Sender",
        limiter: "Limiter",
        counters: "Counters",
        options: "CheckedOptions",
        *,
        doubts: Callable[[str], bool] | None,
    ) -> None:
        self._store, self._sender, self._limiter = store, sender, limiter
        self._counters, self._options, self._doubts = counters, options, doubts
        # The caller's function is called for one at a time.
        self._places = asyncio.Semaphore(1 if callable(options.prune) else options.concurrency)
        self._failed_in_a_row = 0
        self._newer: dict[str | None, str | None] = {}
        self._ready: dict[str, bool] = {}  # of what took the place of others

    # Settled --------------------------------------------------------------------------------------

    async def settle(self, rows: Sequence[Row]) -> None:
        """Find out in the service what became of unknown items that their origin has no more.

        They are not sent again, so nothing else would tell. Those with a source are gone then.
        """
        try:
            if "sources" not in await self._sender.call("extensions"):
                return
            for row in rows:
                await self._settle_gone(row)
        except KnowledgeBotError as error:
            logger.info("It is not known what became of items that are gone: %s", error)

    async def _settle_gone(self, row: Row) -> None:
        key, found = row.idempotency_key or "", row.source_id
        if not key.startswith('"'):  # otherwise that source was replaced, or was not
            arrived = end_of_life(key, {}) + _ON_ITS_WAY - time.time()
            await asyncio.sleep(max(0.0, seconds_to_wait(arrived)))
            try:
                found = await self._created_with(key, row.name or row.key) or found
            except APIError as error:
                logger.info("It is not known what became of %s: %s", row.key, error)
                return
        if found is None:
            await asyncio.to_thread(self._store.write_with, partial(forget_unsent, row=row))
            return
        settled = row.settled(State.CREATED, source_id=found, digest=CHANGED_THERE)
        batch = Batch(rows=[settled], superseded=superseded_rows(row, found))
        await asyncio.to_thread(self._store.write, batch)

    async def _created_with(self, key: str, name: str) -> str | None:
        """Return the source that a request with a key created; None if it created none.

        Raises:
            APIError: that is not certain.
            KnowledgeBotError: the service cannot be asked.
        """
        # Another request with the key is told what the first one created. If there was none, it
        # creates nothing either, for want of its collection.
        other = {"name": name, "collections": [f"col_{key}"], "content": name}
        try:
            made = await self._sender.call("create_text_source", **other, idempotency_key=key)
        except APIError as error:
            known = error.code == KEY_REUSED
            if known and error.created_id is not None:
                return error.created_id
            found = await sources_of(self._sender, self._store, name, key)
            if known and len(found) == 1:
                return found[0]
            if known or found or not settles(error):
                raise
            return None
        await self._sender.call("delete_source", made.id)
        return None

    # Ready ----------------------------------------------------------------------------------------

    async def wait_until_ready(self) -> None:
        """Wait for as long as the options say, and record what is ready and what failed."""
        self._counters.counts["unready"] = len(await self._unready())

    async def _unready(self) -> list[Row]:
        """Wait, and return what is not ready then."""
        deadline = time.monotonic() + self._options.wait_ready
        waiting = await asyncio.to_thread(self._store.unready)
        collections = sorted({each for joined in self._store.scopes for each in joined})
        for pause in itertools.chain((_FIRST_LOOK, 0.2, 0.5, 1.0), itertools.repeat(_LONGEST_LOOK)):
            if not waiting or self._counters.stopped is not None:
                break
            try:
                listed = await self._sender.call(
                    "list_sources", status=_UNSETTLED, collection=collections
                )
            except KnowledgeBotError as error:
                logger.warning("It is not known what is ready: %s", error)
                if not is_away(error):
                    break
            else:
                waiting = await self._settle(waiting, {one.id: one for one in listed})
            if waiting and (left := deadline - time.monotonic()) > 0:
                await asyncio.sleep(min(pause, left))
            elif waiting:
                logger.info("%d sources are not ready yet; a later run looks again", len(waiting))
                break
        return waiting

    async def _settle(self, waiting: Sequence[Row], there: Mapping[str, Any]) -> list[Row]:
        """Record what is ready or failed, and return what is neither.

        Args:
            waiting: what is waited for.
            there: the sources that are not ready, by id.
        """
        ready, failed, later = list[Row](), list[Row](), list[Row]()
        for row in waiting:
            one = there.get(row.source_id or "")
            if one is None or one.ready_revision == row.source_revision:
                ready.append(row)
            elif one.revision != row.source_revision:
                continue  # somebody else replaced it
            elif one.status == "failed":
                failed.append(row._replace(error=one.reason or "it gives no reason"))
            else:
                later.append(row)
        await asyncio.to_thread(self._store.mark_ready, ready, failed)
        for row in failed:
            name, source_id = row.name or row.key, row.source_id
            self._tell("failed", name, row.key, row.error or "", source_id)
        return later

    # Removed --------------------------------------------------------------------------------------

    async def prune(self, gone: Gone | None) -> None:
        """Remove what the options say.

        Args:
            gone: what the run's origin no longer yields; None if that is not known.
        """
        chosen, superseded = await asyncio.to_thread(self._chosen, gone)
        if self._store.reading:
            would: list[Removable] = [*chosen, *superseded]
            self._tell_removed(would)
            return
        await self._remove_all(chosen)
        self._newer = {one.source_id: one.replaced_by for one in superseded}
        await self._remove_all(superseded)

    def _chosen(self, gone: Gone | None) -> tuple[list[Entry], list[SupersededSource]]:
        """Return what is to be removed, of what is gone and of what is superseded."""
        prune = self._options.prune
        if isinstance(prune, PrunePlan):
            return self._approved(prune)
        wanted = {"missing", "404", "410"} | ({"excluded"} if prune == "excluded" else set())
        ids: list[bytes] = []
        if gone is not None and not gone.withheld:
            ids = [each for each, (_, reason) in gone.again.items() if reason in wanted]
            first = {each: key for each, (key, reason) in gone.first.items() if reason in wanted}
            if len(first) <= max(_FEW, _SHARE * gone.total):
                doubts = self._doubts
                ids += [each for each, key in first.items() if doubts is None or not doubts(key)]

        def read(connection: "Connection") -> tuple[list[Entry], list[SupersededSource]]:
            entries = entries_of(connection, "id {ids}", ids=ids) if ids else []
            scopes = [str(number) for number in self._store.scopes.values()]
            older = superseded_of(connection, f"scope IN ({', '.join(scopes)})")
            return [one for one in entries if one.state in _SETTLED], older

        entries, older = self._store.read(read)
        if callable(prune):  # whether the newer source is ready is not known there
            older = [one for one in older if one.superseded_at.timestamp() < self._store.began]
        return entries, older

    def _approved(self, plan: PrunePlan) -> tuple[list[Entry], list[SupersededSource]]:
        """Return what a plan lists, and name what moved on since it was made.

        What the ledger does not know any more was removed: the plan may be applied twice.
        """
        now = self._store.read(lambda connection: PrunePlan.of(connection, plan.service))
        there = {one.source_id: one for one in now.found}
        known = self._store.holds([one["source_id"] for one in plan.lines if one["source_id"]])
        chosen: list[Removable] = []
        for line in plan.lines:
            source_id = line["source_id"]
            if line in now.lines and source_id in there:
                chosen.append(there[source_id])
            elif source_id is None or source_id in known:
                reason = "it moved on since the plan was made; make a new one"
                self._tell("unremoved", line["name"], line["key"], reason, source_id)
        return (
            [one for one in chosen if isinstance(one, Entry)],
            [one for one in chosen if isinstance(one, SupersededSource)],
        )

    async def _remove_all(self, several: Sequence[Removable]) -> None:
        """Remove sources, some at a time, and let the ledger forget those that are removed."""
        for start in range(0, len(several), _GROUP):
            group = several[start : start + _GROUP]
            entries = [one for one in group if isinstance(one, Entry)]
            if entries:  # what came back since is left
                withdrawing = partial(withdraw, entries=entries)
                group = await asyncio.to_thread(self._store.write_with, withdrawing)
            async with asyncio.TaskGroup() as tasks:
                tried = [tasks.create_task(self._is_removed_in_turn(each)) for each in group]
            removed = [each for each, task in zip(group, tried, strict=True) if task.result()]
            if removed:
                await asyncio.to_thread(self._store.write_with, partial(drop, several=removed))
            self._tell_removed(removed)

    async def _is_removed_in_turn(self, each: Removable) -> bool:
        async with self._places, self._limiter.turn() as mine:
            return mine and await self._is_removed(each)

    async def _is_removed(self, each: Removable) -> bool:
        """Remove a source; False if it stays, and name it then unless its time has not come."""
        reason = "it was not tried, since others before it failed"
        if self._failed_in_a_row < _FAILURES:
            try:
                done = await self._remove(each)
            except KnowledgeBotError as error:
                reason = str(error)
                if getattr(error, "status_code", 0) == 412:
                    reason = "it was changed in the service since; it was left as it is. The next "
                    reason += "run removes it"
                    forgetting = partial(forget_revision, source=each)
                    await asyncio.to_thread(self._store.write_with, forgetting)
            except Exception as error:  # the caller's function may raise anything
                if not callable(self._options.prune):
                    raise
                reason = f"the function that removes it raised {type(error).__name__}: {error}"
            else:
                self._failed_in_a_row = 0
                return done
            self._failed_in_a_row += 1
        self._tell("unremoved", each.name, each.key, reason, each.source_id)
        return False

    async def _remove(self, each: Removable) -> bool:
        """Remove a source; False if what took its place is not ready yet.

        Raises:
            KnowledgeBotError: it cannot be removed.
            Exception: what the caller's function raised.
        """
        prune, source_id = self._options.prune, each.source_id
        sees = "sources" in self._sender.extensions
        if sees and isinstance(each, SupersededSource) and not await self._is_replaced(each):
            return False
        if callable(prune):
            await asyncio.to_thread(prune, each)
            return True
        if source_id is None:
            raise KnowledgeBotError("the ledger does not know the id of its source")
        revision = each.source_revision
        if revision is None:
            try:
                revision = (await self._sender.call("get_source", source_id)).revision
            except KnowledgeBotError as error:
                if getattr(error, "code", None) != UNKNOWN_SOURCE:
                    raise
                return True
        await self._sender.call("delete_source", source_id, revision=revision)
        return True

    async def _is_replaced(self, each: SupersededSource) -> bool:
        """Return whether questions are answered from what took the place of a source."""
        newest = each.replaced_by
        for _ in self._newer:  # which may have been superseded itself
            newest = self._newer.get(newest, newest)
        if newest is None:
            raise KnowledgeBotError("it is not known which source took its place")
        if newest not in self._ready:
            try:
                details = await self._sender.call("get_source", newest)
                self._ready[newest] = details.ready_revision is not None
            except KnowledgeBotError as error:
                if getattr(error, "code", None) != UNKNOWN_SOURCE:
                    raise
                if await asyncio.to_thread(self._store.holds, [newest]):
                    gone = f"{newest}, which took its place, is not in the service any more"
                    raise KnowledgeBotError(gone) from None
                self._ready[newest] = True  # the item was removed altogether
        return self._ready[newest]

    def _tell_removed(self, several: Sequence[Removable]) -> None:
        # A plan's run looks at no origin, and has counted nothing as gone.
        counted = not isinstance(self._options.prune, PrunePlan)
        for each in several:
            self._tell("removed", each.name, each.key, "", each.source_id)
            self._counters.counts["gone"] -= counted and isinstance(each, Entry)

    def _tell(self, kind: Kind, name: str, key: str, error: str, source_id: str | None) -> None:
        self._counters.add(Outcome(kind, name[:500], key, error, source_id))


_SETTLED = (State.CREATED, State.REFUSED)
