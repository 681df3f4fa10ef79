"""Runs the Python of a page: reads cells as lines of JSON, and says what each printed.

The cells share their names, as in a notebook. One whose text is a file is run as that file.
"""

import contextlib
import io
import json
import os
import runpy
import sys
import traceback


def main() -> None:
    """Run cells until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries write past Python is not what a cell prints
    sys.path[0] = os.getcwd()
    names = {"__name__": "__main__"}
    for line in sys.stdin:
        cell = json.loads(line)
        printed, failed = io.StringIO(), ""
        with contextlib.redirect_stdout(printed):
            try:
                exec(cell["first"], names)
                if cell["file"]:
                    runpy.run_path(cell["file"])
                else:
                    exec(compile(cell["text"], cell["name"], "exec"), names)
            except BaseException:  # noqa: BLE001 - the test says what the page raised
                failed = traceback.format_exc()
        print(
            json.dumps({"printed": printed.getvalue(), "failed": failed}), file=answers, flush=True
        )


if __name__ == "__main__":
    main()
