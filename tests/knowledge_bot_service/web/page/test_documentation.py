"""The page about the page: its program runs and prints what it says, and its pictures are there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[4] / "docs" / "service" / "page.md"
LINK = re.compile(r"!?\[[^\]]*\]\(([^)#]+)")
PROGRAM = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)

# So that a clone stays small.
MOST_BYTES = 80_000


@pytest.mark.timeout(60)
def test_its_program_prints_what_it_says() -> None:
    for program, printed in PROGRAM.findall(PAGE.read_text()):
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        assert (run.stdout, run.returncode) == (printed, 0), run.stderr


def test_its_links_lead_somewhere_and_its_pictures_are_small() -> None:
    links = LINK.findall(PAGE.read_text())
    assert links
    for link in links:
        assert (PAGE.parent / link).stat().st_size <= MOST_BYTES, link
