"""The same package and the same tests on each version of the framework that the project promises.

To see a version's output: `pytest -m slow -s tests/llama_index_knowledge_bot/test_versions.py`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ["tests/llama_index_knowledge_bot"]
WEB, LLAMA_INDEX = "connectors/knowledge_bot_web", "connectors/llama_index_knowledge_bot"
DISTRIBUTIONS = (".[serve]", "service", WEB, LLAMA_INDEX)
# The oldest, the last with query pipelines, the last of 0.13, the first and the newest of 0.14.
VERSIONS = ["==0.12.44", "==0.12.52", "==0.13.6", "==0.14.0", ">=0.14,<0.15"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", VERSIONS)
def test_all_tests_pass_on(version, tmp_path):
    python = tmp_path / "venv/bin/python"
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    pytest_and_more = ["pytest>=9", "pytest-asyncio", "pytest-timeout", "hypothesis"]
    install(python, f"llama-index-core{version}", *pytest_and_more)
    install(python, *(part for one in DISTRIBUTIONS for part in ("--editable", f"{ROOT}/{one}")))
    done = run(python, "-m", "pytest", "-p", "no:cacheprovider", *TESTS)
    lines = f"llama-index-core{version}: {done.stdout.splitlines()[-1]}"
    print(f"\n{lines}")  # noqa: T201 - what `-s` is for


def install(python, *requirements):
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    pip = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    # The framework's splitters refuse to read data files that are hard links into uv's cache.
    run(*pip, "--quiet", *requirements, UV_LINK_MODE="copy", UV_SYSTEM_CERTS="1")


def run(*command, **environment):
    done = subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
    return done
