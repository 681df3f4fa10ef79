"""A wrong argument's error, known by the name of the argument and not by its words."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from knowledge_bot import ConfigurationError


@contextmanager
def refused(argument: str) -> Iterator[pytest.ExceptionInfo[ConfigurationError]]:
    """What the block does must be refused, with an error that names this argument."""
    with pytest.raises(ConfigurationError) as caught:
        yield caught
    assert caught.value.argument == argument, caught.value
