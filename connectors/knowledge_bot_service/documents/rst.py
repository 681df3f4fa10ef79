"""reStructuredText, as Sphinx has it: docutils reads it, and the reader of pages takes the text."""

# Lists of words read best as words.
# ruff: noqa: SIM905

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from knowledge_bot_service.documents.document import Document
from knowledge_bot_service.documents.html import main_text

if TYPE_CHECKING:
    from docutils import nodes
    from docutils.parsers.rst import Directive


# Directives of Sphinx, in MyST as well: those of code, and those without text.
CODE: Final = frozenset(
    "code code-block code-cell doctest ipython math parsed-literal prompt sourcecode testcode"
    " testoutput".split()
)
WITHOUT_TEXT: Final = frozenset(
    "autoclass autodata autoexception autofunction automethod automodule autosummary contents"
    " currentmodule default-domain figure graphviz highlight image include index"
    " inheritance-diagram literalinclude mermaid meta module program-output py:currentmodule raw"
    " sectionauthor tabularcolumns toctree".split()
)


def read_rst(source: str) -> Document:
    """The text of a document in reStructuredText; its first heading is the title.

    Headings, lists, tables and code are as in Markdown. What a directive sets off is text like any
    other, after what it is about: an option, a version. Nothing is included from other files, and
    what docutils cannot read (or not at once: more than 2 MiB) is read as a text without marks.
    """
    from docutils import ApplicationError
    from docutils.core import publish_string

    if len(source) > _MAX_SIZE:
        return Document(source)
    _know(_ROLE.findall(source), _DIRECTIVE.findall(source))
    try:
        page = publish_string(
            source, source_path="", writer="html5", settings_overrides={**_SETTINGS}
        )
    except (ApplicationError, RecursionError):
        return Document(source)
    return main_text(str(page))


def reference(text: str) -> str:
    """What a reader sees of a reference in Sphinx's form, in MyST as well.

    That is its title, "guide" of `guide <../guide>`, or the last part of a target, "read" of
    `~files.read`.
    """
    match = _TITLED.fullmatch(text) or _SHORT.fullmatch(text)
    return match[1].strip() if match else text.strip()


# docutils reads some 200 KB a second, and a document may take 30 seconds.
_MAX_SIZE: Final = 2 * 1024 * 1024

_SETTINGS: Final[Mapping[str, Any]] = {
    "_disable_config": True,
    "doctitle_xform": False,
    "embed_stylesheet": False,
    "file_insertion_enabled": False,
    "halt_level": 6,
    "initial_header_level": 1,
    "input_encoding": "unicode",
    "line_length_limit": _MAX_SIZE,
    "math_output": "LaTeX",
    "output_encoding": "unicode",
    "raw_enabled": False,
    "report_level": 6,
    "stylesheet": None,
    "stylesheet_path": None,
    "syntax_highlight": "none",
    "toc_backlinks": False,
}

_ROLE: Final = re.compile(r"(?<!\w):([a-zA-Z][\w.+:-]*):`")
_DIRECTIVE: Final = re.compile(
    r"^[ \t]*\.\.[ \t]+(?:\|[^|\n]+\|[ \t]+)?([a-zA-Z][\w.+:-]*)::", re.MULTILINE
)

_TITLED: Final = re.compile(r"([^<>]+)<[^<>]+>")
_SHORT: Final = re.compile(r"!?~(?:[^<>]*[./])?([^<>./]+)")

# What is told before the text of some directives.
_SINCE: Final = {
    "deprecated": "Deprecated since ",
    "versionadded": "New in ",
    "versionchanged": "Changed in ",
    "versionremoved": "Removed in ",
}


def _know(roles: Iterable[str], directives: Iterable[str]) -> None:
    """Tell docutils of the roles and directives of a document that it does not know itself."""
    from docutils.parsers.rst.directives import register_directive
    from docutils.parsers.rst.languages import en
    from docutils.parsers.rst.roles import register_local_role

    for role in {*roles} - {*en.roles}:
        register_local_role(role, _read_role)  # type: ignore[arg-type] # any node may be made
    for name in {*directives}:
        if name in WITHOUT_TEXT | CODE or name not in en.directives:
            register_directive(name, _any_directive())


def _read_role(
    _name: str,
    markup: str,
    text: str,
    *_: object,
) -> "tuple[list[nodes.Node], list[nodes.system_message]]":
    """What a reader sees of a role's text, which is a reference mostly."""
    from docutils import nodes
    from docutils.utils import unescape

    return [nodes.inline(markup, reference(unescape(text)))], []


@functools.cache
def _any_directive() -> "type[Directive]":
    """The directive that stands for any that docutils does not know.

    Made when it is needed: nobody who reads other documents loads docutils.
    """
    from docutils import nodes
    from docutils.parsers.rst import Directive
    from docutils.parsers.rst.directives import unchanged

    class AnyDirective(Directive):
        """Its text, after what it is about."""

        optional_arguments = 1
        final_argument_whitespace = True
        has_content = True
        # Every option is taken, and none of them read.
        option_spec = defaultdict(lambda: unchanged, name=unchanged)  # noqa: RUF012 - as docutils has it

        def run(self) -> list[nodes.Node]:
            if self.name in WITHOUT_TEXT:
                return []
            if self.name in CODE:
                code = "\n".join(self.content)
                return [nodes.literal_block(code, code)] if code.strip() else []
            about = self.arguments[0] if self.arguments else ""
            if self.name in _SINCE:
                version, _, words = about.partition("\n" if "\n" in about else " ")
                about = f"{_SINCE[self.name]}{version}{words and ': '}{words}"
            told, _ = self.state.inline_text(about, self.lineno)
            whole = nodes.container()
            self.state.nested_parse(self.content, self.content_offset, whole)
            if about and whole.children and isinstance(whole[0], nodes.paragraph):
                whole[0].insert(0, [*told, nodes.Text(": ")])
            elif about:
                whole.insert(0, nodes.paragraph("", "", *told))
            return [whole]

    return AnyDirective
