"""The table of faults, each let happen to both clients and to every HTTP client of a user."""

import pytest

from fault_runs import CLIENTS, expected, observe
from faults import FAULTS


@pytest.mark.timeout(120)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_ends_as_the_table_says(fault, client):
    assert observe(FAULTS[fault], client) == expected(FAULTS[fault])
