"""Writes docs/reference/python.md from the code, as it stands there; `scripts/reference` runs it.

It reads the modules' syntax trees and imports nothing, so that the page is the same on every Python
and with any version of pydantic. What it shows is what `public_names` returns, and what these
signatures name besides.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, reduce
from itertools import chain, pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ROOT / "connectors"
PAGE = ROOT / "docs" / "reference" / "python.md"

MODULES = (
    "knowledge_bot",
    "knowledge_bot.errors",
    "knowledge_bot.models",
    "knowledge_bot.checks",
    "knowledge_bot.checks.pytest",
    "knowledge_bot.ingest",
    "knowledge_bot.sinks",
    "knowledge_bot.sinks.dlt",
    "knowledge_bot.sinks.ray",
    "knowledge_bot.sinks.spark",
    "knowledge_bot.conversations",
    "knowledge_bot.transcripts",
    "knowledge_bot.testing",
    "knowledge_bot.testing.pytest",
)

# They need an engine that has an environment of its own; see scripts/test-engines.
OF_ENGINES = ("knowledge_bot.sinks.dlt", "knowledge_bot.sinks.ray", "knowledge_bot.sinks.spark")

HEAD = """# Python reference

<!-- scripts/reference writes this page from the code; change the docstrings instead. -->

Every public name: what it takes, gives and raises. Whatever else the modules hold, and every module
whose name begins with an underscore, may change with any release.
"""

_WIDTH = 88
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = ast.ClassDef | _Function | ast.Assign | ast.AnnAssign


# What a module holds ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Module:
    """A module's syntax tree, and what its names stand for.

    Attributes:
        name: its full name.
        tree: the tree.
        defined: what it defines itself, by name.
        imported: the module and name that each imported name comes from.
        docs: the strings that stand after assignments, by name.
    """

    name: str
    tree: ast.Module
    defined: dict[str, _Definition] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    docs: dict[str, str] = field(default_factory=dict)


@cache
def read_module(name: str) -> Module:
    """Return a module of the packages."""
    path = PACKAGES.joinpath(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    module = Module(name, ast.parse(file.read_text(encoding="utf-8")))
    for node in module.tree.body:
        only_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for each in node.body if only_for_types and isinstance(node, ast.If) else [node]:
            if isinstance(each, ast.ImportFrom) and each.module is not None:
                names = {of.asname or of.name: (each.module, of.name) for of in each.names}
                module.imported.update(names)
            elif (defined := _name_of(each)) is not None and isinstance(each, _Definition):
                module.defined[defined] = each
    module.docs.update(_docs_after(module.tree.body))
    return module


def public_names(name: str) -> list[str]:
    """Return the public names of a module: its `__all__`, or else what it defines itself."""
    module = read_module(name)
    listed = module.defined.get("__all__")
    if isinstance(listed, ast.Assign):
        names: list[str] = ast.literal_eval(listed.value)
        # Each blocking name before its awaiting twin, which is told by what differs.
        blocking = {each: _blocking(each, names) for each in names}
        return sorted(names, key=lambda each: (blocking[each], each != blocking[each]))
    return [each for each in module.defined if not each.startswith("_")]


def _blocking(name: str, names: list[str]) -> str:
    twins = {name.removeprefix("Async"), name.removeprefix("a")} - {name}
    return next((each for each in twins if each in names), name)


def home_of(module: str, name: str) -> tuple[Module, _Definition] | None:
    """Return where a name is defined in the packages; None where it comes from outside of them."""
    found = read_module(module)
    if name in found.defined:
        return found, found.defined[name]
    origin, original = found.imported.get(name, ("", ""))
    return home_of(origin, original) if origin.startswith("knowledge_bot") else None


def _name_of(node: ast.stmt) -> str | None:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return None


def _docs_after(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for before, after in pairwise(body):
        name = _name_of(before)
        match before, after:
            case (
                ast.Assign() | ast.AnnAssign(),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if name is not None:
                yield name, text


# Signatures ---------------------------------------------------------------------------------------


class _Plain(ast.NodeTransformer):
    """Makes an annotation what a reader is to see: no quotes, no `Annotated`, no `Union`."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str):
            expression: ast.expr = self.visit(ast.parse(node.value, mode="eval").body)
            return expression
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        kind = ast.unparse(node.value)
        if kind == "Literal":
            return node
        if kind in ("Annotated", "ClassVar", "Final"):
            inner = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
            plain: ast.expr = self.visit(inner)
            return plain
        if kind == "Union" and isinstance(node.slice, ast.Tuple):
            several: list[ast.expr] = [self.visit(each) for each in node.slice.elts]
            return reduce(lambda left, right: ast.BinOp(left, ast.BitOr(), right), several)
        self.generic_visit(node)
        return node


def annotation(node: ast.expr | None) -> str:
    """Return an annotation as the page shows it."""
    if node is None:
        return ""
    copied = ast.parse(ast.unparse(node), mode="eval").body
    return ast.unparse(_Plain().visit(copied)).replace("collections.abc.", "")


def parameters(function: _Function, module: Module, *, bound: bool) -> list[str]:
    """Return the parameters of a function, each as it is written; without `self` where bound."""
    given = function.args
    told: list[str] = []
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    for argument, default in zip(positional, defaults, strict=True):
        told.append(_parameter(argument, default, module))
    if bound:
        del told[0]
    if given.vararg is not None:
        told.append(f"*{_parameter(given.vararg, None, module)}")
    elif given.kwonlyargs:
        told.append("*")
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        told.append(_parameter(argument, default, module))
    return told


def _parameter(argument: ast.arg, default: ast.expr | None, module: Module) -> str:
    return _typed(argument.arg, argument.annotation, default, module)


def _typed(name: str, kind: ast.expr | None, default: ast.expr | None, module: Module) -> str:
    told = f"{name}: {annotation(kind)}" if kind is not None else name
    if default is None:
        return told
    if isinstance(default, ast.Name) and isinstance(
        constant := module.defined.get(default.id), ast.Assign
    ):
        default = constant.value  # a reader wants the number, not our name for it
    return f"{told}{' = ' if kind is not None else '='}{ast.unparse(default)}"


def called(head: str, given: list[str], result: str = "") -> str:
    """Return a call's signature, on one line or on one for each parameter."""
    arrow = f" -> {result}" if result else ""
    line = f"{head}({', '.join(given)}){arrow}"
    if len(line) <= _WIDTH or not given:
        return line
    return "\n".join([f"{head}(", *(f"    {each}," for each in given), f"){arrow}"])


# Classes ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Class:
    """A class with what it inherits from classes that are no names of the page.

    Attributes:
        module: where it is defined.
        node: its definition.
        ancestors: itself, and those whose members count as its own, nearest first.
        bases: the others.
        kinds: all that it inherits from, however far.
    """

    module: Module
    node: ast.ClassDef
    ancestors: list[tuple[Module, ast.ClassDef]]
    bases: list[str]
    kinds: frozenset[str]

    @property
    def is_enumeration(self) -> bool:
        return "StrEnum" in self.bases

    @property
    def is_protocol(self) -> bool:
        return "Protocol" in self.bases

    def members(self) -> Iterator[tuple[Module, ast.ClassDef, _Function]]:
        """Yield the functions, nearest first; what a nearer class has hides the rest."""
        seen: set[str] = set()
        for module, node in self.ancestors:
            for each in node.body:
                if isinstance(each, _Function) and each.name not in seen:
                    seen.add(each.name)
                    yield module, node, each

    def fields(self) -> list[tuple[Module, ast.AnnAssign]]:
        """Return the fields of a dataclass, a model or a named tuple."""
        return [
            (module, each)
            for module, node in reversed(self.ancestors)
            for each in node.body
            if isinstance(each, ast.AnnAssign) and not str(_name_of(each)).startswith("_")
            if "ClassVar" not in ast.unparse(each.annotation)
        ]

    @property
    def constructor(self) -> list[str] | None:
        """The parameters; None where they are the parent's, or nobody makes one."""
        if self.is_enumeration or self.is_protocol:
            return None
        for module, _, function in [*self._typed_constructors(), *self.members()]:
            if function.name == "__init__":
                return parameters(function, module, bound=True)
        if not self._is_made_of_fields:
            return None
        keywords = "BaseModel" in self.kinds or "kw_only=True" in self._decorators
        given = ["*"] if keywords else []
        for module, each in self.fields():
            if (default := _default(each.value)) is not _NOT_GIVEN:
                given.append(_typed(str(_name_of(each)), each.annotation, default, module))
        return given

    @property
    def _decorators(self) -> str:
        return " ".join(map(ast.unparse, self.node.decorator_list))

    @property
    def _is_made_of_fields(self) -> bool:
        by_base = not self.kinds.isdisjoint({"NamedTuple", "BaseModel"})
        return bool(self.fields()) and (by_base or "dataclass" in self._decorators)

    def _typed_constructors(self) -> Iterator[tuple[Module, ast.ClassDef, _Function]]:
        # Under `if TYPE_CHECKING:` stands what a type checker, and so a reader, is to see.
        for each in self.node.body:
            if isinstance(each, ast.If):
                for inner in each.body:
                    if isinstance(inner, ast.FunctionDef):
                        yield self.module, self.node, inner


_NOT_GIVEN = ast.Constant(value=...)


def _default(value: ast.expr | None) -> ast.expr | None:
    """Return a field's default: None without one, `_NOT_GIVEN` where the class fills it itself."""
    if not isinstance(value, ast.Call):
        return value
    options = {each.arg: each.value for each in value.keywords}
    if (init := options.get("init")) is not None and not ast.literal_eval(init):
        return _NOT_GIVEN
    factory = options.get("default_factory")
    if isinstance(factory, ast.Lambda):
        return factory.body
    return ast.Call(factory, [], []) if factory is not None else options.get("default")


def read_class(module: Module, node: ast.ClassDef, public: frozenset[str]) -> Class:
    """Return a class; what is inherited from one that is not `public` counts as its own."""
    ancestors, bases = [(module, node)], []
    kinds: set[str] = set()
    for base in node.bases:
        name = ast.unparse(base)
        home = home_of(module.name, name)
        inherited = None
        if home is not None and isinstance(home[1], ast.ClassDef):
            inherited = read_class(home[0], home[1], public)
            kinds |= inherited.kinds
        kinds.add(name)
        if inherited is None or name in public:
            if name not in ("ABC", "Exception") and not name.startswith("Generic"):
                bases.append(name)
        else:
            ancestors += [each for each in inherited.ancestors if each not in ancestors]
            bases += inherited.bases
    return Class(module, node, ancestors, bases, frozenset(kinds))


# Docstrings ---------------------------------------------------------------------------------------

_SECTIONS = {
    "Args": "Arguments",
    "Attributes": "Attributes",
    "Raises": "Raises",
    "Returns": "Returns",
    "Yields": "Yields",
}
_SECTION = re.compile(rf"^({'|'.join(_SECTIONS)}):$", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): ", re.MULTILINE)


def described(docstring: str | None, attributes: dict[str, str] | None = None) -> str:
    """Return a docstring as Markdown; its sections become lists.

    Args:
        docstring: the docstring, without its indentation.
        attributes: what is listed as attributes, instead of the section of that name.
    """
    parts = [_SECTION.split(docstring or "")[0].strip()]
    for title, body in _sections(docstring):
        entries = _entries(body)
        if entries and title in ("Args", "Raises"):
            parts.append(_list(_SECTIONS[title], entries))
        elif title != "Attributes":
            parts.append(f"**{_SECTIONS[title]}** {_joined(body)}")
    if attributes:
        parts.append(_list("Attributes", attributes))
    return "\n\n".join(part for part in parts if part)


def _sections(docstring: str | None) -> Iterator[tuple[str, str]]:
    _, *sections = _SECTION.split(docstring or "")
    yield from zip(sections[::2], sections[1::2], strict=True)


def _entries(body: str) -> dict[str, str]:
    _, *entries = _ENTRY.split(body)
    return dict(zip(entries[::2], map(_joined, entries[1::2]), strict=True))


def _joined(text: str) -> str:
    return " ".join(text.split())


def _list(title: str, told: dict[str, str]) -> str:
    lines = [f"- `{name}`: {what}" for name, what in told.items()]
    return "\n".join([f"**{title}**", "", *lines])


def _code(text: str) -> str:
    return f"```python\n{_quoted(text)}\n```"


def _quoted(text: str) -> str:
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', text)  # as this project writes strings


# The page -----------------------------------------------------------------------------------------


class Page:
    """The page, as it is put together."""

    def __init__(self) -> None:
        self._parts: list[str] = [HEAD.strip()]
        names = [(module, name) for module in MODULES for name in public_names(module)]
        self._public = frozenset(name for _, name in names)
        self._homes = {id(home[1]) for each in names if (home := home_of(*each)) is not None}
        self._told: dict[int, str] = {}  # what was described already, by the definition
        self._named: dict[
            str, list[tuple[Module, _Definition]]
        ] = {}  # what signatures name besides

    def text(self) -> str:
        """Return the whole page."""
        self._parts.append("\n".join(f"- {link(name)}" for name in MODULES))
        for name in MODULES:
            self._module(name)
        self._types()
        return "\n\n".join(self._parts) + "\n"

    def _add(self, *parts: str) -> None:
        self._parts += [part for part in parts if part]

    def _module(self, name: str) -> None:
        module, names = read_module(name), public_names(name)
        self._add(f"## `{name}`", described(ast.get_docstring(module.tree)))
        homes = {each: home for each in names if (home := home_of(name, each)) is not None}
        told_at = {
            each: home.name if home.name in MODULES else name for each, (home, _) in homes.items()
        }
        for other in MODULES:
            found = [each for each in names if told_at[each] == other and not each.startswith("_")]
            if len(found) > 1:
                told = "Here" if other == name else f"From {link(other)}"
                self._add(f"{told}: {', '.join(map(link, found))}.")
        for each, (place, node) in homes.items():
            if told_at[each] == name:
                self._definition(each, place, node)

    def _definition(self, name: str, module: Module, node: _Definition) -> None:
        match node:
            case ast.ClassDef():
                self._add(f"### `{name}`")
                self._class(name, read_class(module, node, self._public))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._add(f"### `{name}`")
                self._function(name, module, node)
            case _ if not name.startswith("__"):
                self._add(f"### `{name}`")
                self._alias(name, module, node)

    def _alias(self, name: str, module: Module, node: ast.Assign | ast.AnnAssign) -> None:
        self._note([node.value], module)
        self._add(_code(f"{name} = {annotation(node.value)}"), described(module.docs.get(name)))

    def _class(self, name: str, cls: Class) -> None:
        given = cls.constructor
        if given is not None:
            self._add(_code(called(f"class {name}", given)))
        if cls.is_protocol:
            self._add("A protocol: whatever has these methods is one.")
        elif cls.bases:
            told = [link(base) if base in self._public else f"`{base}`" for base in cls.bases]
            self._add(f"A kind of {' and '.join(told)}.")
        docstring = ast.get_docstring(cls.node)
        self._add(described(docstring, self._attributes(cls)))
        for module, node in cls.ancestors:
            self._note(_annotations(node), module)
            # What is said of the calls of both clients, once.
            if node.name == "Endpoints" and name == "Client":
                self._add(described(ast.get_docstring(node)))
        for module, _, function in cls.members():
            decorators = {ast.unparse(each) for each in function.decorator_list}
            if function.name.startswith("_") or _is_property(function):
                continue
            self._method(name, cls, module, function, decorators)

    def _attributes(self, cls: Class) -> dict[str, str]:
        """Return what the class says of its attributes, in a section or behind each of them."""
        told: dict[str, str] = {}
        for _, node in cls.ancestors:
            for title, body in _sections(ast.get_docstring(node)):
                if title == "Attributes":
                    told |= _entries(body) | told
        for _, node in cls.ancestors:
            docs = dict(_docs_after(node.body))
            for each in node.body:
                name = _name_of(each)
                if name in docs:
                    value = ast.unparse(each.value) if isinstance(each, ast.Assign) else ""
                    shown = f"{name} = {_quoted(value)}" if cls.is_enumeration else str(name)
                    told.setdefault(shown, _joined(docs[name]))
        for _, _, function in cls.members():
            if _is_property(function) and not function.name.startswith("_"):
                shown = f"{function.name}: {annotation(function.returns)}"
                told[shown] = _joined(ast.get_docstring(function) or "")
        return told

    def _method(
        self, of: str, cls: Class, module: Module, function: _Function, decorators: set[str]
    ) -> None:
        name = f"{of}.{function.name}"
        self._add(f"#### `{name}`")
        is_endpoint = "endpoint" in decorators
        awaits = isinstance(function, ast.AsyncFunctionDef)
        result = annotation(function.returns)
        if is_endpoint:
            result = re.fullmatch(r"Request\[(.*)\]", result)[1]  # type: ignore[index] # or it fails
            awaits = any(node.name == "AsyncDriver" for _, node in cls.ancestors)
        elif result == "Self":
            result = of
        given = parameters(function, module, bound="staticmethod" not in decorators)
        self._add(_code(called(f"{'async ' if awaits else ''}def {function.name}", given, result)))
        if id(function) in self._told:
            first = self._told[id(function)]
            awaited = ", awaited" if is_endpoint and awaits else ""
            self._add(f"As {link(first)}{awaited}.")
        else:
            self._told[id(function)] = name
            self._add(described(ast.get_docstring(function)))

    def _function(self, name: str, module: Module, function: _Function) -> None:
        kinds = {ast.unparse(each) for each in function.decorator_list}
        given, result = parameters(function, module, bound=False), annotation(function.returns)
        if "pytest.fixture" in kinds:
            result = re.sub(r"^Iterator\[(.*)\]$", r"\1", result)
            self._add(_code(f"@pytest.fixture\ndef {name}() -> {result}"))
        elif "contextmanager" in kinds:
            self._add(_code(called(f"with {name}", given)))
        else:
            self._note(_annotations(function), module)
            head = f"{'async ' if isinstance(function, ast.AsyncFunctionDef) else ''}def {name}"
            self._add(_code(called(head, given, result)))
        self._add(described(ast.get_docstring(function)))

    # Names in signatures that no module lists

    def _note(self, shown: Iterable[ast.expr | None], module: Module) -> None:
        """Keep the names of the packages that stand in signatures, for the end of the page."""
        for name in chain.from_iterable(map(_names, shown)):
            home = home_of(module.name, name)
            if home is None or name.startswith("_") or id(home[1]) in self._homes:
                continue
            known = self._named.setdefault(name, [])
            if home not in known:
                known.append(home)
                if isinstance(home[1], ast.Assign | ast.AnnAssign):
                    self._note([home[1].value], home[0])

    def _types(self) -> None:
        if not self._named:
            return
        self._add(
            "## What signatures name besides",
            "These names help to read the page. They are not kept, and not for import.",
        )
        self._named.pop("Request", None)  # what an endpoint returns, before a client sends it
        for name, homes in sorted(self._named.items()):
            self._add(f"### `{name}`")
            for module, node in homes:
                if len(homes) > 1:
                    self._add(f"Of `{module.name.partition('._')[0]}`:")
                if isinstance(node, ast.Assign | ast.AnnAssign):
                    self._alias(name, module, node)
                else:
                    self._add(described((ast.get_docstring(node) or "").partition("\n\n")[0]))


def _is_property(function: _Function) -> bool:
    return "property" in map(ast.unparse, function.decorator_list)


def _annotations(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the annotations that a reader sees of a class or a function."""
    if isinstance(node, ast.ClassDef):
        for each in node.body:
            if isinstance(each, ast.AnnAssign) and not str(_name_of(each)).startswith("_"):
                yield each.annotation
            elif isinstance(each, _Function) and (
                each.name == "__init__" or not each.name.startswith("_")
            ):
                yield from _annotations(each)
    elif isinstance(node, _Function):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        for annotated in [*(each.annotation for each in arguments), node.returns]:
            if annotated is not None:
                yield annotated


def _names(annotated: ast.expr | None) -> list[str]:
    shown = ast.parse(annotation(annotated))
    return [each.id for each in ast.walk(shown) if isinstance(each, ast.Name)]


def anchor(heading: str) -> str:
    """Return what a link to a heading ends with."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


def link(name: str) -> str:
    """Return a link to the name's heading."""
    return f"[`{name}`](#{anchor(name)})"


def written() -> str:
    """Return the page as the code says it now."""
    return Page().text()


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(written(), encoding="utf-8")
