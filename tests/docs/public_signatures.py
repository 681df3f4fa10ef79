"""What the reference shows otherwise than the code has it: an extension of Griffe (zensical.toml).

- An endpoint is written as a builder of requests, and is a method that returns the answer.
- A default that is a private constant is shown by its value.
- Options that a function takes by a typed dictionary are shown as its arguments: with the texts of
  the dictionary, and the defaults of the class that keeps them.
"""

import re
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
                _show_options(function)
                for parameter in function.parameters:
                    name = str(parameter.default)
                    value = module.members.get(name) if name.startswith("_") else None
                    if isinstance(value, griffe.Attribute):
                        parameter.default = value.value


def _show_options(function: griffe.Function) -> None:
    """Put the options that a typed dictionary describes in its place, with their texts."""
    last = next(reversed([*function.parameters]), None)
    if last is None or not str(last.annotation).startswith("Unpack["):
        return
    try:
        options = function.modules_collection[last.annotation.slice.canonical_path]
    except KeyError:  # of a package that is not read
        return
    _, _, texts = (options.docstring.value if options.docstring else "").partition("Attributes:\n")
    names = re.findall(r"^ {4}(\w+): ", texts, re.MULTILINE)
    if not names:
        return
    kept = next(
        each
        for each in options.parent.classes.values()
        if each is not options and each.members.keys() >= {*names}
    )
    del function.parameters[last.name]
    for name in names:
        annotation = options.all_members[name].annotation
        is_required = str(annotation).startswith("Required[")
        function.parameters[name] = griffe.Parameter(
            name,
            annotation=annotation.slice if is_required else annotation,
            kind=griffe.ParameterKind.keyword_only,
            default=kept.members[name].value,
        )
    if function.docstring:
        own = re.compile(rf"^ {{4}}{last.name}: .*\n(?: {{8}}.*\n)*", re.MULTILINE)
        shown = texts.partition("\n\n")[0].rstrip() + "\n"
        function.docstring.value = own.sub(lambda _: shown, function.docstring.value)


def _modules(module: griffe.Module) -> list[griffe.Module]:
    inner = [one for one in module.modules.values() if not one.is_alias]
    return [module, *(deep for one in inner for deep in _modules(one))]


def _functions(scope: griffe.Module | griffe.Class) -> list[griffe.Function]:
    own = [one for one in scope.functions.values() if not one.is_alias]
    inner = [one for one in scope.classes.values() if not one.is_alias]
    return [*own, *(deep for one in inner for deep in _functions(one))]
