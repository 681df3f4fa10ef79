"""The error for an extra of the distribution that is not installed."""

from importlib.util import find_spec

from knowledge_bot.errors import MissingExtraError


def require(package: str, extra: str, *modules: str) -> None:
    """Check that an extra is installed, without importing it.

    Raises:
        MissingExtraError: one of them is missing.
    """
    for module in modules:
        try:
            found = find_spec(module)
        except ModuleNotFoundError:  # of a dotted name, the part before the dot
            found = None
        if found is None:
            raise MissingExtraError(package, extra, module)
