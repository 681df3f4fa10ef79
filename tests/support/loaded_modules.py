"""Which modules an import loads."""

import functools
import subprocess
import sys


@functools.cache
def loaded_by(statement: str, after: str = "") -> set[str]:
    """The modules that a statement loads in a new interpreter, after others."""
    code = (
        f"import sys\n{after}\nbefore = set(sys.modules)\n{statement}\n"
        "print(*sys.modules.keys() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())
