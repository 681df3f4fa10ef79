"""What others answer in the service's process: loaded when asked for, once, and ended with it."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from knowledge_bot_service.web.gate import Mounts


def counting(told):
    @asynccontextmanager
    async def mount(base_url, data):
        told.append(f"starts before {base_url} with {data.name}")
        await asyncio.sleep(0.05)
        yield "the application"
        told.append("ends")

    def load():
        told.append("loaded")
        return mount

    return load


async def test_it_is_loaded_with_the_first_request_and_once_for_many(tmp_path):
    told = []
    async with Mounts({"v1": counting(told)}, "http://here", tmp_path) as mounts:
        assert await mounts.at("/public/v1/bots") is None
        assert told == []
        paths = ["/v1/models", "/v1", "/v1/", "/v1/responses"]
        assert set(await asyncio.gather(*map(mounts.at, paths))) == {"the application"}
        assert await mounts.at("/v11/models") is None
        assert told == ["loaded", f"starts before http://here with {tmp_path.name}"]
    assert told[-1] == "ends"


async def test_without_its_extra_nobody_answers_there(tmp_path):
    def load():
        raise ModuleNotFoundError("pip install it")

    async with Mounts({"v1": load}, "http://here", tmp_path) as mounts:
        assert await mounts.at("/v1/models") is None
        assert await mounts.at("/v1/models") is None


async def test_a_start_that_fails_is_an_error_of_the_request(tmp_path):
    @asynccontextmanager
    async def mount(*_):
        raise OSError("no more of it")
        yield

    async with Mounts({"v1": lambda: mount}, "http://here", tmp_path) as mounts:
        for _ in range(2):
            with pytest.raises(OSError, match="no more"):
                await mounts.at("/v1/models")
