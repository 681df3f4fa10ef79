"""The table of faults, each let happen to both clients and to every HTTP client of a user."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from fault_runs import CLIENTS, expected, observe
from faults import FAULTS
from knowledge_bot.testing import no_waiting

# These take seconds for each client: the other ones' are for the night.
DEAR = ("no free connection in time", "no such name")
OURS = ("Client", "AsyncClient")
CASES = [
    *((name, tuple(CLIENTS)) for name in FAULTS if name not in DEAR),
    *((name, OURS) for name in DEAR),
    *(pytest.param((name, tuple({*CLIENTS} - {*OURS})), marks=pytest.mark.slow) for name in DEAR),
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}, {len(case[1])} clients")
def test_every_fault_ends_as_the_table_says(case):
    name, clients = case
    fault = FAULTS[name]
    # Two hundred open files for each client whose connections are all taken are too many at once.
    at_once = 1 if fault.occupied else len(clients)
    with no_waiting(), ThreadPoolExecutor(at_once) as threads:
        ended = threads.map(lambda client: observe(fault, client), clients)
        assert dict(zip(clients, ended, strict=True)) == dict.fromkeys(clients, expected(fault))
