"""The console of a quickstart: two ranks on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.cluster import Cluster, quickstart

from .everybody import PAGE_BYTES_MAX, TRANSFERRED, addresses, violations
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


NAMES = {"deployments": "tiny", "nodes": "node-a", "incidents": "1"}


def test_every_page_is_for_everybody(browser: Browser, base: str) -> None:
    """No serious violation by axe-core in light and dark, wide and narrow; no page is wider than the screen, or heavy."""
    found, heavy = [], {}
    with opened(browser, base) as page:
        for address in addresses(NAMES):
            page.goto(base + address, wait_until="domcontentloaded")
            expect(page.locator("h1")).to_be_attached()
            found += violations(page)
            heavy[address] = page.evaluate(TRANSFERRED)
    assert found == []
    assert {address: size for address, size in heavy.items() if size > PAGE_BYTES_MAX} == {}


def test_without_scripts_every_page_has_its_content(browser: Browser, base: str) -> None:
    words = {
        "/": "tiny is served",
        "/cabling": "No Fabric is declared",
        "/deployments": "1 of 1 replicas serve",
        "/deployments/tiny": "maxBatch",
        "/nodes": "node-b",
        "/nodes/node-a": "RuntimeReady",
        "/incidents": "reconciler incidents",
        "/events": "EpochAllocated",
        "/?wall": "tiny is served",
    }
    with opened(browser, base, java_script_enabled=False) as page:
        for address in addresses(NAMES):
            page.goto(base + address, wait_until="domcontentloaded")
            expect(page.locator("main")).to_contain_text(words.get(address, "The same"))


def test_the_keyboard_is_enough(browser: Browser, base: str) -> None:
    with opened(browser, base) as page:
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_text("Skip to the content")
        expect(page.locator(".skip")).to_be_in_viewport()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", "who comes by keyboard sees where they are"
        assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
        page.locator("nav a", has_text="Deployments").focus()
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Deployments")


def test_moments_are_as_the_browser_writes_them(browser: Browser, base: str) -> None:
    for locale, form in (("de-DE", r"^\d\d:\d\d:\d\d$"), ("en-US", r"^\d+:\d\d:\d\d\s[AP]M$")):
        with opened(browser, base, "/events", locale=locale, timezone_id="UTC") as page:
            expect(page.locator("#events time").first).to_have_text(re.compile(form))
