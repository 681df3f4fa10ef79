"""Bots that number their answers, and the same test through both ways of calling."""

import pytest

from calls import both_ways
from knowledge_bot.testing import MemoryService
from numbering_bots import numbering


@pytest.fixture
def service() -> MemoryService:
    """A service whose bots answer `<answer 1> of bot_1`, and so on."""
    return numbering()


# `invoke(runnable, input, **options)`
invoke = both_ways("invoke", "ainvoke")
