"""A policy that reaches the test's own server, and the reason why a fetch fails."""

from ipaddress import ip_network

import pytest

from knowledge_bot_web.errors import FetchError
from knowledge_bot_web.fetching import FetchPolicy, fetch

LOOPBACK = FetchPolicy(allow=(ip_network("127.0.0.1/32"),), timeout=10.0)


def reason(url, policy=None, **options):
    """Why an address cannot be fetched."""
    with pytest.raises(FetchError) as caught:
        fetch(url, policy=policy or FetchPolicy(), **options)
    return str(caught.value)
