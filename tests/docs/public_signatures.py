"""What the reference shows otherwise than the code has it: an extension of Griffe (zensical.toml).

- An endpoint is written as a builder of requests, and is a method that returns the answer.
- A default that is a private constant, or the default of another class, is shown by its value.
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
        """Put values in the place of names, when every module has been read."""
        for module in _modules(pkg):
            for kind in module.classes.values():
                for field in [] if kind.is_alias else kind.attributes.values():
                    field.value = _value(field.value, module)
            for function in _functions(module):
                _show_options(function)
                for parameter in function.parameters:
                    parameter.default = _value(parameter.default, module)


def _value(default: Any, module: griffe.Module) -> Any:
    """Return the value of `_CONSTANT`, or of `Class.field`; anything else unchanged."""
    name = str(default)
    try:
        if name.startswith("_"):
            return module.members[name].value
        if re.fullmatch(r"[A-Z]\w+\.[a-z_]+", name):
            return module.modules_collection[default.canonical_path].value
    except (AttributeError, KeyError, griffe.AliasResolutionError):
        pass
    return default


def _show_options(function: griffe.Function) -> None:
    """Put the options that a typed dictionary describes in its place, with their texts."""
    last = next(reversed([*function.parameters]), None)
    if last is None or not str(last.annotation).startswith("Unpack["):
        return
    try:
        options = function.modules_collection[last.annotation.slice.canonical_path]
        options = options.final_target if options.is_alias else options
    except (KeyError, griffe.AliasResolutionError):  # of a package that is not read
        return
    texts = _texts(options)
    if not texts:
        return
    kept = next(
        each
        for each in options.parent.classes.values()
        if not _is_typed_dictionary(each) and each.members.keys() >= texts.keys()
    )
    del function.parameters[last.name]
    for name in texts:
        annotation = options.all_members[name].annotation
        is_required = str(annotation).startswith("Required[")
        function.parameters[name] = griffe.Parameter(
            name,
            annotation=annotation.slice if is_required else annotation,
            kind=griffe.ParameterKind.keyword_only,
            default=kept.members[name].value,
        )
    for told in (function.docstring, function.parent.docstring):
        if told:
            own = re.compile(rf"^ {{4}}{last.name}: .*\n(?: {{8}}.*\n)*", re.MULTILINE)
            told.value = own.sub(lambda _: "".join(texts.values()), told.value)


def _texts(options: griffe.Class) -> dict[str, str]:
    """Return what is told of each option, there or where a longer dictionary tells it."""
    family = [
        each
        for each in options.parent.classes.values()
        if each is options or options.name in map(str, each.bases)
    ]
    told = next(
        (one for one in family if one.docstring and "Attributes:\n" in one.docstring.value), None
    )
    if told is None:
        return {}
    _, _, section = told.docstring.value.partition("Attributes:\n")
    section = section.partition("\n\n")[0].rstrip() + "\n"
    texts = re.findall(r"^( {4}(\w+): .*\n(?: {8}.*\n)*)", section, re.MULTILINE)
    return {name: text for text, name in texts if name in options.all_members}


def _is_typed_dictionary(found: griffe.Class) -> bool:
    return "total" in found.keywords


def _modules(module: griffe.Module) -> list[griffe.Module]:
    inner = [one for one in module.modules.values() if not one.is_alias]
    return [module, *(deep for one in inner for deep in _modules(one))]


def _functions(scope: griffe.Module | griffe.Class) -> list[griffe.Function]:
    own = [one for one in scope.functions.values() if not one.is_alias]
    inner = [one for one in scope.classes.values() if not one.is_alias]
    return [*own, *(deep for one in inner for deep in _functions(one))]
