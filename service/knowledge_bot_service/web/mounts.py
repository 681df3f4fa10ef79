"""Applications of other packages in the service's process, such as the gateway, loaded on demand.

Loading one may take as long as the service's own start, and most services are never asked for it.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Self, TypeAlias

from starlette.types import ASGIApp

Mount: TypeAlias = Callable[[str, Path], AbstractAsyncContextManager[ASGIApp]]
"""Called with the service's address and its data folder, it runs an application."""

Loader: TypeAlias = Callable[[], Mount]
"""Imports a mount; a `ModuleNotFoundError` says that its extra is not installed."""


class Mounts:
    """Applications by the first segment of their paths; each starts with the first request to it.

    They may keep files of their own in the service's data folder.
    """

    def __init__(self, loaders: Mapping[str, Loader], base_url: str, data: Path) -> None:
        self._loaders, self._base_url, self._data = loaders, base_url, data
        self._apps: dict[str, asyncio.Future[ASGIApp | None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def at(self, path: str) -> ASGIApp | None:
        """Return the application that answers at a path; None where there is none."""
        name = path.removeprefix("/").partition("/")[0]
        if name not in self._loaders:
            return None
        if name not in self._apps:
            self._apps[name] = asyncio.get_running_loop().create_future()
            self._tasks.append(asyncio.create_task(self._run(name)))
        return await asyncio.shield(self._apps[name])

    async def __aenter__(self) -> Self:
        self._ended = asyncio.Event()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, name: str) -> None:
        # All of an application's life in one task, as task groups want it.
        started = self._apps[name]
        try:
            mount = await asyncio.to_thread(self._loaders[name])
            async with mount(self._base_url, self._data) as app:
                started.set_result(app)
                await self._ended.wait()
        except ModuleNotFoundError:  # its extra is not installed
            started.set_result(None)
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise
