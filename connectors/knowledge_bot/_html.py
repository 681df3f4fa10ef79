"""Small pieces of HTML, for what a notebook shows of an object (`_repr_html_`)."""

from collections.abc import Iterable, Sequence
from html import escape


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table of texts and numbers; what they hold is shown as it is."""
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def paragraphs(text: str) -> str:
    """Return a text with its paragraphs and line ends."""
    parts = (escape(part).replace("\n", "<br>") for part in text.split("\n\n") if part.strip())
    return "".join(f"<p>{part}</p>" for part in parts)


def listed(title: str, names: Sequence[str]) -> str:
    """Return names below a title; nothing where there are none."""
    if not names:
        return ""
    items = "".join(f"<li>{escape(name)}</li>" for name in names)
    return f"<p>{escape(title)}</p><ul>{items}</ul>"


def _row(tag: str, cells: Iterable[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"
