"""`doctor` as the controller answers it: machines are asked first, and named nodes have to be there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reconciler.controller.admin import doctor_session
from reconciler.controller.admin.doctor_session import DoctorSessions
from reconciler.controller.publish import Publisher
from reconciler.controller.routes_file import RoutesFile
from reconciler.errors import Refused
from reconciler.state import NodeName
from reconciler.state.slices import Slices
from reconciler.status import Snapshots
from reconciler.store import Store
from reconciler.wire.admin import Doctor
from reconciler.wire.supervision import Act
from tests.planning.macs import A, B, learn, two_macs
from tests.worlds import World


@dataclass
class Machines:
    """A collector whose machines take until ``told`` to answer their probes."""

    world: World
    probes_answer: asyncio.Event = field(default_factory=asyncio.Event)
    examined: list[str] = field(default_factory=list)
    answer: bool = True

    def nodes(self) -> Any:
        return self.world.observed().nodes

    async def examine(self, name: NodeName) -> bool:
        self.examined.append(name)
        await self.probes_answer.wait()
        return self.answer


class NoRepository:
    """A source of manifests that is no git repository."""

    def repository(self) -> None:
        return None


@dataclass
class Around:
    """A home in which nothing is wrong."""

    source: NoRepository = field(default_factory=NoRepository)

    def supervision(self) -> tuple[Act, ...]:
        return ()

    def stopped_up(self) -> int:
        return 0

    def console(self) -> str:
        return ""


@dataclass
class Care:
    async def damage_now(self) -> str:
        return ""


@dataclass
class Parts:
    """As much of a controller as is consulted."""

    world: World
    collector: Machines
    store: Store
    last: Snapshots
    publisher: Publisher
    around: Around = field(default_factory=Around)
    care: Care = field(default_factory=Care)
    numbers: int = 0

    def entropy(self) -> str:
        self.numbers += 1
        return f"run-{self.numbers:08d}"


def snapshots(world: World) -> Snapshots:
    return Snapshots(world.desired(), world.observed(), world.memory(), world.plan(), world.now)


def at_once(found: Snapshots) -> Slices[Snapshots]:
    yield
    return found


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    world = two_macs()
    store = Store(tmp_path / "store.db")
    publisher = Publisher(store, RoutesFile(tmp_path / "routes.json"))
    made = Parts(world, Machines(world), store, snapshots(world), publisher)
    monkeypatch.setattr(doctor_session, "decide", lambda parts: at_once(snapshots(parts.world)))
    yield made
    made.store.close()


async def test_machines_are_asked_before_they_are_judged(parts: Any) -> None:
    doctor = DoctorSessions(parts)
    begun = await doctor.answer(Doctor())
    assert begun["asking"] == [A, B]
    assert await doctor.answer(Doctor(run=begun["run"], wait_seconds=0.01)) == begun
    learn(parts.world, B, sleeps=True)  # what the probes tell now
    parts.collector.probes_answer.set()
    body = await doctor.answer(Doctor(run=begun["run"], wait_seconds=10.0))
    assert sorted(parts.collector.examined) == [A, B]
    assert [each["seen"] for each in body["findings"]] == ["node-b falls asleep when nobody uses it"]
    assert body["nodes"] == [A, B]
    with pytest.raises(Refused, match="start it again"):
        await doctor.answer(Doctor(run=begun["run"]))


async def test_one_machine_is_judged_alone_and_one_that_there_is_not_is_refused(parts: Any) -> None:
    doctor = DoctorSessions(parts)
    parts.collector.probes_answer.set()
    learn(parts.world, A, sleeps=True)
    begun = await doctor.answer(Doctor((B,)))
    body = await doctor.answer(Doctor(run=begun["run"], wait_seconds=10.0))
    assert (body["nodes"], body["findings"]) == ([B], [])
    with pytest.raises(Refused, match='no node "node-x"'):
        await doctor.answer(Doctor(("node-x",)))


async def test_what_did_not_come_back_in_time_is_not_known_and_a_lost_machine_is_reported_once(
    parts: Any,
) -> None:
    doctor = DoctorSessions(parts)
    parts.collector.answer = False
    parts.collector.probes_answer.set()
    begun = await doctor.answer(Doctor())
    parts.world.lose(B)
    body = await doctor.answer(Doctor(run=begun["run"], wait_seconds=10.0))
    unknown = {(each["node"], each["what"]) for each in body["notKnown"]}
    assert (A, "its newest facts") in unknown
    assert {what for node, what in unknown if node == B} == {"everything"}
    assert body["findings"][0]["seen"].startswith("node-b does not answer")


async def test_who_never_comes_back_for_the_answer_is_forgotten(parts: Any) -> None:
    doctor = DoctorSessions(parts)
    first = await doctor.answer(Doctor())
    for _ in range(doctor_session.RUNS_MAX):
        await doctor.answer(Doctor())
    with pytest.raises(Refused, match="start it again"):
        await doctor.answer(Doctor(run=first["run"]))
