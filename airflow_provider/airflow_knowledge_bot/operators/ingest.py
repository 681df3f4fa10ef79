"""The operator that ingests many items in one task."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, get_args

from airflow_knowledge_bot._compat import AirflowFailException, AirflowNotFoundException

# isort: split
from airflow.sdk import BaseOperator

from airflow_knowledge_bot.functions import call_with_context, check_function, name_of
from airflow_knowledge_bot.hooks import KnowledgeBotHook
from airflow_knowledge_bot.links import KnowledgeBotServiceLink, service_page, without_secrets
from airflow_knowledge_bot.operators.request import (
    check_filled,
    check_on_unknown,
    given_or_default,
)

if TYPE_CHECKING:
    from os import PathLike

    import jinja2
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context, ObjectStoragePath

    from airflow_knowledge_bot.arguments import BaseOperatorArguments
    from airflow_knowledge_bot.connections import Settings
    from airflow_knowledge_bot.items import Items
    from airflow_knowledge_bot.telling import Telling
    from knowledge_bot.ingest import Ingestion, Item, Ledger

Place = Literal[
    "items",
    "folder",
    "objects",
    "site",
    "sitemap",
    "feed",
    "urls",
    "jsonl",
    "sql",
    "documents",
]
"""A parameter that says where items come from: one of these is given."""

Failed = Literal["refused", "unknown", "undelivered", "invalid"]
"""What can become of an item that is not in the service."""

PLACES: tuple[Place, ...] = get_args(Place)
_FAILED: tuple[Failed, ...] = get_args(Failed)

# Of these only a part is a template; see `templates`.
_PARTLY_TEMPLATES = ("items", "documents")

# Those whose failures to read may pass: a store that did not answer, a database that went away.
_MAY_PASS = ("objects", "sql")

# Seconds that a try waits for other runs to send what they have begun: longer than the lease of a
# worker that died, whose items are known to be unknown then.
_WAIT_FOR_OTHERS = 90.0

# What names an item, the best first, and how much of it a mapped task is called by.
_NAMING = ("name", "url", "path", "key")
_LABEL = 100


class KnowledgeBotIngestOperator(BaseOperator):
    """Ingests many items in one task; what the ledger knows as unchanged is not sent again.

    A ledger in PostgreSQL keeps any number of tasks and workers from sending an item twice. What a
    killed worker was sending becomes `unknown` there: it is reported and, with `on_unknown="hold"`,
    never sent again by itself. The task fails only after everything else was done. What other runs
    are sending at the end is waited for, 90 seconds at most, and fails nothing.

    It runs on a worker, not asynchronously: the engine below has an event loop of its own, and a
    task's process has nothing else to do.

    XCom, also where the task fails: the counts of a `knowledge_bot.ingest.Report` by their names
    (`created`, `unchanged`, `superseded`, `gone`, `unversioned`, …), `duration` (seconds, of the
    last try), `stopped` (why it ended early, or None), the first 20 `failures`, each with `kind`,
    `name` and `error`, and `named`: the first 20 items that are `superseded`, `gone` or `unknown`,
    with their names, and their `source_id` where there is one. On Airflow 3.3 the counts are those
    of all tries since the task last ended well; on 3.1 and 3.2, which keep nothing between tries,
    those of the last one.

    Outlets get an event only where sources were created, by this run or by earlier ones that were
    red: a run that changed nothing starts no DAG. An asset `knowledgebot://host/collection` gets
    none where that collection was not fed, and a warning says so, as it does where the host is
    another; an `AssetAlias` becomes the collections that were fed.

    Args:
        ledger_conn_id: an Airflow connection of type `knowledge_bot_ledger`, `postgres` or `sqlite`
            (templated). SQLite is enough where only one machine works.
        items: the items themselves, as dicts (`{"name", "url"}`, `{"name", "content"}` or
            `{"path"}`, each also with `key`, `version` and `collections`) or as objects of
            `knowledge_bot.ingest`. In a DAG file the strings in such a dict are templated, but for
            `content`, which is sent as it is. Or a function that gives them on the worker, such as
            a generator, called with the parts of Airflow's context that it names.
        folder: a folder whose files are uploaded, on a disk that the worker sees (templated).
        objects: the address of objects, with wildcards or of a folder
            (`s3://connection@bucket/documents/**/*.pdf`), or an `ObjectStoragePath` (templated).
            Only those are opened that the listing tells as new or changed, and they are streamed;
            what cannot be read is tried again by the next try. Object storage needs its own Airflow
            provider.
        site: the address of a site whose pages are found by its links (templated).
        sitemap: the address of a sitemap, or the path of its file (templated). The service scrapes
            its pages.
        feed: the address of an RSS or Atom feed, or the path of its file (templated).
        urls: the path of a file with one address a line, or a list of addresses (templated).
        jsonl: the path of a file with one item in each line, as JSON (templated).
        sql: a query whose rows are texts (templated); `source_options` names its columns: `key` and
            `text`, and perhaps `name` and `version`.
        documents: documents as `DocumentLoaderOperator` of Airflow's common.ai hands them on, or
            LangChain's and LlamaIndex's: dicts with `text` or `page_content`, and `metadata`, or
            objects with these attributes, or a function as for `items`. They are no templates.
        source_options: options of the place, as the function of the same name in
            `knowledge_bot.ingest` takes them (templated): `{"depth": 3}` for a `site`,
            `{"compare": "content"}` for a `sitemap`.
        sql_conn_id: the connection that `sql` is asked of (templated), of any type with a hook of
            `apache-airflow-providers-common-sql`.
        collections: id or ids of the collections (templated); by default the connection's
            `default_collection_id`.
        on_unknown: `hold` what may have been created already, so that nothing is sent twice, or
            `resend` it, so that nothing is lost.
        concurrency: how many requests are in flight at most.
        limit: how many items are sent at most by one try; the next run goes on.
        rate: how many items are sent a second, at most. That of reading pages to compare them is an
            option of the place.
        origin: a name for what yields the items, such as `handbook` (templated). What it yields no
            longer is told as `gone`, and listed by `kbot ledger gone`. A folder has one of its own,
            its path, and objects have their address; a folder that is named is the same one
            wherever a worker mounts it. Give none to mapped tasks of which each has a part of the
            items.
        gone_limit: the share of an origin's items that may vanish at once, 0 to 1; where more do,
            none is noted as gone.
        fail_on: which failures turn the task red: some of `refused`, `unknown`, `undelivered` and
            `invalid`, by default all. A run that stops early is red in any case.
        max_refused: how many refused items do not: a whole number of them, or, between 0.0 and 1.0,
            a share of all items.
        knowledge_bot_conn_id: the connection (templated).

    Raises:
        ValueError: while the DAG is parsed: not one place is given but none or several, a function
            asks for what Airflow does not give, or a number or a choice cannot be used.
    """

    template_fields: Sequence[str] = (
        *PLACES,
        "source_options",
        "sql_conn_id",
        "collections",
        "origin",
        "ledger_conn_id",
        "knowledge_bot_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "items": "json",
        "documents": "json",
        "sql": "sql",
        "source_options": "json",
        "collections": "json",
    }
    template_ext: Sequence[str] = ()
    # A bound method would take its object along into each copy of a DAG, and texts are many.
    shallow_copy_attrs: Sequence[str] = ("items", "documents")
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
        site: str | None = None,
        sitemap: str | None = None,
        feed: str | None = None,
        urls: "str | PathLike[str] | Sequence[str] | None" = None,
        jsonl: "str | PathLike[str] | None" = None,
        sql: str | None = None,
        documents: "Iterable[Any] | Callable[..., Iterable[Any]] | None" = None,
        source_options: Mapping[str, Any] | None = None,
        sql_conn_id: str | None = None,
        collections: str | Sequence[str] | None = None,
        on_unknown: Literal["hold", "resend"] = "hold",
        concurrency: int = 8,
        limit: int | None = None,
        rate: float | None = None,
        origin: str | None = None,
        gone_limit: float = 0.5,
        fail_on: Collection[Failed] = _FAILED,
        max_refused: int | float = 0,
        knowledge_bot_conn_id: str = KnowledgeBotHook.default_conn_name,
        **kwargs: "Unpack[BaseOperatorArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.items = items
        self.folder = folder
        self.objects = objects
        self.site = site
        self.sitemap = sitemap
        self.feed = feed
        self.urls = urls
        self.jsonl = jsonl
        self.sql = sql
        self.documents = documents
        self.source_options = source_options
        self.sql_conn_id = sql_conn_id
        self.collections = collections
        self.ledger_conn_id = ledger_conn_id
        self.on_unknown = on_unknown
        self.concurrency = concurrency
        self.limit = limit
        self.rate = rate
        self.origin = origin
        self.gone_limit = gone_limit
        self.fail_on = fail_on
        self.max_refused = max_refused
        self.knowledge_bot_conn_id = knowledge_bot_conn_id
        self._collection_uris: list[str] = []
        self._check()

    @property
    def label(self) -> str:
        """What a mapped task is called in Airflow's grid, where its DAG does not say it."""
        for place in PLACES:
            value = getattr(self, place)
            if isinstance(value, list | tuple) and value:
                first, last = _told(value[0]), _told(value[-1])
                return first if len(value) == 1 else f"{first} … {last}"
            if value is not None and place not in ("items", "documents", "sql"):
                return _told(value)
        return self.origin or self.task_id

    def execute(self, context: "Context") -> dict[str, Any]:
        """Ingest all items, then fail if any of them is not in the service.

        Raises:
            AirflowFailException: a person must look: an outcome is unknown, the service refused
                something for good, or a parameter cannot be used.
            IncompleteIngestionError: the next try may do better.
            LedgerError: likewise, since the ledger was out of reach.
        """
        from airflow_knowledge_bot.failures import task_fails_for_good
        from airflow_knowledge_bot.reports import Rules, named_items, summary
        from airflow_knowledge_bot.telling import Telling
        from airflow_knowledge_bot.tries import Tries

        given = {"collections": self.collections}
        with task_fails_for_good(self.knowledge_bot_conn_id, given, self.on_unknown):
            place = self._place()
            check_filled("knowledge_bot_conn_id", self.knowledge_bot_conn_id)
            hook = KnowledgeBotHook(self.knowledge_bot_conn_id)
            self.service_page = service_page(hook.settings.base_url)
            collections = self._collections(hook.settings)
            ledger = self._ledger()
            tries = Tries(context)
            telling = Telling(self.log, tries)
            with hook.get_conn() as client, _connections_of_items():
                items = self._items_of(place, context, telling)
                service, origin = client.base_url, self.origin or items.origin
                self.log.info(
                    "Ingesting %s into %s at %s; ledger %s of the connection %r.",
                    self._place_told(place),
                    ", ".join(collections),
                    service,
                    ledger,
                    self.ledger_conn_id,
                )
                tries.begin(ledger, service, tuple(sorted(collections)), origin)
                ingestion = self._ingestion(collections, ledger, telling)
                with telling.in_time():
                    report = tries.total(ingestion.run(client, items.found))

        rules = Rules(self.fail_on, self.max_refused, self.on_unknown, place in _MAY_PASS)
        failure = rules.failure(
            report,
            conn_id=self.knowledge_bot_conn_id,
            collections=collections,
            ledger_conn_id=self.ledger_conn_id,
            ledger=ledger,
            unknown=telling.unknown,
        )
        tries.end(report, well=failure is None)
        named = named_items(
            report, telling.unknown, ledger, service=service, origin=origin, began=tries.began
        )
        telling.end(report, named, rules.tolerated(report), ledger)
        told = summary(report, named)
        fed = sorted({*collections, *items.collections})
        told["untold"] = self._tell_outlets(
            context, service, fed, told, well=failure is None, sure=tries.all_known
        )
        if failure is not None:
            context["ti"].xcom_push(key="return_value", value=told)
            raise failure
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

        places = [
            getattr(self, place) for place in PLACES if place not in (*_PARTLY_TEMPLATES, "sql")
        ]
        return lineage(
            inputs=[
                str(place) for place in places if place and not isinstance(place, list | tuple)
            ],
            outputs=self._collection_uris,
        )

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: "Context",
        jinja_env: "jinja2.Environment",
        seen_oids: set[int],
    ) -> None:
        """Render what is a template; Airflow would call functions itself, without their context.

        Also for a mapped task Airflow calls this one, so that an operator may take part in it.
        """
        fields = list(template_fields)
        if parent is self:
            from airflow_knowledge_bot.templates import Rendering

            render = Rendering(self, context, jinja_env, seen_oids)
            for name in _PARTLY_TEMPLATES:
                fields.remove(name)
                setattr(self, name, render(name, getattr(self, name)))
        super()._do_render_template_fields(parent, fields, context, jinja_env, seen_oids)
        # Of a mapped task Airflow reads the template before there is an operator to have one.
        is_mapped = getattr(context.get("ti"), "map_index", -1) >= 0
        if parent is self and is_mapped and context.get("map_index_template") is None:
            context["map_index_template"] = "{{ task.label }}"

    def _check(self) -> None:
        """Refuse, while the DAG is parsed, what no run can use."""
        check_on_unknown(self.on_unknown)
        given = [name for name in PLACES if getattr(self, name) is not None]
        if len(given) != 1:
            named = f"{' and '.join(map(repr, given))} are given" if given else "none is"
            raise ValueError(
                f"the task takes exactly one of the parameters {', '.join(map(repr, PLACES))}, "
                f"and {named}"
            )
        for name in _PARTLY_TEMPLATES:
            if callable(function := getattr(self, name)):
                check_function(name, function)
        if (self.sql is None) != (self.sql_conn_id is None):
            raise ValueError("sql and sql_conn_id are given together: a query, and where to ask it")
        _check_number("concurrency", self.concurrency, 1, whole=True)
        _check_number("gone_limit", self.gone_limit, 0, 1)
        if self.limit is not None:
            _check_number("limit", self.limit, 0, whole=True)
        if self.rate is not None:
            _check_number("rate", self.rate, 0.001)
        most = 1 if isinstance(self.max_refused, float) else math.inf
        _check_number("max_refused", self.max_refused, 0, most)
        kinds: Any = self.fail_on
        if not isinstance(kinds, set | frozenset | list | tuple) or set(kinds) - set(_FAILED):
            raise ValueError(
                f"fail_on: expected a list of some of {', '.join(_FAILED)}, as in ['refused'], "
                f"not {kinds!r}"
            )

    def _place(self) -> Place:
        """Return the parameter that says where items come from.

        Which one it is was checked when the DAG was parsed; a template may have made nothing of it.
        """
        name = next((name for name in PLACES if getattr(self, name) is not None), None)
        if name is None:
            raise AirflowFailException(
                f"The task's parameters {', '.join(map(repr, PLACES))} are all empty once they "
                "are rendered: nothing was sent. Check what the template or the upstream task "
                "gives."
            )
        value = getattr(self, name)
        # A day without items is no mistake, nor is one without addresses.
        if name not in _PARTLY_TEMPLATES and value not in ([], ()):
            check_filled(name, value)
        return name

    def _place_told(self, place: Place) -> str:
        value = getattr(self, place)
        if callable(value):
            return f"{place} of the function {name_of(value)!r}"
        if place == "sql":
            return f"rows of a query on the connection {self.sql_conn_id!r}"
        if isinstance(value, list | tuple):
            return f"{len(value):,} {place}"
        return f"{place} {_told(value)}"

    def _collections(self, settings: "Settings") -> list[str]:
        given = given_or_default("collections", self.collections, "default_collection_id", settings)
        check_filled("collections", given)
        several: Any = [given] if isinstance(given, str) else given
        if not isinstance(several, list | tuple) or not all(isinstance(c, str) for c in several):
            raise AirflowFailException(
                f"The task's parameter 'collections' is {type(given).__name__} where an id or a "
                "list of ids is needed. Nothing was sent."
            )
        return list(several)

    def _ledger(self) -> "Ledger":
        from airflow_knowledge_bot.ledgers import ledger_of

        return ledger_of(self.ledger_conn_id)

    def _items_of(self, place: Place, context: "Context", telling: "Telling") -> "Items":
        from airflow_knowledge_bot.items import Items

        value = getattr(self, place)
        if callable(function := value):

            def value() -> Any:
                return call_with_context(function, context, jinja_env=self.get_template_env)

        if place == "sql":
            check_filled("sql_conn_id", self.sql_conn_id)
        return Items(
            place,
            value,
            self.source_options,
            sql_conn_id=self.sql_conn_id,
            alone=telling.quiet,
        )

    def _ingestion(
        self, collections: list[str], ledger: "Ledger", telling: "Telling"
    ) -> "Ingestion":
        from knowledge_bot.ingest import Ingestion

        # Not made earlier: an operator is copied, and an event cannot be.
        self._stop = Event()
        return Ingestion(
            collections=collections,
            ledger=ledger,
            concurrency=self.concurrency,
            on_unknown=self.on_unknown,
            on_progress=telling.on_progress,
            on_outcome=telling.on_outcome,
            origin=self.origin,
            gone_limit=self.gone_limit,
            limit=self.limit,
            rate=self.rate,
            wait=_WAIT_FOR_OTHERS,
            stop=self._stop,
        )

    def _tell_outlets(
        self,
        context: "Context",
        service: str,
        fed: list[str],
        told: dict[str, Any],
        *,
        well: bool,
        sure: bool,
    ) -> int:
        """Give the outlets an event each, where something changed.

        Returns:
            How many sources were created of which no event tells, since the run did not end well.
        """
        from airflow_knowledge_bot.assets import changed_outlets, collection_uri, untold_before

        self._collection_uris = [collection_uri(service, one) for one in fed]
        if not self.outlets:
            return 0
        earlier = untold_before(context)
        if not well:
            return int(told["created"]) + earlier
        counts = {name: told[name] for name in ("created", "unchanged", "superseded", "gone")}
        extra = {"collections": fed, **counts, "created_in_failed_runs": earlier}
        # This copy of the operator is the one that runs, and Airflow reads its outlets afterwards.
        self.outlets = changed_outlets(
            context,
            self.outlets,
            self._collection_uris,
            extra,
            changed=told["created"] + earlier > 0 or not sure,
        )
        return 0


@contextmanager
def _connections_of_items() -> Iterator[None]:
    """Tell a connection that a function of the author's looks up from those of the task."""
    try:
        yield
    except AirflowNotFoundException as error:
        raise AirflowFailException(
            f"What gives the items asks for a connection that there is not: "
            f"{str(error).rstrip('. ')}. What came "
            "before was sent."
        ) from error


def _check_number(
    name: str, value: object, least: float, most: float = math.inf, *, whole: bool = False
) -> None:
    kind = int if whole else int | float
    fits = isinstance(value, kind) and not isinstance(value, bool)
    if not fits or not least <= value <= most:  # type: ignore[operator] # a number by now
        what = "a whole number" if whole else "a number"
        told = f"{least} or more" if most == math.inf else f"{least} to {most}"
        raise ValueError(f"{name}: expected {what}, {told}, not {value!r}")


def _told(item: object) -> str:
    """Return what names an item, or a place, in a few words and without a connection or a query."""
    if isinstance(item, dict):
        item = next(filter(None, (item.get(field) for field in _NAMING)), "an item")
    else:
        item = next(filter(None, (getattr(item, field, None) for field in _NAMING)), item)
    text = str(item)
    if "://" in text:
        text = without_secrets(text)
    return text if len(text) <= _LABEL else f"…{text[1 - _LABEL :]}"
