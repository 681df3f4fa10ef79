"""The operator that ingests many items in one task."""

from collections.abc import Callable, Iterable, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_knowledge_bot._compat import AirflowFailException

# isort: split
from airflow.sdk import BaseOperator

from airflow_knowledge_bot.hooks import KnowledgeBotHook
from airflow_knowledge_bot.links import KnowledgeBotServiceLink, service_page
from airflow_knowledge_bot.operators.request import check_filled, check_on_unknown

if TYPE_CHECKING:
    from os import PathLike

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context, ObjectStoragePath

    from airflow_knowledge_bot.connections import Settings
    from knowledge_bot.ingest import Item, Report

# Where items may come from: one of these parameters is given.
_PLACES = ("items", "folder", "objects", "sitemap", "jsonl")


class KnowledgeBotIngestOperator(BaseOperator):
    """Ingests many items in one task; what the ledger knows as unchanged is not sent again.

    A ledger in PostgreSQL keeps any number of tasks and workers from sending an item twice. What a
    killed worker was sending becomes `unknown` there: it is reported and, with `on_unknown="hold"`,
    never sent again by itself. The task fails only after everything else was done.

    It runs on a worker, not asynchronously: the engine below has an event loop of its own, and a
    task's process has nothing else to do.

    XCom, also where the task fails: the counts of a `knowledge_bot.ingest.Report` by their names
    (`created`, `unchanged`, `superseded`, `gone`, …), `duration` (seconds), `stopped` (why it ended
    early, or None) and the first 20 `failures`, each with `kind`, `name` and `error`.

    Args:
        items: the items themselves, as dicts (`{"name", "url"}`, `{"name", "content"}` or
            `{"path"}`, each also with `key` and `collections`) or as objects of
            `knowledge_bot.ingest`; or a function that gives them on the worker, called with the
            parts of Airflow's context that it names (templated).
        folder: a folder whose files are uploaded, on a disk that the worker sees (templated).
        objects: the address of objects, with wildcards or of a folder
            (`s3://connection@bucket/documents/**/*.pdf`), or an `ObjectStoragePath` (templated).
            Only those are opened that the listing tells as new or changed, and they are streamed;
            what cannot be read is tried again by the next try. Object storage needs its own Airflow
            provider.
        sitemap: the address of a sitemap, whose pages the service scrapes (templated).
        jsonl: the path of a file with one item in each line, as JSON (templated).
        collections: id or ids of the collections (templated); by default the connection's
            `default_collection_id`.
        ledger_conn_id: an Airflow connection of type `postgres` or `sqlite` (templated). SQLite is
            enough where only one machine works.
        on_unknown: `hold` what may have been created already, so that nothing is sent twice, or
            `resend` it, so that nothing is lost.
        concurrency: how many requests are in flight at most.
        origin: a name for what yields the items, such as `handbook` (templated). What it yields no
            longer is told as `gone`, and listed by `kbot ledger gone`. A folder has one of its own,
            its path, and objects have their address; a folder that is named is the same one
            wherever a worker mounts it. Give none to mapped tasks of which each has a part of the
            items.
        gone_limit: the share of an origin's items that may vanish at once, 0 to 1; where more do,
            none is noted as gone.
        knowledge_bot_conn_id: the connection (templated).
    """

    template_fields: Sequence[str] = (
        *_PLACES,
        "collections",
        "origin",
        "ledger_conn_id",
        "knowledge_bot_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"items": "json", "collections": "json"}
    template_ext: Sequence[str] = ()
    ui_color = "#e3edf7"
    operator_extra_links = (KnowledgeBotServiceLink(),)

    _stop: Event | None = None

    service_page = ""
    """Where the extra link leads, once the task knows its connection."""

    def __init__(
        self,
        *,
        ledger_conn_id: str,
        items: "Iterable[Item | dict[str, Any]] | Callable[..., Iterable[Any]] | None" = None,
        folder: "str | PathLike[str] | None" = None,
        objects: "str | ObjectStoragePath | None" = None,
        sitemap: str | None = None,
        jsonl: "str | PathLike[str] | None" = None,
        collections: str | Sequence[str] | None = None,
        on_unknown: Literal["hold", "resend"] = "hold",
        concurrency: int = 8,
        origin: str | None = None,
        gone_limit: float = 0.5,
        knowledge_bot_conn_id: str = KnowledgeBotHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_on_unknown(on_unknown)
        self.items = items
        self.folder = folder
        self.objects = objects
        self.sitemap = sitemap
        self.jsonl = jsonl
        self.collections = collections
        self.ledger_conn_id = ledger_conn_id
        self.on_unknown = on_unknown
        self.concurrency = concurrency
        self.origin = origin
        self.gone_limit = gone_limit
        self.knowledge_bot_conn_id = knowledge_bot_conn_id
        self._collection_uris: list[str] = []

    def execute(self, context: "Context") -> dict[str, Any]:
        """Ingest all items, then fail if any of them is not in the service.

        Raises:
            AirflowFailException: a person must look: an outcome is unknown, the service refused
                something for good, or a parameter cannot be used.
            IncompleteIngestionError: the next try may do better.
            LedgerError: likewise, since the ledger was out of reach.
        """
        from airflow_knowledge_bot.assets import collection_uri, describe_outlets
        from airflow_knowledge_bot.failures import task_fails_for_good
        from airflow_knowledge_bot.reports import failure_of, summary

        given = {"collections": self.collections}
        with task_fails_for_good(self.knowledge_bot_conn_id, given, self.on_unknown):
            hook = KnowledgeBotHook(self.knowledge_bot_conn_id)
            self.service_page = service_page(hook.settings.base_url)
            collections = self._collections(hook.settings)
            report = self._ingest(context, hook, collections)
        told = summary(report)
        self.log.info("%s", report)
        if report.gone:
            self.log.info(
                "%d items that the service has are no longer where they came from: `kbot ledger "
                "gone` lists them, for a person to remove.",
                report.gone,
            )
        failure = failure_of(
            report,
            on_unknown=self.on_unknown,
            conn_id=self.knowledge_bot_conn_id,
            collections=collections,
            from_a_store=self.objects is not None,
        )
        if failure is not None:
            context["ti"].xcom_push(key="return_value", value=told)
            raise failure

        base_url = hook.settings.base_url
        self._collection_uris = [collection_uri(base_url, one) for one in collections]
        counts = {name: told[name] for name in ("created", "unchanged", "superseded", "gone")}
        describe_outlets(
            context, self.outlets, self._collection_uris, {"collections": collections, **counts}
        )
        return told

    def on_kill(self) -> None:
        """Begin nothing new, and finish what is in flight, so that no outcome is unknown.

        Airflow kills the process five seconds later; what has no answer by then is unknown.
        """
        if self._stop is not None:
            self._stop.set()

    def get_openlineage_facets_on_complete(
        self,
        task_instance: object,  # noqa: ARG002 - OpenLineage's signature
    ) -> "OperatorLineage[Any, Any]":
        """Return the collections, and the place that the items came from."""
        from airflow_knowledge_bot.lineage import lineage

        places = (self.folder, self.objects, self.sitemap, self.jsonl)
        return lineage(
            inputs=[str(place) for place in places if place is not None],
            outputs=self._collection_uris,
        )

    def _ingest(
        self, context: "Context", hook: KnowledgeBotHook, collections: list[str]
    ) -> "Report":
        from airflow_knowledge_bot.items import items_of
        from airflow_knowledge_bot.ledgers import ledger_of
        from knowledge_bot.ingest import Ingestion

        # Not made earlier: an operator is copied, and an event cannot be.
        self._stop = Event()
        ingestion = Ingestion(
            collections=collections,
            ledger=ledger_of(self.ledger_conn_id),
            concurrency=self.concurrency,
            on_unknown=self.on_unknown,
            origin=self.origin,
            gone_limit=self.gone_limit,
            stop=self._stop,
        )
        items = items_of(*self._place(), context)
        with hook.get_conn() as client:
            return ingestion.run(client, items)

    def _place(self) -> tuple[str, Any]:
        given = [(name, getattr(self, name)) for name in _PLACES]
        found = [(name, value) for name, value in given if value is not None]
        if len(found) != 1:
            raise AirflowFailException(
                f"The task takes exactly one of the parameters {', '.join(map(repr, _PLACES))}, "
                f"and {len(found)} of them are given. Nothing was sent."
            )
        name, value = found[0]
        if name != "items":  # a day without items is no mistake
            check_filled(name, value)
        return name, value

    def _collections(self, settings: "Settings") -> list[str]:
        given = self.collections
        if given is None:
            given = settings.extra.default_collection_id
        if given is None:
            raise AirflowFailException(
                "The task's parameter 'collections' is not given, and the connection "
                f"{self.knowledge_bot_conn_id!r} has no 'default_collection_id' in its extra. "
                "Set one."
            )
        check_filled("collections", given)
        return [given] if isinstance(given, str) else list(given)
