"""Of two controllers with one store only the newer writes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.errors import Deposed
from reconciler.state import Desired, FaultClass, NodeName, Reboot, TransportFailure
from reconciler.state.formed_under import NO_FACTS
from reconciler.state.identity import JobName, ObjectKey, RunId
from reconciler.state.jobs import Run
from reconciler.state.reports.notification import Notification
from reconciler.state.reports.status import ObjectStatus
from reconciler.state.rollback import Rollback
from reconciler.store import EventFilter, Store
from reconciler.store.tables.incidents import IncidentFilter
from tests.store.test_store import ATTEMPT, GROUP, SPEC, TINY, event
from tests.worlds import node

OPENS = re.compile(r"\bStore\(\S")
NODE_A = NodeName("node-a")
REVISION = Desired.of("r2", [node("node-a")])

SETBACK = Rollback("tiny", "org/tiny@b", "org/tiny@a", "", 5.0, "it crashed")

RUN = Run(RunId(JobName("train"), 1), "f", 5.0)
WRITES: dict[str, Callable[[Store], object]] = {
    "renew": lambda store: store.renew(),
    "outgrow": lambda store: store.outgrow(Path("nowhere.db")),
    "allocate": lambda store: store.allocate(replace(GROUP, epoch=2), replace(ATTEMPT, epoch=2)),
    "adopt": lambda store: store.adopt(replace(GROUP, epoch=7)),
    "prove": lambda store: store.prove(TINY, 1, 9.0),
    "release": lambda store: store.release(TINY),
    "keep_agent": lambda store: store.keep_agent(NodeName("node-z")),
    "drop_agent": lambda store: store.drop_agent(NODE_A),
    "remove_object": lambda store: store.remove_object(ObjectKey("Node", "node-b")),
    "put_statuses": lambda store: store.put_statuses({GROUP.replica.key: ObjectStatus((), 1, {})}),
    "add_events": lambda store: store.add_events([event("late")]),
    "put_incidents": lambda store: store.put_incidents([], [event("late")], [], 5.0),
    "notifications.mark": lambda store: store.notifications.mark(Notification("n", 1, "opened", 5.0, "late")),
    "notifications.forget": lambda store: store.notifications.forget(()),
    "notifications.give_up": lambda store: store.notifications.give_up("late"),
    "note_reboot": lambda store: store.note_reboot(NODE_A, Reboot(5.0, "boot", "late")),
    "drop_reboot": lambda store: store.drop_reboot(NODE_A),
    "free_transport": lambda store: store.free_transport(TINY, "jaccl"),
    "keep_spec": lambda store: store.keep_spec(TINY, 1, SPEC),
    "forget_rollback": lambda store: store.forget_rollback(TINY.deployment),
    "set_back": lambda store: store.set_back(TINY.deployment, SETBACK),
    "create_run": lambda store: store.create_run(RUN),
    "put_run": lambda store: store.put_run(RUN),
    "end_attempt": lambda store: store.end_attempt(RUN),
    "remove_runs": lambda store: store.remove_runs([RUN.id]),
    "objects.apply": lambda store: store.objects.apply(REVISION, 5.0),
    "objects.remove": lambda store: store.objects.remove(ObjectKey("Node", "node-b")),
    "objects.approve": lambda store: store.objects.approve("r9", 5.0, "ada"),
    "fenced": lambda store: store.fenced().__enter__(),
    "verify": lambda store: store.verify(),
}
"""Everything through which a store changes, or that lets its caller change something else."""
READS = {
    "problem", "locked", "altered", "doubt", "identities", "damaged", "token", "close", "recover", "groups", "last_epochs", "statuses", "event_keys", "events", "last_event",
    "objects.revision", "objects.in_force", "objects.kept", "objects.keys", "objects.leaving", "objects.approved",
    "attempts.note",  # within a transaction of its caller's
    "attempts.all", "incidents.last_id", "incidents.unsettled", "incidents.find",
    "incidents.put", "notifications.put",  # likewise
    "notifications.next", "notifications.deliveries",
    "transports.note", "transports.note_proof", "transports.free_transport", "transports.forget",
    "transports.failures", "transports.proofs", "transports.verbs",
}  # fmt: skip


@pytest.fixture
def older(tmp_path: Path) -> Iterator[Store]:
    """The store of a controller that has been replaced, and had written before."""
    store = Store(tmp_path / "store.db")
    store.allocate(GROUP, ATTEMPT, TransportFailure("jaccl", NO_FACTS, 1.0, "no cable", FaultClass.LINK_DOWN))
    store.keep_agent(NODE_A)
    store.objects.apply(Desired.of("r1", [node("node-a"), node("node-b")]), 1.0)
    store.objects.apply(Desired.of("r1", [node("node-a")]), 2.0)
    yield store
    store.close()


def content(store: Store) -> object:
    objects = store.objects
    return (
        store.groups(), store.last_epochs(), store.agents.all(), store.statuses(), store.events(EventFilter()),
        objects.revision(), objects.keys(), objects.leaving(), objects.approved(), store.attempts.all(),
        store.transports.failures(), store.transports.proofs(), store.transports.verbs(), store.incidents.find(IncidentFilter()),
    )  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
def test_a_deposed_controller_writes_nothing(older: Store, tmp_path: Path, write: str) -> None:
    newer = Store(tmp_path / "store.db")
    before = content(newer)
    with pytest.raises(Deposed, match="another controller has taken over"):
        WRITES[write](older)
    assert content(newer) == before
    assert not older.problem
    newer.release(TINY)
    newer.close()


def test_whose_store_was_taken_away_writes_nothing(older: Store, tmp_path: Path) -> None:
    """What it has open still is the old file, which nobody else reads any more."""
    for file in tmp_path.glob("store.db*"):
        file.unlink()
    newer = Store(tmp_path / "store.db")
    for name in WRITES:
        with pytest.raises(Deposed, match="was removed"):
            WRITES[name](older)
    newer.close()


def test_nobody_opens_the_store_of_a_home_beside_its_controller() -> None:
    """Whoever opens it takes it over: commands ask the controller, or open a copy of their own."""
    room = Path(__file__).parents[2] / "reconciler"
    opening = {str(path.relative_to(room)) for path in room.rglob("*.py") if OPENS.search(path.read_text())}
    assert opening == {"bootstrap/store.py", "store/copying.py", "cli/commands/cluster/backup.py"}


def test_every_way_to_write_is_tried_here(older: Store) -> None:
    rooms = {
        "": older,
        "objects.": older.objects,
        "attempts.": older.attempts,
        "incidents.": older.incidents,
        "notifications.": older.notifications,
        "transports.": older.transports,
    }
    public = {
        prefix + name
        for prefix, room in rooms.items()
        for name, member in inspect.getmembers(room)
        if not name.startswith("_")
        and (inspect.ismethod(member) or isinstance(getattr(type(room), name, None), property))
    }
    assert public == WRITES.keys() | READS


def test_what_is_done_while_fenced_keeps_a_newer_controller_waiting(tmp_path: Path) -> None:
    """So nothing that is done in there can come after what the newer one does."""
    older = Store(tmp_path / "store.db")
    with older.fenced(), pytest.raises(Exception, match="locked"):
        Store(tmp_path / "store.db", patience_seconds=0.01)
    newer = Store(tmp_path / "store.db")
    assert newer.token > older.token
    older.close()
    newer.close()


def test_a_renewed_token_is_above_its_own_and_above_what_nodes_know(older: Store, tmp_path: Path) -> None:
    before = older.token
    older.renew()
    assert older.token == before + 1
    older.renew(above=40)
    assert older.token == 41
    older.close()
    again = Store(tmp_path / "store.db")
    assert again.token == 42
    again.close()
