"""The console of a quickstart: two ranks on this machine."""

from __future__ import annotations

import os
import re
import signal
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


LONG = "Count from 1 to 100."
"""The model knows the answer by heart, and it takes some seconds."""
HEALED_MILLISECONDS = 60_000


def test_a_chat_goes_on_after_a_pause_when_a_rank_is_killed(
    browser: Browser, base: str, made: Cluster
) -> None:
    with opened(browser, base, "/chat/tiny") as page:
        page.get_by_text("Settings").click()
        page.get_by_label("Temperature").fill("0")
        page.get_by_label("Most tokens").fill("200")
        page.get_by_label("Message to tiny").fill(LONG)
        page.get_by_label("Message to tiny").press("Enter")
        expect(page.locator(".chat-answer")).to_contain_text("5, 6, 7")
        rank = made.ranks()[1]
        os.kill(rank["pid"], signal.SIGKILL)
        expect(page.locator(".chat-pause")).to_contain_text("Paused: the group is being formed again")
        expect(page.locator("#chat_state")).to_contain_text("rank crash", timeout=HEALED_MILLISECONDS)
        told = page.locator(".chat-facts")
        expect(told).to_contain_text(re.compile(r"Paused for \d+(\.\d)? s"), timeout=HEALED_MILLISECONDS)
        expect(told).to_contain_text(f"Continued by epoch {rank['epoch'] + 1} on node-a, node-b.")
        expect(told).to_contain_text(f"Answered by epoch {rank['epoch']} on node-a, node-b")
        expect(told).to_contain_text(re.compile(r"first token after [\d.]+ m?s[\d.]+ tokens/s200 tokens"))
        seam = page.locator(".chat-seam").inner_text()
        counted = page.locator(".chat-answer").inner_text().replace(seam, "").replace(" ", "")
        assert ",".join(map(str, range(1, 101))).startswith(counted)


def test_a_chat_is_kept_over_a_reload_and_works_without_scripts(browser: Browser, base: str) -> None:
    with opened(browser, base, "/chat") as page:
        page.get_by_label("Message to tiny").fill("What is reconciler?")
        page.get_by_role("button", name="Send").click()
        expect(page.locator(".chat-told")).to_contain_text("Answered by epoch")
        answer = page.locator(".chat-answer").inner_text()
        page.reload()
        expect(page.locator(".chat-answer")).to_have_text(answer)
    with opened(browser, base, "/chat/tiny", java_script_enabled=False) as page:
        page.get_by_label("Message to tiny").fill("What is reconciler?")
        page.get_by_role("button", name="Send").click()
        expect(page.locator(".chat-model .chat-plain")).to_contain_text("reconcile")
        expect(page.locator(".chat-facts")).to_contain_text("Answered by epoch")
