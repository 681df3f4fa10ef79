"""What the tests of readers share."""

import pytest

from document_files import Reader


@pytest.fixture
def read(tmp_path):
    """Reads content as if it had been uploaded."""
    return Reader(tmp_path)
