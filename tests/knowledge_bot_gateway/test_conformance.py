"""What others' suites say of the gateway: MCP's own, llm-comply, LangChain's, and schemathesis."""

import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

import mcp_conformance
from gateways import KEY, app_of, numbering, serving

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def address():
    with numbering(), serving(app_of()) as address:
        yield address


# Tools and images, which no bot has, and what the suite itself skips.
NOT_OFFERED = {"Tool Calling", "Image Input"}


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "passed"), [("openai-chat", 6), ("open-responses", 10)])
def test_llm_comply_passes_but_for_tools_and_images(address, shape, passed):
    asked = ["--format", shape, "-u", f"{address}/v1", "-k", KEY, "-m", "bot_guide"]
    done = subprocess.run(
        [BIN / "llm-comply", *asked], capture_output=True, text=True, check=False, timeout=120
    )
    failed = set(re.findall(r"✗ (.*?) \(", done.stdout))
    assert failed == NOT_OFFERED, done.stdout
    assert len(re.findall("✓", done.stdout)) == passed


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_description_is_true_in_200_examples(address, tmp_path):
    done = subprocess.run(
        [
            BIN / "schemathesis",
            "run",
            f"{address}/v1/openapi.json",
            *("--checks", "all", "--seed", "1", "--no-color", "--max-examples", "200"),
            # Lists of messages are read by hand, for the sake of the errors; their schema is wide.
            *("--exclude-checks", "positive_data_acceptance"),
            *("--header", f"Authorization: Bearer {KEY}"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("revision", mcp_conformance.REVISIONS)
def test_the_official_suite_of_mcp_passes(tmp_path_factory, revision):
    program = mcp_conformance.install(tmp_path_factory.getbasetemp() / "conformance")
    with mcp_conformance.serving() as address:
        done = mcp_conformance.run(program, address, revision)
    assert done.returncode == 0, done.stdout[done.stdout.find("=== SUMMARY") :]


class TestChatOpenAI(ChatModelIntegrationTests):
    """LangChain's suite of a chat model, through `ChatOpenAI` and the gateway."""

    chat_model_class = ChatOpenAI
    has_tool_calling = False
    has_structured_output = False
    returns_usage_metadata = False

    @pytest.fixture(autouse=True)
    def _behind(self, address):
        type(self).address = address

    @property
    def chat_model_params(self):
        return {
            "model": "bot_guide",
            "base_url": f"{self.address}/v1",
            "api_key": KEY,
            # By default all models of one address share connections, which are one loop's.
            "http_async_client": httpx2.AsyncClient(),
        }


class TestChatOpenAIWithResponses(TestChatOpenAI):
    """The same over `/v1/responses`."""

    @property
    def chat_model_params(self):
        return {**super().chat_model_params, "use_responses_api": True}
