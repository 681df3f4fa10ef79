"""The Chromium that is installed on this machine, for Playwright."""

import os
import shutil
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def options() -> dict[str, Any]:
    """Return what `playwright.chromium.launch` takes; without a Chromium, the test is skipped."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip(f"no Chromium on PATH (looked for {', '.join(_NAMES)})")
    # Chromium's sandbox refuses to run for root.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    return {"executable_path": found, "args": flags}
