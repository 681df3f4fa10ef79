"""Gateways before services that remember, lose, and refuse."""

import contextlib

import openai
import pytest

from gateways import KEY, gateway


@pytest.fixture
def start(bots):
    """Start gateways before the bots; they stop with the test."""
    with contextlib.ExitStack() as stack:

        def started(**options):
            given = {**bots.fields, **options}
            return stack.enter_context(gateway(**given))

        yield started


@pytest.fixture
def address(start):
    return start()


@pytest.fixture
def client(address):
    with openai.OpenAI(base_url=f"{address}/v1", api_key=KEY) as client:
        yield client
