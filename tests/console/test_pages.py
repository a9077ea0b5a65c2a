"""Each page has its content in the HTML that the server sends: nothing needs a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.console.pages import PAGES, Page, Pages
from reconciler.console.snapshot import Snapshot

from .doors import client_of, doors_of
from .snapshots import enlarged, loading, page_of, recorded

HOSTILE = '<script>alert("x")</script>'


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_every_page_can_be_shown_before_the_controller_has_answered(page: Page) -> None:
    assert "<h1" in Pages().whole(page, "tiny", Snapshot(), wall=False)


STATES: dict[str, Callable[[], Snapshot]] = {
    "four Macs": lambda: recorded("four-macs"),
    "a pulled cable": lambda: recorded("cable-pulled"),
    "a cable that is pulled while the controller is gone": lambda: replace(
        recorded("cable-pulled"), lost="no controller answers"
    ),
    "a group that loads": loading,
    "two hundred Macs": lambda: enlarged(200),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_every_page_can_be_shown_of_everything_in_every_state(page: Page, state: str) -> None:
    snapshot = STATES[state]()
    names = [each["metadata"]["name"] for each in snapshot.objects[:12]] if "{name}" in page.path else [""]
    for name in names:
        assert "<h1" in Pages().whole(page, name, snapshot, wall=False)


def test_the_overview_says_what_is_served_and_where() -> None:
    shown = page_of(recorded("four-macs"), "/")
    assert "studio-1" in shown
    assert "served" in shown


def test_an_address_without_a_page_says_so() -> None:
    client = client_of(doors_of(recorded("four-macs")))
    answer = client.get("/nowhere/<b>")
    assert answer.status_code == 404
    assert "<code>/nowhere/&lt;b&gt;</code>" in answer.text
    assert 'href="/cabling"' in answer.text
    for path in ("/live/nowhere", "/static/nowhere.js"):
        assert client.get(path).headers["content-type"].startswith("text/plain")


def test_browsers_may_keep_the_files_of_a_page_until_they_are_others() -> None:
    client = client_of(doors_of(recorded("four-macs")))
    address = re.search(r'href="(/static/console\.css\?\w+)"', client.get("/").text)
    assert address is not None
    style = client.get(address[1])
    assert style.headers["content-type"].startswith("text/css")
    assert "immutable" in style.headers["cache-control"]
    assert client.get("/static/console.css").headers["cache-control"] == "no-cache"
    assert client.get("/static/live.js").headers["content-type"].startswith("text/javascript")


def test_a_pulled_cable_is_red_and_says_what_to_do() -> None:
    shown = page_of(recorded("cable-pulled"), "/cabling")
    assert re.search(r'class="cable bad"', shown)
    assert not re.search(r'class="cable bad"', page_of(recorded("four-macs"), "/cabling"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_what_a_rank_or_a_commit_says_is_never_markup(page: Page) -> None:
    snapshot = recorded("cable-pulled")
    events: Any = tuple(
        {**event, "message": HOSTILE, "object": f"node/{HOSTILE}"} for event in snapshot.events
    )
    incidents: Any = tuple(
        {**each, "summary": HOSTILE, "title": HOSTILE, "doing": HOSTILE} for each in snapshot.incidents
    )
    shown = Pages().whole(page, HOSTILE, replace(snapshot, events=events, incidents=incidents), wall=False)
    assert HOSTILE not in shown
    assert "<script>" not in shown


def test_a_controller_that_is_gone_is_said_with_the_time_of_what_is_shown() -> None:
    shown = page_of(replace(recorded("four-macs"), lost="no controller answers"), "/")
    assert "The controller does not answer" in shown
    assert "2025-11-25" in shown
