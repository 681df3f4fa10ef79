"""Each promise of `service/promises.toml` has a test that fails without what keeps it."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PRODUCT = TESTS.parent / "knowledge_bot_service"
PROMISES = tomllib.loads((TESTS.parent / "promises.toml").read_text("utf-8"))["promise"]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise["says"])
def test_what_keeps_a_promise_and_its_test_are_there(promise):
    file, _, test = promise["test"].partition("::")
    assert f"def {test}(" in (TESTS / file).read_text("utf-8")
    assert (PRODUCT / promise["in"]).read_text("utf-8").count(promise["text"]) == 1
    assert promise["text"] != promise["without"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise["says"])
def test_without_what_keeps_a_promise_its_test_fails(promise, tmp_path):
    broken = _copied(tmp_path) / promise["in"]
    text = broken.read_text("utf-8")
    broken.unlink()  # a link to the product's own
    broken.write_text(text.replace(promise["text"], promise["without"]), "utf-8")
    compile(broken.read_text("utf-8"), broken, "exec")  # what cannot be read fails every test
    options = ("-q", "-x", "-p", "no:cacheprovider", "-m", "slow or not slow", "--timeout", "120")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, TESTS / promise["test"]],
        cwd=TESTS.parents[1],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout


def _copied(folder: Path) -> Path:
    """The product's files by links, in a package that is found before it."""
    copy = folder / PRODUCT.name
    for file in PRODUCT.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            link = copy / file.relative_to(PRODUCT)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)
    return copy
