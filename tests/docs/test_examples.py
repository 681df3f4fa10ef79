"""Every public name has an example: in a block of a page, in a docstring, or in examples/."""

import re

from docs.names import PUBLIC
from docs.pages import PAGES, ROOT, blocks

SOURCES = [
    *(ROOT / "connectors").rglob("*.py"),
    *(ROOT / "airflow_provider").rglob("*.py"),
    *(ROOT / "service/knowledge_bot_service").rglob("*.py"),
]
IN_DOCSTRINGS = re.compile(
    r"```python\n(.*?)```|^ {4,8}(?:>>> |from knowledge_bot)(.*?)(?=\n\n|\"\"\")",
    re.DOTALL | re.MULTILINE,
)


def shown():
    """Return all code that readers are shown."""
    parts = [block.text for page in PAGES for block in blocks(page)]
    parts += [file.read_text(encoding="utf-8") for file in (ROOT / "examples").rglob("*.py")]
    for file in SOURCES:
        found = IN_DOCSTRINGS.findall(file.read_text(encoding="utf-8"))
        parts += ["\n".join(one) for one in found]
    return "\n".join(parts)


def test_every_public_name_has_an_example():
    words = set(re.findall(r"\w+", shown()))
    assert [name for name in PUBLIC if name.rpartition(".")[2] not in words] == []
