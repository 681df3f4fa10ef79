"""The pages that people read: the README, docs/, and what else stands at the top; and their blocks.

A comment before a block says what a reader does not see:

- `<!-- not run: why -->`: the block is only read, not run.
- `<!-- terminal: why -->`: neither, but a test of installing pastes it into a terminal of its own.
- `<!-- first: code -->`: Python that runs before it, for what the page says that a reader has.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from docs.parts import with_parts

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run|terminal|first): (?P<note>.*?) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$"
    r"(?:\n\n```text\n(?P<shown>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        language: what stands behind the fence.
        text: the code, without the page's indentation.
        shown: what it prints, as the block of text right behind it says.
        first: Python that runs before it.
        skipped: why it is not run; empty where it is.
        terminal: whether it is for a terminal of its own.
        line: where it begins in the page.
    """

    language: str
    text: str
    shown: str
    first: str
    skipped: str
    terminal: bool
    line: int

    @property
    def file(self) -> str:
        """The name of the file that the block is: its first line, as a comment."""
        named = re.match(r"# ([\w-]+\.\w+)\n", self.text)
        return named[1] if named else ""


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            language=found["language"],
            text=re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            shown=found["shown"] or "",
            first=found["note"] if found["mark"] == "first" else "",
            skipped=found["note"] if found["mark"] in ("not run", "terminal") else "",
            terminal=found["mark"] == "terminal",
            line=text.count("\n", 0, found.start("language")) + 1,
        )
        for found in _BLOCK.finditer(text)
    ]


def prose(page: Path) -> str:
    """Return a page without its blocks."""
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return what a link into a page may end with."""
    text = with_parts(prose(page))
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


def name_of(page: Path) -> str:
    """Return a page's path in the repository."""
    return page.relative_to(ROOT).as_posix()
