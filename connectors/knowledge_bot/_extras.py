"""The error for an extra of the distribution that is not installed."""

from importlib.util import find_spec

from knowledge_bot.errors import MissingExtraError


def require(package: str, extra: str, *modules: str) -> None:
    """Check that an extra is installed, without importing it.

    Raises:
        MissingExtraError: one of them is missing.
    """
    for module in modules:
        if not is_there(module):
            raise MissingExtraError(package, extra, module)


def is_there(module: str) -> bool:
    """Return whether a module can be found; it is not imported."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # of a dotted name, the part before the dot
        return False
