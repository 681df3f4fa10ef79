"""What a task read and where it put it, in OpenLineage's terms.

Only loaded where Airflow's OpenLineage provider is installed, which asks for it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset

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

    Without an address's user and query: a connection's id or a secret may be there.
    """
    if "://" not in uri:
        return Dataset(namespace="file", name=uri)
    url = urlsplit(uri)
    if url.scheme == "file":
        return Dataset(namespace="file", name=url.path)
    host = url.netloc.rpartition("@")[2]
    return Dataset(namespace=f"{url.scheme}://{host}", name=url.path.lstrip("/") or "/")
