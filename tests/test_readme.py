"""The README's blocks, run as they stand."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from knowledge_bot_service import LocalService
from knowledge_bot_service.settings import parse_settings
from readme_parts import with_parts

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def service():
    with LocalService(
        collections={"col_handbook": "Handbook"}, bots={"bot_guide": ["col_handbook"]}
    ) as running:
        yield running


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.splitlines()[0])
def test_a_block_of_python_runs(service, tmp_path, block):
    shutil.copy(ROOT / "examples/handbook/annual-report-2024.pdf", tmp_path / "handbook.pdf")
    done = subprocess.run(
        [sys.executable, "-c", block],
        cwd=tmp_path,
        env={
            **os.environ,
            "AIRFLOW_HOME": str(tmp_path),
            "KNOWLEDGE_BOT_BASE_URL": service.base_url,
            "KNOWLEDGE_BOT_API_KEY": service.api_key,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("block", blocks("toml"))
def test_a_block_of_settings_is_valid(block):
    assert parse_settings(tomllib.loads(block), origin="README.md")


@pytest.mark.parametrize("line", sorted(set(re.findall(r"scripts/\w+", README))))
def test_a_command_is_there_and_can_be_run(line):
    assert os.access(ROOT / line, os.X_OK)


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_a_link_leads_to_a_file(target):
    assert (ROOT / target).exists()


def test_what_comes_from_programs_is_what_they_say_now():
    assert with_parts(README) == README, "run scripts/readme"
