"""A collection as an asset: `knowledgebot://host/collection`.

Airflow loads this module where a DAG names such an asset.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.definitions.asset import AssetNameRef, AssetUriRef

from airflow_knowledge_bot.tasks import host_of

if TYPE_CHECKING:
    from airflow.sdk import Context
    from openlineage.client.event_v2 import Dataset

SCHEME = "knowledgebot"

_ASSETS = (Asset, AssetNameRef, AssetUriRef)

_log = logging.getLogger(__name__)


def collection_uri(base_url: str, collection: str) -> str:
    """Return the asset's URI of a collection of the service at a base URL."""
    return f"{SCHEME}://{host_of(base_url).lower()}/{collection}"


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
    from openlineage.client.event_v2 import Dataset

    host, collection = asset.uri.removeprefix(f"{SCHEME}://").split("/")
    return Dataset(namespace=f"{SCHEME}://{host}", name=collection)


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
