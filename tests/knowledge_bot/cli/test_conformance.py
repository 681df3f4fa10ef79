"""`kbot conformance`: what a service is told that does as it should, and one that does not."""

import json
from contextlib import ExitStack

import pytest

from extended_services import API_KEYS, MUTANTS, ExtendedService, served
from knowledge_bot import Client
from knowledge_bot.cli.conformance import REQUIREMENTS, Kit
from knowledge_bot.testing import MemoryService
from scripted_server import answer


@pytest.fixture
def kit_of():
    """`kit_of(service)`: the kit for a service over a real socket."""
    with ExitStack() as closing:

        def made(service):
            server = served(service)
            closing.callback(server.stop)
            first, second = (closing.enter_context(Client(key, server.url)) for key in API_KEYS)
            return Kit(first, "col_default", "bot_default", wait=10, second=second)

        yield made


@pytest.fixture
def results_of(kit_of):
    """The results of the kit by requirement, and what it left there."""

    def tested(service):
        kit = kit_of(service)
        results = {result.id: result for result in kit.results()}
        return results, kit.made

    return tested


def not_met(results):
    return {name for name, result in results.items() if result.ok is False}


def broken_documents_fail(service):
    """Let a text fail as a service does that reads documents."""
    take = service._sources._revise

    def revise(source, content):
        if isinstance(content, bytes) and content.startswith(b"%PDF"):
            service.fail_source(source["name"])
        return take(source, content)

    service._sources._revise = revise
    return service


def test_a_service_that_does_what_the_contract_says_meets_every_requirement(results_of):
    service = broken_documents_fail(ExtendedService())
    results, left = results_of(service)
    assert not_met(results) == set()
    assert {name for name, one in results.items() if one.ok is None} == set()
    assert results.keys() == REQUIREMENTS.keys()
    assert (service.sources, left) == ([], [])


@pytest.mark.parametrize("extensions", [(), ("idempotency",), ("sources",)])
def test_the_service_from_memory_meets_what_it_announces(results_of, extensions):
    service = MemoryService(extensions=extensions)
    results, left = results_of(service)
    assert left == [one["id"] for one in service.sources]  # what could not be deleted is named
    assert not_met(results) == set()
    tested = {name.partition("/")[0] for name, one in results.items() if one.ok}
    assert tested - {"interface", "announcement"} == set(extensions)


@pytest.mark.parametrize("fault", MUTANTS)
def test_each_fault_is_found(kit_of, fault):
    mutant = MUTANTS[fault]
    results = kit_of(broken_documents_fail(mutant.service())).results()
    assert any(one.id == mutant.requirement and one.ok is False for one in results)


def test_there_is_a_fault_for_each_requirement():
    assert {one.requirement for one in MUTANTS.values()} == REQUIREMENTS.keys()


def test_what_a_key_may_not_do_is_not_tested_with_it(results_of):
    service = MemoryService(extensions={"sources"})
    service.announcement = "sources=1;rename"
    results, _ = results_of(service)
    tested = {name for name, one in results.items() if one.ok and name.startswith("sources/")}
    assert tested == {f"sources/{name}" for name in ("fields", "ready", "pages", "filters")}


def test_what_does_not_answer_is_a_violation_and_no_crash(results_of):
    service = MemoryService(extensions={"sources"})
    service.refuse_next_connection(times=1000)
    assert "interface/create" in not_met(results_of(service)[0])


def test_a_limit_of_requests_is_waited_for(results_of):
    service = MemoryService(extensions={"sources"})
    service.fail_next(429, retry_after=0, times=2)
    assert not_met(results_of(service)[0]) == set()


def test_so_is_a_ping_that_fails(scripted):
    with Client(API_KEYS[0], scripted(answer(500), on_ping=answer(401)).url) as client:
        results = [*Kit(client, "col_default", None, wait=1).results()]
    of_sources = [one for one in results if one.id.startswith("sources/")]
    assert {one.ok for one in of_sources} == {False}
    assert len(of_sources) == sum(name.startswith("sources/") for name in REQUIREMENTS)


def test_the_embedded_service_conforms(run, of_the_service):
    done = run("conformance", of_the_service.base_url, "--json")
    assert done.exit_code == 0, done.stdout
    found = json.loads(done.stdout)
    assert found["ok"] is True
    assert [one["id"] for one in found["results"] if one["ok"] is False] == []
    assert found["results"][0].keys() == {"id", "tier", "text", "ok", "detail"}


def test_one_that_does_not_ends_with_3(run, answering):
    server = answering(answer(500, {"code": "c", "message": "m"}))
    done = run("conformance", "--collection", "col_1", "--bot", "bot_1")
    assert done.exit_code == 3
    assert "interface/create" in done.stderr
    assert server.requests != []


@pytest.mark.parametrize("option", ["--collection", "--bot"])
def test_what_is_not_there_is_not_the_services_fault(run, of_the_service, option):
    done = run("conformance", option, "col_nowhere")
    assert done.exit_code == 2
    assert "col_nowhere" in done.stderr


def test_nor_is_a_key_that_may_not_add(run, answering):
    answering(answer(403, {"code": "forbidden", "message": "m"}))
    assert run("conformance", "--collection", "col_1", "--bot", "bot_1").exit_code == 4
