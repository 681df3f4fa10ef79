"""What the tests of fetching share."""

from collections.abc import Iterator

import pytest

from page_server import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running
