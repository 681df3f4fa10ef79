"""A web server that discovery fetches from."""

from collections.abc import Iterator

import pytest

from page_server import Server, serving


@pytest.fixture
def web() -> Iterator[Server]:
    with serving() as server:
        yield server
