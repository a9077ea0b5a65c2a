"""A sleep, a clock that is set, a process that is held: found once, and nothing seen before is believed any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.controller import Parts
from reconciler.controller.clock_gaps import GAP_SECONDS, HELD_SECONDS, ClockGap, ClockGaps, Clocks
from reconciler.controller.reconcile import reconcile
from reconciler.errors import Deposed
from reconciler.state import NodeName, RequestedStop, StepFailure, Volatile
from reconciler.state.slices import whole
from reconciler.store import EventFilter, Store
from reconciler.wire.launch import RankId
from tests.bench.controller import composed, served_text
from tests.bench.measures.documents import manifests
from tests.gateway.rank_double import eventually

GATEWAY = """
---
apiVersion: reconciler/v1alpha1
kind: Gateway
metadata: {name: main}
spec: {listen: 127.0.0.1:8400, auth: {mode: none}}
"""
HOUR, YEAR = 3600.0, 365 * 86_400.0


class Machine:
    """Three clocks, and what happens to them."""

    def __init__(self) -> None:
        self.wall, self.awake, self.elapsed = 1_000_000_000.0, 50.0, 90.0
        self.gaps = ClockGaps(Clocks(lambda: self.wall, lambda: self.awake, lambda: self.elapsed))
        self.gaps.check()

    def run(self, seconds: float) -> None:
        self.awake += seconds
        self.sleep(seconds)

    def sleep(self, seconds: float) -> None:
        self.elapsed += seconds
        self.wall += seconds


def test_sleep_a_clock_that_was_set_and_a_held_process_are_told_apart() -> None:
    machine = Machine()
    machine.sleep(HOUR)
    assert machine.gaps.take_gap() == ClockGap(slept=HOUR, held=0.0, set=0.0)
    machine.wall -= YEAR
    found = machine.gaps.take_gap()
    assert found == ClockGap(slept=0.0, held=0.0, set=-YEAR)
    assert str(found).startswith("the clock was set back by 31536000 s: every node")
    machine.run(60.0)
    found = machine.gaps.take_gap()
    assert found == ClockGap(slept=0.0, held=60.0, set=0.0)
    assert (found.reason, found.seconds) == ("WokeUp", 60.0)
    assert machine.gaps.take_gap() is None


def test_what_happens_between_two_passes_is_one_clock_gap() -> None:
    machine = Machine()
    machine.sleep(HOUR)
    assert machine.gaps.check()
    machine.wall += 2 * HOUR
    machine.run(0.5)
    found = machine.gaps.take_gap()
    assert found is not None
    assert (found.slept, found.set, found.reason) == (HOUR, 2 * HOUR, "ClockJumped")
    assert not machine.gaps.check()


@given(
    st.lists(
        st.tuples(st.floats(0, HELD_SECONDS - 0.1), st.floats(-GAP_SECONDS + 0.1, GAP_SECONDS - 0.1)),
        max_size=30,
    )
)
def test_a_busy_machine_whose_clock_is_corrected_has_no_clock_gap(steps: list[tuple[float, float]]) -> None:
    machine = Machine()
    for seconds, corrected in steps:
        machine.run(seconds)
        machine.wall += corrected
        assert not machine.gaps.check()


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    """A controller's loop over a small cluster in which everything runs, and that has looked at all of it."""
    text = manifests(10) + GATEWAY
    _, made = composed(served_text(text), tmp_path, text)
    await made.desired_state.refresh(None)
    await eventually(lambda: whole(reconcile(made)).settled)
    yield made
    await made.executor.close()
    await made.collector.close()
    made.store.close()


def set_clock(parts: Parts, seconds: float) -> None:
    """Between the last look at the clocks and now the wall clock has gone on by so much more."""
    machine = Machine()
    machine.wall += seconds
    parts.clock_gaps = machine.gaps


async def test_after_a_clock_gap_nothing_is_decided_before_every_node_was_looked_at_again(
    parts: Parts,
) -> None:
    rank = parts.last.observed.ranks()[0].report.id if parts.last.observed.ranks() else RankId("x", 0, 1, 0)
    now, token = time.time(), parts.store.token
    parts.executor.tools.volatile = Volatile(
        stops={rank: RequestedStop(now + 1, now + 11)},
        continued={rank: (now - 5,)},
        failures={"step": StepFailure(1, now + 2, "broken")},
    )
    set_clock(parts, HOUR)
    whole(reconcile(parts))
    assert parts.store.token == token + 1
    reports = [node.report for node in parts.collector.nodes().values()]
    assert {report.asked_with for report in reports if report} == {token}
    assert parts.last.memory.token == token + 1
    volatile = parts.executor.volatile
    assert volatile.stops[rank] == RequestedStop(now + 1 + HOUR, now + 11 + HOUR)
    assert volatile.continued[rank] == (now - 5 + HOUR,)
    assert volatile.failures["step"].retry_at == now + 2 + HOUR
    await asyncio.sleep(0)  # events are written at the end of a turn of the event loop
    reasons = [event.reason for _, event in parts.store.events(EventFilter(kind="Cluster"))]
    assert reasons.count("ClockJumped") == 1

    def seen_again() -> bool:
        nodes = parts.collector.nodes().values()
        return {node.report.asked_with for node in nodes if node.report} == {token + 1}

    await eventually(seen_again)
    assert whole(reconcile(parts)).settled
    again = [event.reason for _, event in parts.store.events(EventFilter(kind="Cluster"))]
    assert again == reasons


async def test_after_a_clock_gap_no_routes_are_written_before_every_node_was_looked_at_again(
    parts: Parts, tmp_path: Path
) -> None:
    routes = tmp_path / "routes.json"
    await eventually(lambda: whole(reconcile(parts)).settled and routes.exists())
    routes.unlink()
    set_clock(parts, HOUR)
    whole(reconcile(parts))
    assert not routes.exists()

    def written() -> bool:
        whole(reconcile(parts))
        return routes.exists()

    await eventually(written)
    reports = [node.report for node in parts.collector.nodes().values()]
    assert {report.asked_with for report in reports if report} == {parts.store.token}


async def test_who_wakes_up_deposed_does_nothing_more(parts: Parts, tmp_path: Path) -> None:
    newer = Store(tmp_path / "store.db")
    set_clock(parts, HOUR)
    before = newer.events(EventFilter())
    with pytest.raises(Deposed):
        whole(reconcile(parts))
    assert newer.events(EventFilter()) == before
    newer.close()


async def test_contact_is_not_older_than_what_was_watched(parts: Parts) -> None:
    """So that a node that was lost in the moment of a sleep is not given up right after it."""
    name = NodeName(next(iter(parts.collector.nodes())))
    since = parts.collector.nodes()[name].since
    set_clock(parts, HOUR)
    whole(reconcile(parts))
    assert parts.collector.nodes()[name].since == since + HOUR
    await asyncio.sleep(0)
