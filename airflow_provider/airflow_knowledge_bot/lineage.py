"""What tasks tell OpenLineage. Its provider calls for it, so no DAG that is parsed loads this."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset, InputDataset
from openlineage.client.facet_v2 import data_quality_assertions_dataset as facets

from airflow_knowledge_bot.tasks import host_of

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

    The answers are left out, since anybody may read the catalogue. There is at least one result,
    and all are of one bot.
    """
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
        namespace=f"knowledgebot://{host_of(service).lower()}",
        name=results[0].bot_id,
        inputFacets={"dataQualityAssertions": facet},
    )
    return OperatorLineage(inputs=[bot])


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
