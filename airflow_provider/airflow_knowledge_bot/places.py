"""Services and collections as Airflow shows them: links, assets and OpenLineage's datasets.

A collection is the asset `knowledgebot://host/collection`; Airflow loads this module where a DAG
names one. What is of OpenLineage is loaded by its provider's calls alone.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from airflow.sdk import Asset, AssetAlias, BaseOperatorLink
from airflow.sdk.definitions.asset import AssetNameRef, AssetUriRef

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey
    from openlineage.client.event_v2 import Dataset
    from openlineage.client.generated.base import RunFacet

    from knowledge_bot.checks import Result

SCHEME = "knowledgebot"

_ASSETS = (Asset, AssetNameRef, AssetUriRef)

_log = logging.getLogger(__name__)


class KnowledgeBotServiceLink(BaseOperatorLink):
    """Leads from a task in Airflow's web UI to the start page of its service."""

    name = "Knowledge-Bot Service"

    def get_link(self, operator: "BaseOperator", *, ti_key: "TaskInstanceKey") -> str:  # noqa: ARG002 - Airflow's signature
        """Return the page's address; Airflow asks on the worker, once the task has run."""
        return getattr(operator, "service_page", "")


def service_page(base_url: str) -> str:
    """Return the start page of the server that a base URL leads to."""
    url = urlsplit(base_url)
    return f"{url.scheme}://{host_of(base_url)}/"


def host_of(base_url: str) -> str:
    """Return host and port, without a user before them."""
    return urlsplit(base_url).netloc.rpartition("@")[2]


def without_secrets(address: str) -> str:
    """Return an address without user, connection id, key or query."""
    url = urlsplit(address)
    return f"{url.scheme}://{host_of(address)}{url.path}"


def collection_uri(base_url: str, collection: str) -> str:
    """Return the asset's URI of a collection of the service at a base URL."""
    return f"{SCHEME}://{host_of(base_url).lower()}/{collection}"


def create_asset(*, host: str, collection: str, extra: dict[str, Any] | None = None) -> Asset:
    """Return the asset of a collection.

    Args:
        host: the service's host, with its port where the base URL has one.
        collection: the collection's id (`col_…`).
        extra: more for the asset to hold, as plain JSON.

    Raises:
        ValueError: they do not form such a URI.
    """
    return Asset(uri=f"{SCHEME}://{host}/{collection}", extra=extra or {})


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Check and normalise an asset's URI when its DAG is parsed.

    Raises:
        ValueError: it does not name a host and a collection, or holds more than that.
    """
    host, collection = uri.netloc.lower(), uri.path.strip("/")
    if "@" in host or uri.query or uri.fragment:
        raise ValueError(
            f"{SCHEME}:// takes a host and a collection and nothing else: no user, no query"
        )
    if not host or not collection.startswith("col_") or "/" in collection:
        raise ValueError(
            f"{uri.geturl()} does not name a collection: write {SCHEME}://host/col_…, with the "
            "host and the port of the service's base URL"
        )
    return SplitResult(SCHEME, host, f"/{collection}", "", "")


def convert_asset_to_openlineage(asset: Asset, lineage_context: object) -> "Dataset":  # noqa: ARG001 - OpenLineage's signature
    """Return the OpenLineage dataset of a collection's asset."""
    return dataset(asset.uri)


def describe_outlets(
    context: "Context", outlets: Iterable[object], uris: Sequence[str], extra: dict[str, Any]
) -> None:
    """Put what happened into the events of the task's outlets, for the DAGs they trigger.

    Those that changed are `uris`, which an alias becomes; `extra` is plain JSON.
    """
    for outlet in outlets:
        if isinstance(outlet, _ASSETS):
            context["outlet_events"][outlet].extra = dict(extra)
        elif isinstance(outlet, AssetAlias):
            for uri in uris:
                context["outlet_events"][outlet].add(Asset(uri), extra=dict(extra))


def changed_outlets(
    context: "Context",
    outlets: Iterable[object],
    uris: Sequence[str],
    extra: dict[str, Any],
    *,
    changed: bool,
) -> list[object]:
    """Put what changed into the outlets' events, and return the outlets that get one.

    Airflow emits an event for every asset among the outlets of a task that succeeds, so an asset
    that should get none must be removed from them. `uris` are the collections that the task wrote
    to.
    """
    kept: list[object] = []
    collections = {uri.rpartition("/")[2] for uri in uris}
    for outlet in outlets:
        is_asset = isinstance(outlet, _ASSETS)
        uri = getattr(outlet, "uri", None) or ""
        is_written = True
        if uri.startswith(f"{SCHEME}://") and uri not in uris:
            # A service may have several host names.
            is_written = uri.rpartition("/")[2] in collections
            _log.warning(
                "The outlet %s %s: the task writes to %s. Correct its host, port or collection.",
                uri,
                "has another host" if is_written else "gets no event",
                ", ".join(uris),
            )
        if is_written and (changed or not is_asset):
            kept.append(outlet)
    if changed:
        describe_outlets(context, kept, uris, extra)
    return kept


def lineage(
    *, inputs: Iterable[str], outputs: Iterable[str]
) -> "OperatorLineage[Dataset, RunFacet]":
    """Return the lineage of a task from addresses and paths."""
    from airflow.providers.openlineage.extractors import OperatorLineage

    return OperatorLineage(
        inputs=[dataset(uri) for uri in inputs], outputs=[dataset(uri) for uri in outputs]
    )


def checked(*, service: str, results: "Sequence[Result]") -> "OperatorLineage[Dataset, RunFacet]":
    """Return the lineage of a check: the bot is a dataset, each question an assertion about it.

    The answers are left out, since anybody may read the catalogue. There is at least one result,
    and all are of one bot.
    """
    import attr
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as facets

    # Before 1-1-0 of the facet, the assertion itself had to hold the question.
    known = attr.fields_dict(facets.Assertion)

    def assertion(one: "Result") -> facets.Assertion:
        given: dict[str, Any] = {
            "name": one.id,
            "description": one.question.ask,
            "actual": one.reason or None,
        }
        return facets.Assertion(
            assertion="answer" if "description" in known else one.question.ask,
            success=one.passed,
            **{name: value for name, value in given.items() if name in known},
        )

    facet = facets.DataQualityAssertionsDatasetFacet(assertions=list(map(assertion, results)))
    bot = InputDataset(
        namespace=f"{SCHEME}://{host_of(service).lower()}",
        name=results[0].bot_id,
        inputFacets={"dataQualityAssertions": facet},
    )
    return OperatorLineage(inputs=[bot])


def dataset(uri: str) -> "Dataset":
    """Return the dataset of an address or a path, by OpenLineage's naming.

    An address's user and query are left out: they may hold a connection's id or a secret.
    """
    from openlineage.client.event_v2 import Dataset

    if "://" not in uri:
        return Dataset(namespace="file", name=uri)
    url = urlsplit(uri)
    if url.scheme == "file":
        return Dataset(namespace="file", name=url.path)
    host = url.netloc.rpartition("@")[2]
    return Dataset(namespace=f"{url.scheme}://{host}", name=url.path.lstrip("/") or "/")
