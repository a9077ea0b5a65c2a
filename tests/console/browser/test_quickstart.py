"""The console of a quickstart: two ranks on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.cluster import Cluster, quickstart

from .pages import console_of, opened


@pytest.fixture(scope="module")
def made() -> Iterator[Cluster]:
    with quickstart(console=True) as started:
        started.wait_settled()
        yield started


@pytest.fixture(scope="module")
def base(made: Cluster) -> str:
    return console_of(made)


def test_the_first_page_says_what_is_served(browser: Browser, base: str, made: Cluster) -> None:
    with opened(browser, base) as page:
        expect(page.locator(".headline")).to_contain_text("tiny is served")
        expect(page.locator("#machines")).to_contain_text("node-a")
