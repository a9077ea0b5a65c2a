"""How an agent answers for a repair that another process carries out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reconciler.agent.repairs import requests as module
from reconciler.agent.repairs.requests import RepairRequests
from reconciler.agent.repairs.runner import Unconfirmed
from reconciler.wire.codec import Refused
from reconciler.wire.node import Done
from reconciler.wire.repair import ConfirmRepair, Repair, RepairReport, RepairState
from tests.agent.bench import SOON_SECONDS, soon

REQUEST = Repair(1, "r1", "boot", ())
CONFIRM = ConfirmRepair(1, "r1")


class Peer:
    """A connection, and what it was answered."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []

    def reply(self, request: int, message: Any) -> None:
        self.answers.append((request, message))

    async def answer(self) -> tuple[int, Any]:
        await soon(lambda: self.answers)
        return self.answers.pop()


class Machine:
    """A repair that stands as the test says."""

    def __init__(self) -> None:
        self.state = ""
        self.problem = ""
        self.going_on = False
        self.begins_with: Exception | None = None
        self.trouble: OSError | None = None
        self.looks = 0
        self.confirmed = False

    def repair(self, request: Repair) -> None:
        if self.begins_with is not None:
            raise self.begins_with
        self.state, self.going_on = RepairState.RUNNING, True

    def repair_report(self) -> RepairReport | None:
        return RepairReport("r1", "boot", self.state, problem=self.problem) if self.state else None

    def continue_repair(self) -> bool:
        self.looks += 1
        if self.trouble is not None:
            raise self.trouble
        return self.going_on

    def confirm_repair(self, id: str) -> bool:
        self.confirmed = id == "r1" and self.state in (RepairState.WAITING, RepairState.CONFIRMED)
        return self.confirmed

    def end(self, state: str, problem: str = "") -> None:
        self.state, self.problem, self.going_on = state, problem, False


class Answering:
    """What answers for repairs, with the connections of now and how many changes there were."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.peers: set[Any] = set()
        self.changes = 0
        host: Any = self.machine
        self.requests = RepairRequests(
            asyncio.get_running_loop(), host, lambda: set(self.peers), self._changed
        )

    def _changed(self) -> int:
        self.changes += 1
        return self.changes

    def connect(self) -> Any:
        peer = Peer()
        self.peers.add(peer)
        return peer

    async def watched(self, looks: int = 3) -> None:
        wanted = self.machine.looks + looks
        await soon(lambda: self.machine.looks >= wanted)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.002)


async def test_without_a_repair_there_is_nothing_to_watch() -> None:
    answering = Answering()
    answering.requests.watch()
    assert answering.requests._tending is not None
    await answering.requests._tending
    assert (answering.changes, answering.machine.looks) == (0, 1)


async def test_a_repair_is_answered_when_its_changes_are_made_and_each_new_state_is_told() -> None:
    answering = Answering()
    peer = answering.connect()
    answering.requests.begin(peer, REQUEST, 7)
    assert answering.changes == 1, "it runs"
    await answering.watched()
    assert peer.answers == []
    assert answering.changes == 1
    answering.machine.state = RepairState.WAITING
    assert await peer.answer() == (7, Done(answering.changes))
    assert answering.changes == 3, "it waits, and that is the answer"
    answering.machine.end(RepairState.UNDONE)
    await answering.requests._tending  # type: ignore[misc]
    assert answering.changes == 4


@pytest.mark.parametrize("state", [RepairState.UNDONE, RepairState.LEFT])
async def test_a_repair_that_fails_is_refused_with_its_problem_once_all_is_undone(state: str) -> None:
    answering = Answering()
    peer = answering.connect()
    answering.requests.begin(peer, REQUEST, 7)
    answering.machine.state = RepairState.UNDOING
    await answering.watched()
    assert peer.answers == []
    answering.machine.end(state, "ifconfig: no")
    assert await peer.answer() == (7, Refused("Failed", "ifconfig: no"))


async def test_a_repair_of_which_nothing_is_left_is_refused() -> None:
    answering = Answering()
    peer = answering.connect()
    answering.requests.begin(peer, REQUEST, 7)
    answering.machine.end("")
    assert await peer.answer() == (7, Refused("Failed", "there is no report of it"))


@pytest.mark.parametrize(
    ("error", "code"),
    [(Unconfirmed("r0 is waiting"), "Unconfirmed"), (ValueError("r0 is waiting"), "Invalid")],
)
async def test_what_may_not_begin_is_refused_at_once(error: Exception, code: str) -> None:
    answering = Answering()
    peer = answering.connect()
    answering.machine.begins_with = error
    answering.requests.begin(peer, REQUEST, 7)
    assert peer.answers == [(7, Refused(code, "r0 is waiting"))]
    assert (answering.changes, answering.machine.looks) == (0, 0)


async def test_only_a_connection_that_was_made_after_the_changes_confirms_them() -> None:
    answering = Answering()
    before = answering.connect()
    answering.requests.begin(before, REQUEST, 7)
    answering.machine.state = RepairState.WAITING
    await before.answer()
    answering.requests.confirm(before, CONFIRM, 8)
    assert before.answers.pop()[1].code == "SameConnection"
    assert not answering.machine.confirmed
    after = answering.connect()
    answering.requests.confirm(after, CONFIRM, 9)
    await answering.watched()
    assert after.answers == [], "not before it is over, so that another may begin"
    answering.machine.end(RepairState.CONFIRMED)
    assert (await after.answer())[1] == Done(answering.changes)
    answering.requests.leave(before)
    assert answering.requests._before == set()
    answering.requests.leave(after)
    answering.requests.confirm(after, ConfirmRepair(1, "r2"), 10)
    assert after.answers.pop() == (
        10,
        Refused("NotWaiting", "the repair r2 is not waiting for a confirmation"),
    )


async def test_the_answer_to_a_confirmation_comes_also_where_its_process_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ENDED_SECONDS", 0.01)
    answering = Answering()
    answering.machine.state, answering.machine.going_on = RepairState.WAITING, True
    peer = answering.connect()
    answering.requests.confirm(peer, CONFIRM, 8)
    assert (await peer.answer())[1] == Done(answering.changes)
    answering.machine.end(RepairState.CONFIRMED)
    await answering.requests._tending  # type: ignore[misc]


async def test_a_disk_that_cannot_be_read_for_a_while_does_not_end_the_watch() -> None:
    answering = Answering()
    answering.machine.repair(REQUEST)
    answering.machine.trouble = OSError("input/output error")
    answering.requests.watch()
    tending = answering.requests._tending
    answering.requests.watch()
    assert answering.requests._tending is tending, "one watches"
    await answering.watched()
    answering.machine.trouble = None
    answering.machine.end(RepairState.UNDONE)
    assert tending is not None
    await asyncio.wait_for(tending, SOON_SECONDS)
    answering.requests.watch()
    assert answering.requests._tending is not tending
