"""Chromium, as Debian has it, with playwright from PyPI; and clusters as people start them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.needs import find, needing

CHROMIUM = find("chromium") or find("google-chrome")
SECONDS_MAX = 300
EXPECTED_SECONDS = 60
"""Until a page has to show something. Playwright's own 5 s measure how busy the machine is."""
expect.set_options(timeout=1000 * EXPECTED_SECONDS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "console/browser" in item.path.as_posix():
            item.add_marker(pytest.mark.second_tier)
            item.add_marker(pytest.mark.timeout(SECONDS_MAX))


@pytest.fixture(scope="module")
@needing("chromium")
def browser() -> Iterator[Browser]:
    """A browser that knows no page yet. It ends with the file: as long as it is there, playwright's event loop runs in this thread,
    and no other one may."""
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()
