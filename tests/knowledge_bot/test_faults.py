"""The table of faults, each let happen to both clients and to every HTTP client of a user."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from fault_runs import CLIENTS, expected, observe
from faults import FAULTS
from knowledge_bot.testing import no_waiting


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_ends_as_the_table_says(name):
    fault = FAULTS[name]
    # Two hundred open files for each client whose connections are all taken are too many at once.
    at_once = 1 if fault.occupied else len(CLIENTS)
    with no_waiting(), ThreadPoolExecutor(at_once) as threads:
        ended = threads.map(lambda client: observe(fault, client), CLIENTS)
        assert dict(zip(CLIENTS, ended, strict=True)) == dict.fromkeys(CLIENTS, expected(fault))
