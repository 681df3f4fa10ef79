"""A headless Chromium that is installed on this machine; without one these tests are skipped."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, async_playwright

import chromium


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    options = chromium.options()
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(**options)
        yield launched
        await launched.close()
