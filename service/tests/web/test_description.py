"""The OpenAPI page: what it says is true, for every request that can be made from it."""

import subprocess
import sys
from pathlib import Path

import pytest

from in_process import OnAPort

# An id that is not here (400), a precondition that fails and a key that was used before are not the
# fault of the request's form; an address that is too long is (431).
CONFIGURATION = """
[checks.negative_data_rejection]
expected-statuses = ["4xx", "5xx"]

[checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "401", "403", "404", "409", "412", "422", "429", "5xx"]
"""


@pytest.fixture
def service(tmp_path):
    """A service that does not wait: what the sources are made from is nonsense here."""
    with OnAPort(tmp_path / "data", settings={"wait_for_sources": 0.0}) as running:
        yield running


def description(service):
    return service.base_url.removesuffix("/public/v1") + "/openapi.json"


def contradictions(service, folder, *options):
    """What schemathesis finds that the description does not say; empty for nothing."""
    (folder / "schemathesis.toml").write_text(CONFIGURATION)
    checked = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            description(service),
            *("--checks", "all", "--seed", "1", "--no-color"),
            *("--header", f"X-API-KEY: {service.api_key}"),
            *options,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if checked.returncode == 0 else checked.stdout + checked.stderr


@pytest.mark.slow
def test_the_description_is_true(service, tmp_path):
    found = contradictions(service, tmp_path, "--max-examples", "3", "--phases", "fuzzing")
    assert not found, found


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_description_is_true_in_200_examples(service, tmp_path):
    found = contradictions(service, tmp_path, "--max-examples", "200")
    assert not found, found
