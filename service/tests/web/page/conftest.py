"""A headless Chromium that is installed on this machine; without one these tests are skipped."""

import pytest_asyncio
from playwright.async_api import async_playwright

import chromium


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    """One for all tests of a module: each page that is opened has a context of its own."""
    options = chromium.options()
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(**options)
        yield launched
        await launched.close()
