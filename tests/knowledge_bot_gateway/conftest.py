"""A service in memory, and gateways before it, in the process of the test."""

import contextlib

import pytest

from gateways import app_of as make_app
from gateways import gateway, numbering, openai_of, serving


@pytest.fixture
def service():
    with numbering(bot_host={"When do you open?": "At ten."}) as service:
        yield service


@pytest.fixture
def start(service):
    """Start gateways before the service; they stop with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(gateway(**options))


@pytest.fixture
def http(start):
    """What sends to a gateway."""
    return start()


@pytest.fixture
def client(http):
    """OpenAI's client of a gateway."""
    return openai_of(http)


@pytest.fixture
def address(service):
    """The address of a gateway at a port."""
    with serving(make_app()) as address:
        yield address
