"""The incident log on disk goes on where a controller ended, at whatever point that was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.controller.incident_log import IncidentLog
from reconciler.state import FaultClass, Outcome, Plan, Trouble, subjects
from reconciler.state.identity import ObjectKey
from reconciler.status import Snapshots
from reconciler.store import EventFilter, IncidentFilter, Store
from reconciler.wire.launch import RankId
from tests.worlds import two_nodes

NODE = ObjectKey("Node", "node-a")
PERSON = Trouble(
    NODE,
    subjects.read("node/node-a"),
    FaultClass.RDMA_DISABLED,
    "rdma_ctl says disabled",
    "",
    "Recovery mode",
)


class Controllers:
    """One after the other over one store: each begins where the last one ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.world = two_nodes()
        self.woken = 0
        self._begin()

    def _begin(self) -> None:
        self.store = Store(self.path)
        self.incident_log = IncidentLog(self.store, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def crash(self) -> None:
        self.store.close()
        self.world.restart_controller()
        self._begin()

    def snapshots(self, *troubles: Trouble) -> Snapshots:
        world = self.world
        return Snapshots(
            world.desired(), world.observed(), world.memory(), Plan(troubles=troubles), world.now
        )

    def look(self, *troubles: Trouble) -> None:
        self.world.now += 1
        self.incident_log.follow(self.snapshots(*troubles), {})

    def reasons(self) -> list[str]:
        return [event.reason for _, event in self.store.events(EventFilter())]

    def incidents(self) -> list[Any]:
        return self.store.incidents.find(IncidentFilter())


@pytest.fixture
def made(tmp_path: Path) -> Controllers:
    return Controllers(tmp_path / "store.db")


def test_what_only_a_person_can_mend_is_reported_once_whenever_controllers_crash(made: Controllers) -> None:
    made.world.settle()
    for _ in range(5):
        made.look(PERSON)
        made.crash()
        made.look(PERSON)
    made.look()
    made.crash()
    made.look()
    assert made.reasons() == ["IncidentOpened", "PersonNeeded"]
    made.world.now += 1000
    made.look()
    made.crash()
    made.look()
    assert made.reasons() == ["IncidentOpened", "PersonNeeded", "IncidentClosed"]
    (incident,) = made.incidents()
    assert (incident.settled, incident.asked) == (True, (FaultClass.RDMA_DISABLED,))


@pytest.mark.parametrize("crash_after", range(9))
def test_a_healing_is_one_incident_wherever_a_controller_crashes_in_it(
    tmp_path: Path, crash_after: int
) -> None:
    made = Controllers(tmp_path / f"{crash_after}.db")
    world = made.world
    world.settle()
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    done = 0
    while True:
        decided = world.plan()
        made.incident_log.follow(
            Snapshots(world.desired(), world.observed(), world.memory(), decided, world.now), {}
        )
        if not decided.steps:
            break
        for step in decided.steps:
            world.obey(step)
            world.now += 0.5
            if done == crash_after:
                made.crash()
            else:
                made.incident_log.outcome(Outcome(step, 0.5), world.now)
            done += 1
    (incident,) = made.incidents()
    texts = [entry.text for entry in incident.entries]
    assert incident.closed_at is not None
    assert texts[0] == "rank 1 on node-b (epoch 1, pid 101) was killed by signal 9"
    assert texts[1] == "form epoch 2 on node-a, node-b over ring-lan (RankExited)"
    assert texts[-1] == "tiny/0 serves again as epoch 2"
    assert made.reasons() == ["IncidentOpened"]


def test_a_pass_that_brings_nothing_new_writes_nothing(made: Controllers) -> None:
    made.look(PERSON)
    changes, woken = made.incident_log.changes, made.woken
    made.look(PERSON)
    made.look(PERSON)
    assert (made.incident_log.changes, made.woken) == (changes, woken)


def test_what_the_disk_does_not_take_is_written_by_the_next_pass(made: Controllers) -> None:
    made.store._db.execute("PRAGMA query_only = ON")
    made.look(PERSON)
    assert (made.incidents(), made.incident_log.changes) == ([], 0)
    assert "cannot be written now" in made.store.problem
    made.store._db.execute("PRAGMA query_only = OFF")
    made.look(PERSON)
    assert len(made.incidents()) == 1
    assert made.reasons() == ["IncidentOpened", "PersonNeeded"]


def test_a_store_that_was_lost_begins_its_incidents_again(tmp_path: Path) -> None:
    before, after = Controllers(tmp_path / "a.db"), Controllers(tmp_path / "b.db")
    for each in (before, after):
        each.look(PERSON)
    assert [incident.id for incident in after.incidents()] == [1]
    assert after.reasons() == ["IncidentOpened", "PersonNeeded"]
