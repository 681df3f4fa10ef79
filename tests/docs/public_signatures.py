"""What the reference shows otherwise than the code has it: an extension of Griffe (zensical.toml).

- An endpoint is written as a builder of requests, and is a method that returns the answer.
- A default that is a private constant is shown by its value.
"""

from typing import Any

import griffe


class PublicSignatures(griffe.Extension):
    """Shows the signatures that a user calls."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Adapt a function's signature when it has been read."""
        if any(str(decorator.value) == "endpoint" for decorator in func.decorators):
            func.labels.discard("staticmethod")
            if isinstance(func.returns, griffe.ExprSubscript):
                func.returns = func.returns.slice

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Put values in the place of private names, when every module has been read."""
        for module in _modules(pkg):
            for function in _functions(module):
                for parameter in function.parameters:
                    name = str(parameter.default)
                    value = module.members.get(name) if name.startswith("_") else None
                    if isinstance(value, griffe.Attribute):
                        parameter.default = value.value


def _modules(module: griffe.Module) -> list[griffe.Module]:
    inner = [one for one in module.modules.values() if not one.is_alias]
    return [module, *(deep for one in inner for deep in _modules(one))]


def _functions(scope: griffe.Module | griffe.Class) -> list[griffe.Function]:
    own = [one for one in scope.functions.values() if not one.is_alias]
    inner = [one for one in scope.classes.values() if not one.is_alias]
    return [*own, *(deep for one in inner for deep in _functions(one))]
