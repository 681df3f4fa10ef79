"""The fixtures, as a project that imports them uses them: in a pytest run of its own."""

import pytest

pytestmark = pytest.mark.integration

pytest_plugins = ["pytester"]

# The plugins of other distributions take a second and more to load.
WITHOUT_OTHERS = ("-p", "no:langsmith_plugin", "-p", "no:schemathesis")

CONFTEST = 'pytest_plugins = ["knowledge_bot_service.pytest_plugin"]\n'


def test_a_test_finds_an_empty_service_of_its_own_by_the_environment(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        """
        import os
        from pathlib import Path

        import pytest
        from knowledge_bot import Client

        @pytest.mark.parametrize("turn", [1, 2])
        def test_it_answers_from_what_was_added(turn, knowledge_bot_service):
            assert knowledge_bot_service.sources() == []
            with Client() as client:
                client.create_text_source(
                    name="Hours", collections="col_default", content="The library opens at nine."
                )
                question = "When does the library open?"
                answer = client.send_message(bot_id="bot_default", content=question).answer
            assert "nine" in answer
            with Path("folders.txt").open("a") as file:
                print(knowledge_bot_service.data, knowledge_bot_service.pid, file=file)

        def test_nothing_is_left_of_it():
            assert "KNOWLEDGE_BOT_BASE_URL" not in os.environ
            assert "KNOWLEDGE_BOT_API_KEY" not in os.environ
            for line in Path("folders.txt").read_text().splitlines():
                folder, pid = line.split()
                assert not Path(folder).exists()
                with pytest.raises(ProcessLookupError):
                    os.kill(int(pid), 0)
        """
    )
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(passed=3)


def test_a_project_declares_its_collections_and_shares_one_service(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(
        CONFTEST
        + """
import pytest
from knowledge_bot import Client

@pytest.fixture(scope="session")
def knowledge_bot_service_options():
    return {"collections": {"col_handbook": "Handbook"}, "bots": ["bot_guide"]}

@pytest.fixture(scope="session")
def client(knowledge_bot_session_service):
    with Client(
        knowledge_bot_session_service.api_key, knowledge_bot_session_service.base_url
    ) as client:
        client.create_text_source(
            name="Hours", collections="col_handbook", content="The library opens at nine."
        )
        yield client
"""
    )
    pytester.makepyfile(
        """
        import os

        def test_it_has_what_the_project_declares(client):
            assert [one.name for one in client.list_collections()] == ["Handbook"]

        def test_it_is_one_for_all(client, knowledge_bot_session_service):
            assert [one.name for one in knowledge_bot_session_service.sources()] == ["Hours"]
            assert "KNOWLEDGE_BOT_BASE_URL" not in os.environ

        def test_a_test_may_have_one_of_its_own_beside_it(
            client, knowledge_bot_service, knowledge_bot_session_service
        ):
            assert knowledge_bot_service.sources() == []
            assert knowledge_bot_service.base_url != knowledge_bot_session_service.base_url
            assert os.environ["KNOWLEDGE_BOT_BASE_URL"] == knowledge_bot_service.base_url
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=3)


def test_without_being_asked_for_it_is_not_loaded(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it_is_not_there():
            assert "knowledge_bot_service" not in sys.modules
        """
    )
    pytester.runpytest_subprocess(*WITHOUT_OTHERS).assert_outcomes(passed=1)
