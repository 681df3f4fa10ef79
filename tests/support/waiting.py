"""Waiting for what other threads and processes do: for a condition, never for a time."""

import asyncio
import contextlib
import gc
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

on_linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux lists open files")


def until(condition: Callable[[], object], seconds: float = 120) -> bool:
    """Wait until a condition holds; return whether it does, for an assertion."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def free_port() -> int:
    """Return a TCP port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Whether something on this machine takes connections at a port."""
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


async def until_awaited(condition: Callable[[], object], seconds: float = 120) -> bool:
    """Wait until a condition holds while the event loop goes on; return whether it does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


def open_files(folder: Path | None = None) -> int:
    """How many files this process has open, or those of a folder alone.

    The test server's ends of connections are among them, and its threads close them when they see
    ours closed, so that a count after a test is one to wait for.
    """
    gc.collect()
    descriptors = Path("/proc/self/fd")
    if folder is None:
        return len(os.listdir(descriptors))
    count = 0
    for one in os.listdir(descriptors) if descriptors.exists() else ():
        with contextlib.suppress(FileNotFoundError):  # another thread has closed it meanwhile
            count += os.readlink(descriptors / one).startswith(str(folder))
    return count
