"""The tests of conformance find what they are for: each fault of a service, by its own test."""

import pytest

from conformance import requirements
from conformance.kit import Kit
from extended_services import API_KEYS, GUEST, MUTANTS
from knowledge_bot import Client, KnowledgeBotError
from knowledge_bot.testing import MemoryService

URL = "https://service.test"
TESTS = dict(requirements())


def kit_of(service, wait=2):
    clients = [Client(key, URL, transport=service.transport, max_retries=0) for key in API_KEYS]
    return Kit(clients[0], "col_default", "bot_default", wait, *clients[1:])


@pytest.mark.parametrize("fault", MUTANTS)
def test_each_fault_is_found(fault):
    mutant = MUTANTS[fault]
    try:
        with pytest.raises(
            (AssertionError, KnowledgeBotError, LookupError, TypeError, ValueError, OSError)
        ):
            TESTS[mutant.requirement](kit_of(mutant.service(), wait=0.2))
    except pytest.skip.Exception as reason:
        pytest.fail(f"it was not tested: {reason}")


def test_there_is_a_fault_for_each_requirement():
    assert {one.requirement for one in MUTANTS.values()} == TESTS.keys()


def passed(service):
    """The requirements that a service meets; those of what it does not announce are skipped."""
    kit, met = kit_of(service), set()
    for identifier, test in TESTS.items():
        try:
            if (extension := identifier.partition("/")[0]) != "interface":
                kit.announced(extension)
            test(kit)
        except pytest.skip.Exception:
            continue
        met.add(identifier)
    kit.delete_all()
    assert kit.made == [one["id"] for one in service.sources]  # what cannot be deleted is named
    return met


@pytest.mark.parametrize("extensions", [(), ("idempotency",), ("sources", "sync")])
def test_the_service_from_memory_meets_what_it_announces(extensions):
    service = MemoryService(extensions=extensions, limited=GUEST)
    areas = {one.partition("/")[0] for one in passed(service)}
    assert areas == {"interface", *extensions}


def test_what_a_key_may_not_do_is_not_tested_with_it():
    service = MemoryService(extensions={"sources"})
    service.announcement = "sources=1"
    met = {name for name in passed(service) if name.startswith("sources/")}
    assert met == {f"sources/{name}" for name in ("fields", "ready", "pages", "filters")}


def test_a_limit_of_requests_is_waited_for():
    service = MemoryService(extensions={"sources"})
    service.fail_next(429, retry_after=0, times=2)
    assert "interface/create" in passed(service)
