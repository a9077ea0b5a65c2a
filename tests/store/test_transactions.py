"""Each call is one transaction: whoever reads meanwhile, or after a power cut, finds all of it or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.state import Desired, FaultClass, NodeName, Reboot, TransportFailure
from reconciler.state.formed_under import NO_FACTS
from reconciler.state.identity import ObjectKey
from reconciler.state.reports.notification import Notification
from reconciler.state.reports.status import ObjectStatus
from reconciler.state.rollback import Rollback
from reconciler.store import Store
from reconciler.store.connection import Connection
from tests.store.test_incidents import OPEN, OPENED
from tests.store.test_store import ATTEMPT, GROUP, SPEC, TINY, event
from tests.worlds import node

NODE_A = NodeName("node-a")
NO_CABLE = TransportFailure("jaccl", NO_FACTS, 1.0, "no cable", FaultClass.LINK_DOWN)
NEXT = replace(GROUP, epoch=2)
TOLD = Notification("pager", 1, "opened", 5.0, "a rank has crashed")
SETBACK = Rollback("tiny", "org/tiny@b", "org/tiny@a", "", 5.0, "it crashed")
WRITES: dict[str, Callable[[Store], object]] = {
    "renew": lambda store: store.renew(),
    "outgrow": lambda store: store.outgrow(Path("nowhere.db")),
    "allocate": lambda store: store.allocate(
        NEXT, replace(ATTEMPT, epoch=2), NO_CABLE, [(NODE_A, "boot-1"), (NODE_A, "boot-2")]
    ),
    "adopt": lambda store: store.adopt(replace(GROUP, epoch=7)),
    "prove": lambda store: store.prove(TINY, 1, 9.0),
    "release": lambda store: store.release(TINY),
    "put_statuses": lambda store: store.put_statuses(
        {TINY.key: ObjectStatus((), 2, {}), ObjectKey("Node", "node-a"): ObjectStatus((), 1, {})},
        [event("one"), event("two")],
    ),
    "add_events": lambda store: store.add_events([event("one"), event("two")]),
    "put_incidents": lambda store: store.put_incidents([OPEN], [OPENED], [TOLD], 5.0),
    "note_reboot": lambda store: store.note_reboot(NODE_A, Reboot(5.0, "boot", "asked to")),
    "free_transport": lambda store: store.free_transport(TINY, "jaccl"),
    "keep_spec": lambda store: store.keep_spec(TINY, 1, SPEC),
    "set_back": lambda store: store.set_back(TINY.deployment, SETBACK),
    "objects.apply": lambda store: store.objects.apply(
        Desired.of("r2", [node("node-b"), node("node-c")]), 5.0
    ),
    "objects.remove": lambda store: store.objects.remove(ObjectKey("Node", "node-gone")),
    "objects.approve": lambda store: store.objects.approve("r9", 5.0, "ada"),
}


class Watched(Connection):
    """Shows before each statement what another process would read then."""

    seen: list[str]

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        self._look()
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any) -> sqlite3.Cursor:
        self._look()
        return super().executemany(sql, parameters)

    def _look(self) -> None:
        if hasattr(self, "seen"):
            self.seen.append(on_disk(self.path))


class WatchedStore(Store):
    connection = Watched


def on_disk(path: Path) -> str:
    with closing(sqlite3.connect(path)) as other:
        return "\n".join(other.iterdump())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """One in which every call has something to change."""
    opened = WatchedStore(tmp_path / "store.db")
    opened.objects.apply(Desired.of("r1", [node("node-a"), node("node-b"), node("node-gone")]), 1.0)
    opened.objects.apply(Desired.of("r1", [node("node-a"), node("node-b")]), 2.0)
    opened.objects.approve("r1", 2.0, "ada")
    gone = {ObjectKey("Node", "node-gone"): ObjectStatus((), 1, {})}
    opened.put_statuses({TINY.key: ObjectStatus((), 1, {}), **gone})
    yield opened
    opened.close()


@pytest.mark.parametrize("name", WRITES)
def test_nobody_sees_half_of_what_a_call_writes(store: Store, tmp_path: Path, name: str) -> None:
    path = tmp_path / "store.db"
    store.allocate(GROUP, ATTEMPT, NO_CABLE)
    before = on_disk(path)
    store._db.seen = seen = list[str]()  # type: ignore[attr-defined]
    WRITES[name](store)
    after = on_disk(path)
    assert set(seen) <= {before, after}
    if name != "outgrow":  # above a store that is not there it stays as it is
        assert before != after
