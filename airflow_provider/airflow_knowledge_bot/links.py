"""Links from Airflow's web UI to a service, and addresses without what is secret in them."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


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
