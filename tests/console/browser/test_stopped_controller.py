"""A controller that does not run for a minute: pages say so with the time of what they show, and go on by themselves."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest
from playwright.sync_api import Browser, Page, expect

from reconciler.console.feed import Beat
from tests.e2e.cluster import Cluster, quickstart
from tests.processes import resident_bytes, standing_still

from .everybody import violations
from .pages import console_of, opened

pytestmark = pytest.mark.nightly

MINUTE_SECONDS = 60.0
GROWTH_BYTES_MAX = 8 * 2**20
"""How much more memory the console may have after the minute."""


@pytest.fixture(scope="module")
def made() -> Iterator[Cluster]:
    with quickstart(console=True) as started:
        started.wait_settled()
        yield started


@contextmanager
def frozen(made: Cluster) -> Iterator[None]:
    """Its process is there, and gives no answer; `up`, which would continue it, gets no time of the machine."""
    assert made.up is not None
    with standing_still(made.up.pid, *made.controller()):
        yield


@contextmanager
def gone(made: Cluster) -> Iterator[None]:
    """It was killed, and whoever would start another one gets no time of the machine."""
    assert made.up is not None
    with standing_still(made.up.pid):
        for pid in made.controller():
            os.kill(pid, signal.SIGKILL)
        yield
    made.wait("a controller", lambda: made.json("get", "nodes")["items"])


def chatted(page: Page) -> None:
    """Ask something, and have the answer."""
    before = page.locator(".chat-told").count()
    page.get_by_label("Message to tiny").fill("Count from 1 to 5.")
    page.get_by_label("Message to tiny").press("Enter")
    expect(page.locator(".chat-told")).to_have_count(before + 1)
    expect(page.locator(".chat-told").last).to_contain_text("Answered by epoch")


@pytest.mark.parametrize("stopped", [frozen, gone])
def test_pages_tell_of_a_minute_without_a_controller_and_go_on(
    browser: Browser, made: Cluster, stopped: object
) -> None:
    base = console_of(made)
    console = int(json.loads((made.home / "console.json").read_bytes())["pid"])
    with opened(browser, base) as page, opened(browser, base, "/chat/tiny") as chat:
        expect(page.locator(".headline")).to_contain_text("tiny is served")
        expect(page.locator("#pulse")).to_be_visible()
        page.evaluate("window.kept = true")
        chatted(chat)
        memory = resident_bytes(console)
        with stopped(made):  # type: ignore[operator]
            began, stopped_at = time.monotonic(), time.time()
            banner = page.locator(".banner")
            expect(banner).to_contain_text("The controller does not answer")
            print(f"said after {time.monotonic() - began:.1f} s: {banner.inner_text()}")
            shown = datetime.fromisoformat(banner.locator("time").get_attribute("datetime") or "")
            assert stopped_at - Beat().seconds - 2 < shown.timestamp() <= stopped_at + 1
            expect(page.locator(".headline")).to_contain_text("tiny is served")
            assert violations(page) == []
            chatted(chat)
            while time.monotonic() - began < MINUTE_SECONDS:
                page.wait_for_timeout(1000)
                expect(banner).to_be_visible()
                assert banner.locator("time").get_attribute("datetime") == shown.isoformat().replace(
                    "+00:00", "Z"
                )
            with opened(browser, base, "/deployments/tiny") as newcomer:
                expect(newcomer.locator(".banner")).to_contain_text("The controller does not answer")
                expect(newcomer.locator(".lead")).to_contain_text("1 of 1 replicas serve")
        began = time.monotonic()
        expect(banner).to_have_count(0)
        print(f"gone after {time.monotonic() - began:.1f} s")
        made.run("cordon", "node-b", "--reason", "the fan is loud")
        expect(page.locator("#machine-node-b")).to_contain_text("cordoned")
        made.run("uncordon", "node-b")
        chatted(chat)
        assert page.evaluate("window.kept"), "the page was not loaded anew"
        assert console == int(json.loads((made.home / "console.json").read_bytes())["pid"])
        print(f"console: {memory / 2**20:.1f} MiB, then {resident_bytes(console) / 2**20:.1f} MiB")
        assert resident_bytes(console) < memory + GROWTH_BYTES_MAX
