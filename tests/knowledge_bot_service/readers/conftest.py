"""What the tests of readers share."""

from pathlib import Path

import pytest

from document_files import Reader


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Reads content as if it had been uploaded."""
    return Reader(tmp_path)
