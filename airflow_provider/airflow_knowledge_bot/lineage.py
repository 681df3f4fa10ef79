"""What tasks tell OpenLineage. Its provider calls for it, so no DAG that is parsed loads this."""

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset

from airflow_knowledge_bot.tasks import host_of

if TYPE_CHECKING:
    from openlineage.client.generated.base import RunFacet


def lineage(
    *, inputs: Iterable[str], outputs: Iterable[str]
) -> "OperatorLineage[Dataset, RunFacet]":
    """Return the lineage of a task from addresses and paths."""
    return OperatorLineage(
        inputs=[dataset(uri) for uri in inputs], outputs=[dataset(uri) for uri in outputs]
    )


def dataset(uri: str) -> Dataset:
    """Return the dataset of an address or a path, by OpenLineage's naming.

    An address's user and query are left out: they may hold a connection's id or a secret.
    """
    if "://" not in uri:
        return Dataset(namespace="file", name=uri)
    url = urlsplit(uri)
    if url.scheme == "file":
        return Dataset(namespace="file", name=url.path)
    return Dataset(namespace=f"{url.scheme}://{host_of(uri)}", name=url.path.lstrip("/") or "/")
