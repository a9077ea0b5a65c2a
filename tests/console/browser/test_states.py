"""States of pages that a cluster which is well never shows, in Chromium: they are for everybody too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect

from reconciler.console.app import build_app
from reconciler.console.snapshot import Snapshot
from tests.console.chat.gateway_double import serving
from tests.console.doors import doors_of, key, secret, with_keys
from tests.console.snapshots import recorded

from .everybody import addresses, cut_off, violations
from .pages import opened

KNOWN = {"nodes": "studio-1", "deployments": "large", "chat": "large", "incidents": "1"}
NOBODY = (
    "/nodes/nobody",
    "/deployments/nobody",
    "/incidents/9999",
    "/history/0123456789",
    "/chat/nobody",
    "/logs/nobody.0.1.0",
    "/logs/nobody",
    "/nowhere",
)
"""Addresses of what does not exist."""


@contextmanager
def console(snapshot: Snapshot) -> Iterator[str]:
    """The console's URL. Its controller has answered this, and nothing comes any more."""
    doors = doors_of(snapshot)
    with serving(build_app(doors.feed, doors, doors.settings())) as address:
        yield f"http://{address}"


@pytest.fixture(scope="module")
def lost() -> Iterator[str]:
    """A console whose controller does not answer any more; a cable was pulled before."""
    known = recorded("cable-pulled")
    with console(replace(known, lost="it has given no answer for 4 s")) as base:
        yield base


@pytest.fixture(scope="module")
def keyed() -> Iterator[str]:
    """A console that asks for keys, of which one may look and one operate."""
    keys = key("victor", 1, "view"), key("alice", 2, "operate")
    with console(with_keys(recorded("cable-pulled"), *keys)) as base:
        yield base


def log_in(page: Page, base: str, number: int) -> None:
    page.goto(f"{base}/login", wait_until="domcontentloaded")
    page.get_by_label("API key").fill(secret(number))
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("h1")).to_have_text("Overview")


def test_every_page_is_for_everybody_while_the_controller_does_not_answer(
    browser: Browser, lost: str
) -> None:
    found = []
    with opened(browser, lost) as page:
        for address in addresses(KNOWN):
            page.goto(lost + address, wait_until="domcontentloaded")
            expect(page.locator(".banner")).to_contain_text("The controller does not answer")
            found += violations(page) + cut_off(page)
    assert found == []


def test_what_does_not_exist_is_said_on_a_page_for_everybody(browser: Browser, lost: str) -> None:
    found = []
    with opened(browser, lost, refused=True) as page:
        for address in NOBODY:
            page.goto(lost + address, wait_until="domcontentloaded")
            expect(page.locator("h1")).to_be_visible()
            found += violations(page)
        expect(page.locator("main")).to_contain_text("The console has no page at /nowhere")
    assert found == []


def test_the_login_is_for_everybody(browser: Browser, keyed: str) -> None:
    with opened(browser, keyed, "/deployments/large", refused=True) as page:
        expect(page.get_by_label("API key")).to_be_focused()
        found = violations(page)
        page.get_by_label("API key").fill("no key")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        found += violations(page)
        log_in(page, keyed, 1)
        expect(page.get_by_role("button", name="Log out")).to_be_visible()
        found += violations(page)
    assert found == []


def column(page: Page, region: str, number: int) -> list[str]:
    """The texts of a column of a table."""
    cells = page.get_by_role("region", name=region).locator(f"tbody tr > :nth-child({number})")
    return [text.strip() for text in cells.all_inner_texts()]


def test_a_table_is_sorted_by_the_heading_that_is_chosen_and_stays_so_with_news(
    browser: Browser, lost: str
) -> None:
    with opened(browser, lost, "/nodes") as page:
        before = column(page, "Machines", 1)
        heading = page.get_by_role("region", name="Machines").get_by_role("columnheader").first
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", "ascending")
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", "descending")
        down = column(page, "Machines", 1)
        assert (down, sorted(down)) == (sorted(before, reverse=True), sorted(before))
        page.evaluate(
            "() => { const each = document.querySelector('main section:has(table.machines)');"
            " put(each.id, each.innerHTML.replaceAll(/<button[^>]*>|<.button>/g, '')); }"
        )
        assert column(page, "Machines", 1) == down
        heading.get_by_role("button").click()
        assert column(page, "Machines", 1) == before
        assert violations(page) == []


def test_colours_are_as_they_were_chosen_on_every_page(browser: Browser, lost: str) -> None:
    with opened(browser, lost, color_scheme="light") as page:
        ground = "() => getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        page.get_by_label("Theme").select_option("dark")
        dark = page.evaluate(ground)
        page.goto(f"{lost}/nodes", wait_until="domcontentloaded")
        assert (page.evaluate(ground), dark != light) == (dark, True)
        expect(page.get_by_label("Theme")).to_have_value("dark")
        page.get_by_label("Theme").select_option("System")
        assert page.evaluate(ground) == light


def test_a_slash_leads_to_the_search_and_enter_to_what_it_finds(browser: Browser, lost: str) -> None:
    with opened(browser, lost, "/nodes") as page:
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox")).to_be_focused()
        page.keyboard.type("bridge studio-3")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Search")
        assert violations(page) + cut_off(page) == []
        page.get_by_role("region", name="Incidents").get_by_role("link", name="node/studio-3").click()
        expect(page.locator("h1")).to_have_text("Incident 1")
