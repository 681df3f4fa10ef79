"""What docs/extensions.md requires of a service, as tests, for any address:

    pytest tests/support/conformance --base-url https://bots.example/public/v1 --api-key KEY

They make sources, replace and delete them, and ask a bot; then they delete what they made, but for
the conversations of their questions, which cannot be deleted. What the service does not announce is
skipped. Without an address they test the service in memory that the other tests use.
"""

from collections.abc import Callable, Iterator
from importlib import import_module

from conformance.kit import Kit

AREAS = ("interface", "idempotency", "sources", "sync", "passages")


def requirements() -> Iterator[tuple[str, Callable[[Kit], None]]]:
    """Yield each requirement's id, such as `sources/replace`, and the test of it."""
    for area in AREAS:
        for name, test in vars(import_module(f"conformance.test_{area}")).items():
            if name.startswith("test_"):
                yield f"{area}/{name.removeprefix('test_').replace('_', '-')}", test
