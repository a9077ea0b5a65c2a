"""Gateways of nodes are looked at again and again, and what was seen stays while they are out of sight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from reconciler.errors import Refused, Unreachable
from reconciler.inventory import GatewaysOnNodes, gateways_on_nodes
from reconciler.remote.nodes.gateway import GatewayState, digest_of_files
from reconciler.state import GatewayProcess, NodeName
from tests.gateway.rank_double import eventually

A, B = NodeName("a"), NodeName("b")
SAID: dict[str, Any] = {
    "pid": 7, "endpoint": "http://h:8400/v1", "listen": "0.0.0.0:8400", "sequence": 3, "problem": "", "keys": "k",
    "limits": {"gateways": 2, "store": "", "shared": False, "problem": ""},
}  # fmt: skip
RUNS = GatewayState(7, program="gateway-1.pyz", files={"routes.json": "ab"}, said=SAID)


FAILS = GatewayState(last_words="oh")


class Machine:
    """The gateways of all nodes: each look finds ``state``."""

    def __init__(self) -> None:
        self.state: GatewayState | Exception = RUNS
        self.looks = self.news = self.at_once = self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def look(self) -> GatewayState:
        self.looks += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        found = self.state
        await self.gate.wait()
        self.at_once -= 1
        if isinstance(found, Exception):
            raise found
        return found

    def told(self) -> None:
        self.news += 1


@pytest.fixture
async def machine() -> Machine:
    return Machine()


@pytest.fixture
async def watch(machine: Machine) -> AsyncIterator[GatewaysOnNodes]:
    made = GatewaysOnNodes(lambda name: machine, machine.told)
    yield made
    await made.close()


async def test_a_running_gateway_is_seen_with_all_that_it_says(
    machine: Machine, watch: GatewaysOnNodes
) -> None:
    watch.watch(frozenset({B, A}))
    await eventually(lambda: len(watch.seen) == 2)
    assert list(watch.seen) == [A, B]
    seen = watch.seen[A]
    assert (seen.process, seen.listen, seen.pid, seen.sequence) == (
        GatewayProcess.RUNNING,
        "0.0.0.0:8400",
        7,
        3,
    )
    assert (seen.program, seen.files, seen.keys) == (
        "gateway-1.pyz",
        digest_of_files({"routes.json": "ab"}),
        "k",
    )
    assert (seen.problem, seen.serves, seen.failing_seconds) == ("", True, 0.0)
    assert seen.limits is not None
    watch.watch(frozenset({B}))
    assert list(watch.seen) == [B]


@pytest.mark.parametrize(
    ("state", "process", "cannot_listen", "problem"),
    [
        (GatewayState(), GatewayProcess.GONE, False, "it does not run: no last words"),
        (GatewayState(last_words="oh"), GatewayProcess.GONE, False, "it does not run: oh"),
        (GatewayState(said=SAID), GatewayProcess.GONE, False, "it does not run: no last words"),
        (GatewayState(said={"endpoint": None, "problem": "taken"}), GatewayProcess.GONE, True, "taken"),
        (
            GatewayState(8, said=SAID),
            GatewayProcess.RUNNING,
            False,
            "it has begun to run, and does not listen yet",
        ),
        (
            GatewayState(7, said={**SAID, "problem": "8401 is taken"}),
            GatewayProcess.RUNNING,
            True,
            "8401 is taken",
        ),
        (GatewayState(7, True, said=SAID), GatewayProcess.STOPPED, False, "it was stopped by a signal"),
        (
            GatewayState(7, said={"pid": 7}),
            GatewayProcess.RUNNING,
            False,
            "what runs there says nothing of itself that can be read",
        ),
    ],
)
async def test_one_that_does_not_serve_is_seen_with_the_reason_and_for_how_long(
    machine: Machine,
    watch: GatewaysOnNodes,
    state: GatewayState,
    process: GatewayProcess,
    cannot_listen: bool,
    problem: str,
) -> None:
    machine.state = state
    watch.watch(frozenset({A}))
    await watch.look(A)
    await asyncio.sleep(0.02)
    seen = await watch.look(A)
    assert (seen.process, seen.cannot_listen, seen.problem) == (process, cannot_listen, problem)
    assert (seen.serves, seen.reached) == (False, True)
    assert 0.0 < seen.failing_seconds < 30.0
    machine.state = RUNS
    assert (await watch.look(A)).failing_seconds == 0.0


@pytest.mark.parametrize(
    "error", [Unreachable("no route"), Refused("SameMachine", "no route"), OSError("no route")]
)
async def test_what_is_known_stays_while_it_cannot_be_reached(
    machine: Machine, watch: GatewaysOnNodes, error: Exception
) -> None:
    watch.watch(frozenset({A}))
    before = await watch.look(A)
    machine.state = error
    seen = await watch.look(A)
    assert (seen.reached, seen.problem, before.reached) == (False, "no route", True)
    assert (seen.process, seen.files, seen.pid) == (before.process, before.files, before.pid)


async def test_only_news_is_told_and_a_look_is_repeated(machine: Machine, watch: GatewaysOnNodes) -> None:
    watch.keep_seconds = 0.01
    watch.watch(frozenset({A}))
    await eventually(lambda: machine.looks > 4)
    assert machine.news == 1
    machine.state = GatewayState()
    await eventually(lambda: watch.seen[A].process is GatewayProcess.GONE)
    before = watch.seen[A].failing_seconds
    await eventually(lambda: watch.seen[A].failing_seconds > before)
    assert machine.news == 2, "that it goes on failing is no news"


async def test_time_out_of_sight_is_no_time_of_failing(machine: Machine, watch: GatewaysOnNodes) -> None:
    watch.watch(frozenset({A}))
    machine.state = FAILS
    first = await watch.look(A)
    machine.state = Unreachable("no route")
    away = await watch.look(A)
    await asyncio.sleep(0.3)
    machine.state = FAILS
    assert first.failing_seconds <= away.failing_seconds <= (await watch.look(A)).failing_seconds < 0.3


def running(pid: int) -> GatewayState:
    return replace(RUNS, pid=pid, said={**SAID, "pid": pid})


async def test_ends_in_a_row_are_counted_until_it_has_served_for_a_while(
    machine: Machine, watch: GatewaysOnNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.watch(frozenset({A}))
    found = []
    for state in (
        FAILS,
        running(7),
        FAILS,
        FAILS,
        running(7),
        Unreachable("no route"),
        running(8),
        FAILS,
        running(9),
    ):
        machine.state = state
        seen = await watch.look(A)
        found.append((seen.ends_in_a_row, seen.last_end))
    once, twice, thrice = (1, "it does not run: oh"), (2, ""), (3, "it does not run: oh")
    assert found == [(0, ""), (0, ""), once, once, once, once, twice, thrice, thrice]
    monkeypatch.setattr(gateways_on_nodes, "SERVED_SECONDS", 0.0)
    assert seen.ending_seconds > 0.0
    forgiven = await watch.look(A)
    assert (forgiven.ends_in_a_row, forgiven.ending_seconds) == (0, 0.0)


async def test_an_end_that_was_asked_for_is_none_of_its_own(machine: Machine, watch: GatewaysOnNodes) -> None:
    watch.watch(frozenset({A}))
    await watch.look(A)
    watch.end_is_asked(A)
    for state in (RUNS, FAILS, RUNS):
        machine.state = state
        assert (await watch.look(A)).ends_in_a_row == 0
    machine.state = FAILS
    assert (await watch.look(A)).ends_in_a_row == 1, "the next process had the same number"
    watch.end_is_asked(B)


async def test_a_watcher_that_fails_begins_again(
    machine: Machine,
    watch: GatewaysOnNodes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch.keep_seconds = 0.01
    machine.state = RuntimeError("nobody has thought of this")
    watch.watch(frozenset({A}))
    await eventually(lambda: machine.looks > 1)
    machine.state = RUNS
    await eventually(lambda: A in watch.seen)
    assert "watching the gateway on a failed" in caplog.text


async def test_after_new_routes_it_is_looked_at_again_soon(
    machine: Machine, watch: GatewaysOnNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateways_on_nodes, "AGAIN_SECONDS", 0.01)
    watch.watch(frozenset({A}))
    await eventually(lambda: machine.looks == 1)
    await watch.look(A, again=True)
    await eventually(lambda: machine.looks == 3)


async def test_an_older_look_never_replaces_a_newer_one(machine: Machine, watch: GatewaysOnNodes) -> None:
    machine.gate.clear()
    watch.watch(frozenset({A}))
    await eventually(lambda: machine.looks == 1)
    looking = asyncio.create_task(watch.look(A))
    await asyncio.sleep(0.01)
    machine.state = GatewayState()
    machine.gate.set()
    assert (await looking).process is GatewayProcess.GONE
    assert (watch.seen[A].process, machine.most) == (GatewayProcess.GONE, 1)


async def test_one_that_is_not_watched_is_seen_and_not_kept(machine: Machine, watch: GatewaysOnNodes) -> None:
    assert (await watch.look(A)).serves
    assert (dict(watch.seen), machine.news) == ({}, 0)
