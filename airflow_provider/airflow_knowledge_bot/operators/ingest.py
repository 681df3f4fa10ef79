"""The operator that ingests many items in one task."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, get_args

from airflow_knowledge_bot._compat import AirflowFailException, AirflowNotFoundException

# isort: split
from airflow.sdk import XComArg

from airflow_knowledge_bot.tasks import (
    ServiceTask,
    as_bool,
    as_number,
    as_several,
    check_filled,
    check_number,
    check_on_unknown,
    hand_on,
    without_secrets,
)

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

    from airflow_knowledge_bot.arguments import OriginArguments, ServiceArguments
    from knowledge_bot.adapters import OnUnknown
    from knowledge_bot.ingest import Item
    from knowledge_bot.origins import Origin

Failed = Literal[
    "refused",
    "unknown",
    "undelivered",
    "invalid",
    "failed",
    "withheld",
    "unready",
    "incomplete",
]
"""The ways in which it is not known that the service has what the origin has."""

FAILED: tuple[Failed, ...] = get_args(Failed)


class OriginTask(ServiceTask):
    """A task with an `origin`: one of `knowledge_bot.origins`, items, or a function of them."""

    template_fields: Sequence[str] = ("origin", "origin_name", *ServiceTask.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {"origin": "json", "collections": "json"}

    _iterated = ("origin",)

    origin: Any

    def __init__(
        self,
        *,
        origin: "Origin | Iterable[Item | dict[str, Any]] | Callable[..., Any]",
        origin_name: str | None = None,
        **kwargs: "Unpack[ServiceArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.origin = origin
        self.origin_name = origin_name

    def _set_xcomargs_dependencies(self) -> None:
        """Check the origin, and come after the tasks whose outputs stand in it."""
        super()._set_xcomargs_dependencies()
        given: Any = self.origin
        if callable(given):
            from airflow_knowledge_bot.functions import check_function

            check_function("origin", given)
        elif isinstance(given, bytes | dict | None) or (
            isinstance(given, str) and "{{" not in given
        ):
            raise ValueError(
                "origin: expected one of knowledge_bot.origins, such as Folder(…), a list of items "
                f"or a function that returns them, not {type(given).__name__}"
            )
        for value in vars(given).values() if hasattr(given, "template_fields") else ():
            XComArg.apply_upstream_relationship(self, value)

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: "Context",
        jinja_env: "jinja2.Environment",
        seen_oids: set[int],
    ) -> None:
        """Render the templates; Airflow would call functions itself, without their context.

        Airflow calls this method for a mapped task as well.
        """
        fields = list(template_fields)
        if parent is self:
            from airflow_knowledge_bot.items import rendered

            def render(value: Any) -> Any:
                return self.render_template(value, context, jinja_env, seen_oids)

            fields.remove("origin")
            if id(self.origin) not in seen_oids:  # else it is a mapped task's, and rendered already
                self.origin = as_several(rendered(self.origin, render, jinja_env))
        super()._do_render_template_fields(parent, fields, context, jinja_env, seen_oids)

    def _secrets(self) -> Iterator[str]:
        several = self.origin if isinstance(self.origin, list | tuple) else [self.origin]
        for one in several:
            given = one if isinstance(one, dict) else getattr(one, "__dict__", {})
            headers = given.get("headers")
            yield from map(str, headers.values() if isinstance(headers, dict) else ())

    def _origin(self, context: "Context") -> Any:
        """Return what is ingested: an origin, or items with a name.

        What it is was checked when the DAG was parsed; a template may have rendered to None.
        """
        from airflow_knowledge_bot.items import origin_of

        given: Any = self.origin
        if given is None:
            raise AirflowFailException(
                "The task's parameter 'origin' is empty once it is rendered: nothing was sent. "
                "Check what the template or the upstream task gives."
            )
        if callable(function := given):
            from airflow_knowledge_bot.functions import call_with_context

            def given() -> Any:
                return call_with_context(function, context, jinja_env=self.get_template_env)

        return origin_of(given, self.origin_name or None, f"{self.dag_id}.{self.task_id}")


class KnowledgeBotIngestOperator(OriginTask):
    """Ingests many items in one task; what the service has already is not sent again.

    A service that announces `sync` is the book of what was sent: any number of tasks and workers
    send nothing twice, and what is gone from the origin is removed. For every other service that
    book is a ledger, `ledger_conn_id`; PostgreSQL serves many workers. There, items that a killed
    worker was sending are sent again if the service takes idempotency keys. Elsewhere they become
    `unknown`: they are reported and, with `on_unknown="hold"`, never sent again automatically. The
    task fails only after everything else is done.

    It runs on a worker and cannot be deferred: the ingestion has its own event loop, and a task's
    process has nothing else to do.

    XCom, even when the task fails: the counts of a `knowledge_bot.ingest.Report` by their names
    (`created`, `unchanged`, `superseded`, `gone`, …), `duration` (seconds, of the
    last try), `stopped` (why it ended early, or None), the first 20 `failures`, each with `kind`,
    `name` and `error`, and `named`: the first 20 items that are `replaced`, `moved`, `removed`,
    `failed`, `superseded`, `gone` or `unknown`, with their names, and their `source_id` where there
    is one. With a ledger the counts cover all tries of the run since the task last succeeded in it;
    without one they are those of the last try.

    Outlets get an event only if sources were created, replaced, moved or removed, by this run or,
    as a ledger remembers, by earlier ones that failed: a run that changed nothing triggers no DAG.
    An asset `knowledgebot://host/collection` gets none if the task did not write to that
    collection; the log warns of it, and of a host that is not the connection's. An `AssetAlias`
    becomes the collections that the task wrote to.

    Args:
        origin: where the items come from: one of `knowledge_bot.origins`, such as `Folder`,
            `Objects`, `Site` or `Sql`, whose `template_fields` are rendered. Objects are reached by
            the connection before the `@` (`s3://connection@bucket/documents/**/*.pdf`), a database
            by `Sql(conn_id=…)`. Or the items themselves, as dicts (`{"name", "url"}`,
            `{"name", "content"}` or `{"path"}`, each also with `key`, `version` and `collections`)
            or as objects of `knowledge_bot.ingest`; in a DAG file the strings in such a dict are
            templated, but for `content`, which is sent as it is. Or a function that returns one of
            these on the worker, such as a generator, called with the parts of Airflow's context
            that it names.
        origin_name: a name for the origin (templated), instead of its own. Without one, nothing of
            a list or of a function's items is ever gone.
        collections: id or ids of the collections (templated); by default the connection's
            `default_collection_id`.
        ledger_conn_id: an Airflow connection of type `knowledge_bot_ledger`, `postgres` or `sqlite`
            (templated). SQLite is enough for workers on one machine. A service that announces
            `sync` needs none.
        on_unknown: with a ledger, `hold` or `resend`. `knowledge_bot.ingest.IngestionOptions`
            describes this and the next eight in full.
        concurrency: the most requests in flight.
        max_items: the most items that one try sends; the next run continues.
        rate: the most items per second, but not of pages that are read to compare them.
        prune: whether sources are removed whose items are gone (templated): True, False, or
            `"excluded"` for those that filters leave out by now as well. A service without `sync`
            cannot; the task then says what is gone and superseded.
        wait_ready: for how many seconds (or a timedelta) the task waits until questions are
            answered from all that was sent (templated); what the service cannot read is `failed`.
        gone_limit: the share of an origin's items that may disappear at once (templated). More than
            that is withheld, until they are back or a run is given a higher limit.
        complete: whether these are all items of the origin. Mapped tasks that each have a part of
            them say False, and give the same `origin_name`; `knowledge_bot.ingest.complete` then
            tells what is gone.
        anyway: send also what another origin, or sources without one, hold already.
        fail_on: which failures fail the task: some of `refused`, `unknown`, `undelivered`,
            `invalid`, `failed`, `withheld`, `unready` and `incomplete`, by default all. A run that
            stops early fails in any case.
        max_refused: how many refused items are tolerated: a whole number of them, or, between 0.0
            and 1.0, a share of all items.
        knowledge_bot_conn_id: the connection (templated).

    Raises:
        ValueError: while the DAG is parsed: the origin is none, a function asks for something that
            Airflow does not pass, or a number or a choice cannot be used.
    """

    template_fields: Sequence[str] = (
        "collections",
        "prune",
        "wait_ready",
        "gone_limit",
        "ledger_conn_id",
        *OriginTask.template_fields,
    )
    # A deep copy of a bound method copies its object, and texts may be many.
    shallow_copy_attrs: Sequence[str] = ("origin",)

    def __init__(
        self,
        *,
        ledger_conn_id: str | None = None,
        collections: str | Sequence[str] | None = None,
        on_unknown: "OnUnknown" = "hold",
        concurrency: int = 8,
        max_items: int | None = None,
        rate: float | None = None,
        prune: bool | str = True,
        wait_ready: timedelta | float | str = 0.0,
        gone_limit: float | str = 0.5,
        complete: bool = True,
        anyway: bool = False,
        fail_on: Collection[Failed] = FAILED,
        max_refused: int | float = 0,
        **kwargs: "Unpack[OriginArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.collections = collections
        self.ledger_conn_id = ledger_conn_id
        self.on_unknown = on_unknown
        self.concurrency = concurrency
        self.max_items = max_items
        self.rate = rate
        self.prune = prune
        self.wait_ready = wait_ready
        self.gone_limit = gone_limit
        self.complete = complete
        self.anyway = anyway
        self.fail_on = fail_on
        self.max_refused = max_refused
        check_on_unknown(on_unknown)
        check_number("concurrency", concurrency, 1, whole=True)
        if max_items is not None:
            check_number("max_items", max_items, 0, whole=True)
        if rate is not None:
            check_number("rate", rate, 0.001)
        most = 1 if isinstance(max_refused, float) else math.inf
        check_number("max_refused", max_refused, 0, most)
        kinds: Any = fail_on
        if not isinstance(kinds, set | frozenset | list | tuple) or set(kinds) - set(FAILED):
            raise ValueError(
                f"fail_on: expected a list of some of {', '.join(FAILED)}, as in ['refused'], "
                f"not {kinds!r}"
            )

    def _set_xcomargs_dependencies(self) -> None:
        super()._set_xcomargs_dependencies()
        if callable(self.prune):
            raise ValueError(  # noqa: TRY004 - as for other arguments
                f"prune: expected True, False or 'excluded', not {self.prune!r}"
            )
        for name, most in (("wait_ready", math.inf), ("gone_limit", 1)):
            if not isinstance(number := getattr(self, name), str | timedelta):  # a str is rendered
                check_number(name, number, 0, most)

    def execute(self, context: "Context") -> dict[str, Any]:
        """Ingest all items, then fail if any of them is not in the service.

        Raises:
            AirflowFailException: a person must act: an outcome is unknown, the service refused
                something for good, or a parameter cannot be used.
            IncompleteIngestionError: the next try may succeed.
            LedgerError: the ledger was out of reach; the next try may succeed.
        """
        from airflow_knowledge_bot.assets.knowledge_bot import changed_outlets, collection_uri
        from airflow_knowledge_bot.hooks import KnowledgeBotLedgerHook
        from airflow_knowledge_bot.results import (
            CHANGES,
            ProgressLog,
            RunCounts,
            failing,
            failure_of,
            summary,
        )
        from knowledge_bot.adapters import collection_ids, shared_options, storable
        from knowledge_bot.ingest import Ingestion
        from knowledge_bot.origins import Objects, Sql

        with self._service({"collections": self.collections}, self.on_unknown) as hook:
            collections = collection_ids(
                hook.settings.default("collections", as_several(self.collections))
            )
            ledger = None
            if self.ledger_conn_id is not None:
                check_filled(ledger_conn_id=self.ledger_conn_id)
                ledger = KnowledgeBotLedgerHook(self.ledger_conn_id).get_conn()
            with hook.get_conn() as client, connections_of_items():
                origin = self._origin(context)
                route = client.base_url, tuple(sorted(collections)), origin.name
                tries = RunCounts(context, ledger, route)
                progress = ProgressLog(self.log, tries)
                self.log.info(
                    "Ingesting %s into %s at %s%s.",
                    _described(self.origin, origin.name),
                    ", ".join(collections),
                    client.base_url,
                    f"; ledger {ledger} of the connection {self.ledger_conn_id!r}"
                    if ledger
                    else "",
                )
                self._stop = Event()
                prune = self.prune
                if prune != "excluded":
                    prune = as_bool("prune", prune, "true, false or 'excluded'")
                options: Any = {
                    **shared_options(self),
                    "prune": prune,
                    "wait_ready": as_number(
                        "wait_ready", self.wait_ready, "a number of seconds, or a timedelta"
                    ),
                }
                ingestion = Ingestion(
                    collections=collections,
                    ledger=ledger,
                    on_progress=progress.on_progress,
                    on_outcome=progress.on_outcome,
                    gone_limit=as_number("gone_limit", self.gone_limit),
                    limit=self.max_items,
                    complete=self.complete,
                    stop=self._stop,
                    **options,
                )
                try:
                    with progress.running():
                        report = ingestion.run(client, origin)
                except BaseException as error:  # also Airflow's timeout
                    for note in getattr(error, "__notes__", ()):
                        self.log.warning("%s", note)
                    if progress.report is not None:
                        total = tries.total(progress.report)
                        tries.end(total, succeeded=False)
                        hand_on(self, context, summary(total, progress.named, ledger, tries))
                    raise

        total = tries.total(report)
        failure = failure_of(
            total,
            self,
            collections=collections,
            unknown=progress.named["unknown"],
            # A store or a database that did not answer may do so at the next try.
            invalid_passes=isinstance(origin, Objects | Sql),
        )
        missed = tries.end(total, succeeded=failure is None)
        result = summary(total, progress.named, ledger, tries)
        fails = failing(total, self)
        tolerated: dict[str, int] = {
            kind: result[kind] for kind in FAILED if result.get(kind) and kind not in fails
        }
        progress.end(total, result["named"], tolerated)
        written = sorted({*collections, *getattr(origin, "collections", ())})
        uris = [collection_uri(client.base_url, one) for one in written]
        if failure is not None:
            hand_on(self, context, result)
            raise failure
        counts = {name: result[name] for name in (*CHANGES, "unchanged", "superseded", "gone")}
        # Airflow reads the outlets of this copy of the operator once it has run.
        self.outlets = changed_outlets(
            context,
            self.outlets,
            uris,
            {"collections": written, **counts, "changed_in_failed_runs": missed},
            changed=any(counts[name] for name in CHANGES) or missed > 0 or not tries.is_sure,
        )
        return storable(result)


@contextmanager
def connections_of_items() -> Iterator[None]:
    """Fail with an error of its own where a function asks for a connection that is missing."""
    try:
        yield
    except AirflowNotFoundException as error:
        raise AirflowFailException(
            f"The code that yields the items asks for a connection that does not exist: "
            f"{str(error).rstrip('. ')}. The items before it were taken."
        ) from error


def _described(given: Any, name: str) -> str:
    """Return what is ingested, for the log: without a connection's id, a login or a query."""
    if callable(given):
        from airflow_knowledge_bot.functions import name_of

        return f"items of the function {name_of(given)!r}"
    if isinstance(given, list | tuple):
        return f"{len(given):,} items"
    return f"{type(given).__name__} {without_secrets(name) if '://' in name else name}"
