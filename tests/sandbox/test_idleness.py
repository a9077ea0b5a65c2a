"""The agent of an emulated Mac is told of time that passed without work, and of none where there was work."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from reconciler.agent.ranks.vitals import Vitals
from reconciler.sandbox.emulated import idleness
from reconciler.sandbox.places import put_idleness
from reconciler.wire.launch import Phase, Progress
from reconciler.wire.node import ShimState


class Watched(Vitals):
    """Of its own, so that the others stay as they are."""


def idle(vitals: Vitals, steps: int, demand: int = 0) -> float:
    """After a tick, with so many steps done."""
    progress = Progress(Phase.READY, steps=steps, demand=demand)
    vitals.tick(ShimState(1, 1, 0.0, progress), 1.0, (False, False))
    return vitals.idle_seconds


def test_a_rank_that_rests_has_rested_for_as_long_as_was_said(tmp_path: Path) -> None:
    idleness.patch(SimpleNamespace(Vitals=Watched), tmp_path / idleness.FILE)
    vitals = Watched()
    assert [idle(vitals, steps=1) for _ in range(3)] == [0.0, 1.0, 2.0]
    put_idleness(tmp_path, 1500.0)
    assert idle(vitals, steps=1) == 1500.0
    assert idle(vitals, steps=1, demand=1) == 1500.0
    assert idle(vitals, steps=2) == 0.0
    put_idleness(tmp_path, 0.0)
    assert idle(vitals, steps=2) == 1.0
