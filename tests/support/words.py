"""Lists every sentence that the product can say, module by module: tests/words.txt.

    scripts/words            shows what differs from the approved file, and exits with 1
    scripts/words --accept   writes the approved file anew

A sentence is a text of three words or more in the code of a package: messages of errors and logs,
help of options, answers. What stands for a value is shown as its expression. Docstrings are left
out (the reference and the help pages show them), and so are statements for a database.
"""

import argparse
import ast
import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
APPROVED = ROOT / "tests" / "words.txt"
SOURCES = (ROOT / "connectors", ROOT / "airflow_provider", ROOT / "service/knowledge_bot_service")

_THREE_WORDS = re.compile(r"[A-Za-z]{2,}[^\w\s]* \S*[A-Za-z]\S* \S*[A-Za-z]")
# A regular expression, or a statement for a database.
_NO_SENTENCE = re.compile(
    r"\(\?|\\[bsw]|^\s*(--|[A-Z]+ (KEY|NOT NULL)|BIGINT|ALTER|BEGIN|CREATE|DELETE|DROP|INSERT"
    r"|ON CONFLICT|PRAGMA|SELECT|SET|UPDATE|VALUES|WHERE|WITH)\b"
)


def sentences() -> dict[str, list[str]]:
    """Return the sentences of each module that has some, in the order of its lines."""
    found = {}
    for source in SOURCES:
        for file in sorted(source.rglob("*.py")):
            said = list(dict.fromkeys(_said(ast.parse(file.read_text("utf-8")))))
            if said:
                found[str(file.relative_to(source))] = said
    return found


def _said(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        if isinstance(node, ast.Constant | ast.JoinedStr):
            text = _text(node)
            if _THREE_WORDS.search(text) and not _NO_SENTENCE.search(text):
                yield " ".join(text.split())
            if isinstance(node, ast.JoinedStr):
                for part in node.values:
                    yield from _said(part)
        else:
            yield from _said(node)


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(
        f"{{{ast.unparse(part.value)}}}"
        if isinstance(part, ast.FormattedValue)
        else str(getattr(part, "value", ""))
        for part in node.values
    )


def text() -> str:
    """Return the file as it should be."""
    return "\n".join(
        f"# {module}\n" + "".join(f"{sentence}\n" for sentence in said)
        for module, said in sentences().items()
    )


def main() -> int:
    """Compare with the approved file, or write it."""
    parser = argparse.ArgumentParser(prog="scripts/words", description=__doc__.partition("\n")[0])
    parser.add_argument("--accept", action="store_true", help="write tests/words.txt anew")
    if parser.parse_args().accept:
        APPROVED.write_text(text(), "utf-8")
        return 0
    approved = APPROVED.read_text("utf-8")
    differing = list(
        difflib.unified_diff(approved.splitlines(), text().splitlines(), "approved", "now", n=0)
    )
    sys.stdout.writelines(f"{line}\n" for line in differing)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
