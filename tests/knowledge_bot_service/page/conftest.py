"""A headless Chromium that is installed on this machine; without one these tests are skipped."""

import os
import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, async_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip(f"no Chromium on PATH (looked for {', '.join(_NAMES)})")
    # Chromium's sandbox refuses to run for root.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=found, args=flags)
        yield launched
        await launched.close()
