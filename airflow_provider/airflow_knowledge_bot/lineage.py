"""What a task read and wrote, in OpenLineage's terms.

Only loaded by Airflow's OpenLineage provider.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset, InputDataset
from openlineage.client.facet_v2 import data_quality_assertions_dataset

from airflow_knowledge_bot.assets import SCHEME
from airflow_knowledge_bot.links import host_of

if TYPE_CHECKING:
    from openlineage.client.generated.base import RunFacet

    from knowledge_bot.checks import Result


def lineage(
    *, inputs: Iterable[str], outputs: Iterable[str]
) -> "OperatorLineage[Dataset, RunFacet]":
    """Return the lineage of a task from addresses and paths."""
    return OperatorLineage(
        inputs=[dataset(uri) for uri in inputs], outputs=[dataset(uri) for uri in outputs]
    )


def checked(*, service: str, results: "Sequence[Result]") -> "OperatorLineage[Dataset, RunFacet]":
    """Return the lineage of a check: the bot is a dataset, each question an assertion about it.

    The answers are left out, since anybody may read the catalogue.

    Args:
        service: an address of the service.
        results: the results of one bot's questions; at least one.
    """
    facet = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
        assertions=[_assertion(one) for one in results]
    )
    bot = InputDataset(
        namespace=f"{SCHEME}://{host_of(service).lower()}",
        name=results[0].bot_id,
        inputFacets={"dataQualityAssertions": facet},
    )
    return OperatorLineage(inputs=[bot])


def _assertion(result: "Result") -> data_quality_assertions_dataset.Assertion:
    given: dict[str, Any] = {
        "name": result.id,
        "description": result.question.ask,
        "actual": result.reason or None,
    }
    # Before 1-1-0 of the facet, the assertion itself had to hold the question.
    known = attr.fields_dict(data_quality_assertions_dataset.Assertion)
    return data_quality_assertions_dataset.Assertion(
        assertion="answer" if "description" in known else result.question.ask,
        success=result.passed,
        **{name: value for name, value in given.items() if name in known},
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
    host = url.netloc.rpartition("@")[2]
    return Dataset(namespace=f"{url.scheme}://{host}", name=url.path.lstrip("/") or "/")
