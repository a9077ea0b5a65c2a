"""The console of four emulated Macs, each pair joined by a cable."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.cluster import Cluster
from tests.e2e.emulated_macs.macs import macs

from .everybody import WIDE, violations
from .pages import console_of, opened


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with macs(tmp_path_factory.mktemp("macs"), "four-studios", console=True) as started:
        yield started


@pytest.fixture(scope="module")
def base(made: Cluster) -> str:
    return console_of(made)


def test_a_pulled_cable_turns_red_while_the_page_is_looked_at(
    browser: Browser, base: str, made: Cluster
) -> None:
    with opened(browser, base, "/cabling") as page:
        expect(page.locator(".cable.good")).to_have_count(6)
        page.evaluate("window.kept = true")
        made.run("sandbox", "unplug", "studio-1/3")
        made.wait("the fact", lambda: any(state != "Connected" for state in states(made)), pause=0.02)
        expect(page.locator(".cable.bad")).to_have_count(1)
        expect(page.locator(".todo")).to_contain_text("plug a Thunderbolt 5 cable into studio-1/3")
        assert page.evaluate("window.kept"), "it was not loaded again"
        assert violations(page) == []
        page.set_viewport_size(WIDE)
        page.goto(base)
        expect(page.locator(".todo")).to_be_in_viewport()
        expect(page.locator("#machine-studio-4")).to_be_in_viewport(ratio=1)
        page.goto(f"{base}/cabling")
        made.run("sandbox", "plug", "studio-1/3")
        expect(page.locator(".cable.good")).to_have_count(6)


def states(made: Cluster) -> list[str]:
    """The state of each cable, as `reconciler get fabric` has it."""
    return [
        link["state"] for each in made.json("get", "fabrics")["items"] for link in each["status"]["links"]
    ]
