"""The status of a SyncWindow: open or not, until when or from when, and what it holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from reconciler import status
from reconciler.state import Memory, Observed, Plan
from reconciler.state.desired import Desired
from reconciler.state.held_changes import HeldChange, HeldChanges
from reconciler.state.identity import ObjectKey
from reconciler.status import Snapshots
from tests.worlds import sync_window

KEY = ObjectKey("SyncWindow", "office-hours")
TINY = ObjectKey("ModelDeployment", "tiny")


def told(moment: str, held: HeldChanges | None = None) -> tuple[str, str, dict[str, Any]]:
    desired = replace(Desired.of("1", [sync_window()]), held_changes=held)
    now = datetime.fromisoformat(moment).timestamp()
    found = status.statuses(Snapshots(desired, Observed(), Memory(token=0), Plan(), now), {})[KEY]
    ready = found.condition("Ready")
    assert ready is not None
    assert ready.status, "there is nothing about a window that could fail"
    return ready.reason, ready.message, dict(found.extra)


def test_an_open_window_says_until_when_and_what_it_holds() -> None:
    until = datetime.fromisoformat("2026-11-25T18:00:00Z").timestamp()
    held = HeldChanges(
        "2", (HeldChange(TINY, ("other", "office-hours"), until), HeldChange(TINY, ("another",), until))
    )
    reason, text, extra = told("2026-11-25T12:00:00Z", held)
    assert (reason, text) == ("Active", "active until 2026-11-25T18:00:00Z; holds 1 change")
    assert (extra["active"], extra["until"], extra["holds"]) == (True, until, ["modeldeployment/tiny"])


def test_one_that_is_not_open_says_when_it_begins() -> None:
    reason, text, extra = told("2026-11-27T19:00:00Z")
    assert (reason, text) == ("Inactive", "begins 2026-11-30T08:00:00Z")
    assert (extra["active"], extra["until"], extra["holds"]) == (False, None, [])
