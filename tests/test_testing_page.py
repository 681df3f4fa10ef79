"""The page on testing: each of its blocks runs as it stands, without sockets where it says so."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge_bot import Client, Delivery, KnowledgeBotError
from knowledge_bot.testing import MemoryService, no_waiting

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/how-to/test-your-own-code.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
BLOCKS = {
    title: re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for title, text in SECTIONS.items()
}
FIXTURES = "# conftest.py\n"
WITH_SOCKETS = "A real service"

REFUSING = """
import socket

def _refuse(*_, **__):
    raise AssertionError("a test without sockets opens one")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = _refuse
"""


def files_of(title):
    """Return `conftest.py` as of a section of the page, and the section's files of tests."""
    conftest = ""
    for before, blocks in BLOCKS.items():  # who reads on has made the one of an earlier section
        conftest = next((block for block in blocks if block.startswith(FIXTURES)), conftest)
        if before == title:
            break
    return conftest, [block for block in BLOCKS[title] if "\ndef test_" in "\n" + block]


def scripts():
    """Return the blocks that are neither a file of tests nor its fixtures."""
    all_blocks = [block for blocks in BLOCKS.values() for block in blocks]
    return [
        block
        for block in all_blocks
        if not block.startswith(FIXTURES) and "\ndef test_" not in "\n" + block
    ]


def run(folder, conftest, files):
    (folder / "conftest.py").write_text(conftest)
    for number, file in enumerate(files):
        (folder / f"test_{number}.py").write_text(file)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, "."],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if "KNOWLEDGE_BOT" not in name},
            "PYTEST_ADDOPTS": "",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # nothing but pytest is needed
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "title",
    [
        pytest.param(title, marks=pytest.mark.slow if title == WITH_SOCKETS else ())
        for title in BLOCKS
        if files_of(title)[1]
    ],
)
def test_the_tests_of_a_section_pass(tmp_path, title):
    conftest, files = files_of(title)
    done = run(tmp_path, conftest + ("" if title == WITH_SOCKETS else REFUSING), files)
    assert done.returncode == 0, done.stdout + done.stderr
    tests = sum(("\n" + file).count("\ndef test_") for file in files)
    assert f"{tests} passed" in done.stdout
    assert "warning" not in done.stdout


FAULTS = [
    (method, acts, delivery)
    for methods, acts, delivery in re.findall(
        r"^\| (`.*?) \| (yes|no)[^|]* \| `(\w+)` \|", PAGE, re.MULTILINE
    )
    for method in re.findall(r"`(.*?)`", methods)
]


def test_the_table_has_its_faults():
    assert len(FAULTS) == 7


@pytest.mark.parametrize(("method", "acts", "delivery"), FAULTS, ids=lambda value: value)
def test_a_post_fails_as_the_table_says(method, acts, delivery):
    service = MemoryService()
    eval(f"service.{method}", {"service": service})
    client = Client("key", "https://service.test", transport=service.transport)
    with no_waiting(), pytest.raises(KnowledgeBotError) as caught:
        client.create_text_source(name="News", collections="col_default", content="At nine.")
    assert caught.value.delivery is Delivery[delivery]
    assert len(service.sources) == (acts == "yes")


@pytest.mark.slow
def test_only_the_real_service_needs_a_socket(tmp_path):
    conftest, files = files_of(WITH_SOCKETS)
    done = run(tmp_path, conftest + REFUSING, files)
    assert done.returncode == 1
    assert "a test without sockets opens one" in done.stdout


@pytest.mark.parametrize("block", scripts(), ids=lambda block: block.splitlines()[0])
def test_a_block_that_is_no_test_runs(monkeypatch, block):
    def refuse(*_):
        raise AssertionError("a block without sockets opens one")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    exec(compile(block, "test-your-own-code.md", "exec"), {})


def test_no_block_is_overlooked():
    assert PAGE.count("```") == 2 * sum(map(len, BLOCKS.values()))
