"""What others answer in the service's process: loaded when asked for, once, and ended with it."""

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest

from knowledge_bot_service.config.folder import DataFolder
from knowledge_bot_service.config.keys import KeyList
from knowledge_bot_service.config.settings import ServiceConfiguration
from knowledge_bot_service.web.gate import Mounts, RequestGate


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


async def test_a_start_that_fails_is_an_error_of_the_request_and_the_next_one_starts_it(tmp_path):
    fails = [OSError("no more of it"), OSError("no more of it")]

    @asynccontextmanager
    async def mount(*_):
        if fails:
            raise fails.pop()
        yield "the application"

    async with Mounts({"v1": lambda: mount}, "http://here", tmp_path) as mounts:
        for _ in range(2):
            with pytest.raises(OSError, match="no more"):
                await mounts.at("/v1/models")
        assert await mounts.at("/v1/models") == "the application"


async def test_what_is_mounted_answers_and_gets_no_bearer_token_that_is_no_key(tmp_path):
    seen = []

    async def mounted(scope, receive, send):
        seen.append(dict(scope["headers"]).get(b"authorization"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"mounted"})

    @asynccontextmanager
    async def mount(*_):
        yield mounted

    settings = ServiceConfiguration()
    with DataFolder(tmp_path) as folder:
        keys = KeyList(folder, settings)
        async with Mounts({"v1": lambda: mount}, "http://here", tmp_path) as mounts:
            gate = RequestGate(
                mounted, keys=keys, limits=settings.limits, mounts=mounts, on_answer=lambda *_: None
            )
            transport = httpx.ASGITransport(gate)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as web:
                for token in (keys.generated, "another"):
                    headers = {"Authorization": f"Bearer {token}"}
                    assert (await web.get("/v1/models", headers=headers)).text == "mounted"
    assert seen == [f"Bearer {keys.generated}".encode(), None]
