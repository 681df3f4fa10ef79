"""Collections as Airflow assets: `knowledgebot://host/collection`.

Airflow loads this module where a DAG names such an asset.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult

from airflow.sdk import Asset, AssetAlias

from airflow_knowledge_bot.links import host_of

if TYPE_CHECKING:
    from airflow.sdk import Context
    from openlineage.client.event_v2 import Dataset

SCHEME = "knowledgebot"


def collection_uri(base_url: str, collection: str) -> str:
    """Return the asset's URI of a collection of the service at a base URL."""
    return f"{SCHEME}://{host_of(base_url).lower()}/{collection}"


def create_asset(*, host: str, collection: str, extra: dict[str, Any] | None = None) -> Asset:
    """Return the asset of a collection.

    Args:
        host: the service's host, with its port where the base URL has one.
        collection: the collection's id (`col_…`).
        extra: what else the asset is to tell.

    Raises:
        ValueError: they do not make such a URI.
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
    from airflow_knowledge_bot.lineage import dataset

    return dataset(asset.uri)


def describe_outlets(
    context: "Context", outlets: Iterable[object], uris: Sequence[str], extra: dict[str, Any]
) -> None:
    """Tell the task's outlets what happened, so that DAGs scheduled on them can read it.

    Args:
        context: the task's context.
        outlets: the task's outlets. An alias becomes the assets of `uris`.
        uris: the assets that really changed.
        extra: plain JSON for the assets' events.
    """
    for outlet in outlets:
        if isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra = dict(extra)
        elif isinstance(outlet, AssetAlias):
            for uri in uris:
                context["outlet_events"][outlet].add(Asset(uri), extra=dict(extra))
