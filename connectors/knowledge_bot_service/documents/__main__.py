"""The child process: reads one document, writes its text or the reason as JSON to its output.

It ends when its standard input does, which the parent holds open: however the parent ends, the
child does not outlive it.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from knowledge_bot_service.documents.document import OUT_OF_MEMORY, Document, ExtractionError
from knowledge_bot_service.documents.docx import read_docx
from knowledge_bot_service.documents.html import read_html
from knowledge_bot_service.documents.pdf import read_pdf
from knowledge_bot_service.documents.xml import read_xml

_READERS: Final[dict[str, Callable[[Path, str | None], Document]]] = {
    "docx": lambda path, _: read_docx(path),
    "html": read_html,
    "pdf": lambda path, _: read_pdf(path),
    "xml": lambda path, _: read_xml(path),
}


def main() -> None:
    """Read what the command line names: kind, path, charset, seconds and bytes."""
    kind, path, charset, seconds, memory = sys.argv[1:]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Whatever a library prints must not get between the parent and its answer.
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _limit(float(seconds), int(memory))
    try:
        answer.write(json.dumps(_read(kind, Path(path), charset or None)))
        answer.flush()
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)


def _read(kind: str, path: Path, charset: str | None) -> dict[str, str | None]:
    try:
        document = _READERS[kind](path, charset)
    except ExtractionError as error:
        return {"reason": str(error)}
    except MemoryError:
        raise
    except RecursionError:
        return {"reason": "the document is nested too deeply"}
    except Exception as error:  # noqa: BLE001 (a parser's fault is the document's, not the service's)
        return {"reason": f"the document could not be read ({type(error).__name__})"}
    return {"text": document.text, "title": document.title}


def _end_with_parent() -> None:
    # Not sys.stdin.read: its lock, held at exit, would abort the interpreter.
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def _limit(seconds: float, memory: int) -> None:
    """Limit the memory; and the CPU time, for a parser that lets no other thread run."""
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for limit, value in ((resource.RLIMIT_CPU, int(seconds) + 1), (resource.RLIMIT_AS, memory)):
        _, hard = resource.getrlimit(limit)
        if hard == resource.RLIM_INFINITY or value < hard:
            resource.setrlimit(limit, (value, hard))


if __name__ == "__main__":
    main()
