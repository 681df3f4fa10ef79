"""Names of a package that are loaded when they are first used, so that importing it stays cheap."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def lazy_names(
    module: str,
    homes: Mapping[str, Iterable[str]],
    check: Callable[[], object] = lambda: None,
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module whose names are defined in others.

    Args:
        module: its name.
        homes: the names that each of the others defines, by its name within the package; with a dot
            in front, within the package above.
        check: called before one of them is loaded; raises if its extra is not installed.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        check()
        this = sys.modules[module]
        value: object = getattr(import_module(f".{home_of[name]}", this.__package__), name)
        setattr(this, name, value)  # found without this function from now on
        return value

    return load, lambda: sorted(sys.modules[module].__all__)
