"""Programs that share their imports: each is run as `__main__`, in a fork of one process."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

_HOST = """
import importlib, json, os, runpy, sys, tempfile, threading

for name in sys.argv[1:]:
    importlib.import_module(name)
assert threading.active_count() == 1, "a fork has only one of the threads"
for line in sys.stdin:
    program, folder, output, errors = json.loads(line)
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
os.chdir(folder)
for number, path, flags in (
    (0, os.devnull, os.O_RDONLY),
    (1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    (2, errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
):
    os.dup2(os.open(path, flags), number)
tempfile.tempdir = None
sys.argv[:] = [program]
sys.path[0] = os.path.dirname(program)
runpy.run_path(program, run_name="__main__")
"""


class ForkedPrograms:
    """Runs programs one after another, each in a process that has made some imports already.

    Args:
        modules: what is imported before the first program; it must start no thread.
        folder: the programs' working directory.
        environment: their environment.
        outputs: a folder for what they print.
    """

    def __init__(
        self, modules: list[str], folder: Path, environment: Mapping[str, str], outputs: Path
    ) -> None:
        self._folder, self._outputs = folder, outputs
        self._host = subprocess.Popen(
            [sys.executable, "-c", _HOST, *modules],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._host as host:
            if error is not None:
                host.kill()

    def run(self, program: Path) -> "subprocess.CompletedProcess[str]":
        """Run a program to its end, with an empty standard input."""
        assert self._host.stdin is not None
        assert self._host.stdout is not None
        output, errors = (self._outputs / f"{program.stem}.{end}" for end in ("out", "err"))
        request = [str(program), str(self._folder), str(output), str(errors)]
        self._host.stdin.write(json.dumps(request) + "\n")
        self._host.stdin.flush()
        code = int(self._host.stdout.readline())
        return subprocess.CompletedProcess(
            [str(program)], code, output.read_text(), errors.read_text()
        )
