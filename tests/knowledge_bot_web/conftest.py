"""What the tests of fetching share."""

import pytest

from page_server import serving


@pytest.fixture
def server():
    with serving() as running:
        yield running
