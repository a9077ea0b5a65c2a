"""Who follows events by their ids misses none, also when ids begin anew because the store was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reconciler.controller.admin.answer import Admin
from reconciler.state import ObjectKey
from reconciler.state.reports.status import Event
from reconciler.wire.admin import ListEvents

from .test_loop import Controlled


def happen(controlled: Controlled, *messages: str) -> None:
    node = ObjectKey("Node", "studio-1")
    controlled.store.add_events(Event(1.0, node, False, "Tested", message) for message in messages)


async def follow(controlled: Controlled, after: int) -> dict[str, Any]:
    admin = Admin(controlled.parts, controlled.loop, "a folder")
    return dict((await admin._answer(ListEvents(after))).body)


async def test_events_follow_the_last_one_that_was_seen(tmp_path: Path) -> None:
    controlled = Controlled(tmp_path)
    happen(controlled, "one", "two")
    seen = await follow(controlled, 1)
    assert [event["message"] for event in seen["items"]] == ["two"]
    assert await follow(controlled, seen["last"]) == {"items": [], "last": 2}
    await controlled.close()


async def test_who_followed_the_events_of_a_lost_store_begins_anew(tmp_path: Path) -> None:
    controlled = Controlled(tmp_path)
    assert await follow(controlled, 500) == {"items": [], "last": 0}
    happen(controlled, "one", "two")
    seen = await follow(controlled, 500)
    assert [event["message"] for event in seen["items"]] == ["one", "two"]
    assert (await follow(controlled, seen["last"]))["items"] == []
    await controlled.close()
