"""How the work of a pass that finds nothing to do grows with the cluster: counted in calls, so no clock is asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from reconciler.controller.reconcile import reconcile
from reconciler.planning import plan
from tests.bench.controller import parts_of, served_text
from tests.bench.measures.documents import manifests
from tests.bench.measures.planning import world
from tests.gateway.rank_double import eventually

FEW, MANY = 50, 200
TIMES_MAX = 1.1 * MANY / FEW
"""As much more work: less than n log n would allow, for a small part that grows with the square shows late."""


def calls(work: Callable[[], object]) -> int:
    """Of functions of Python and of C, by ``work`` and all that it calls."""
    count = 0

    def called(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def planned(nodes: int) -> int:
    cluster = world(nodes)
    desired, observed, memory = cluster.desired(), cluster.observed(), cluster.memory()
    return calls(lambda: plan(desired, observed, memory, cluster.now, "entropy"))


async def passed(objects: int, folder: Path) -> int:
    """Of a whole pass: source, planning, store and status."""
    text = manifests(objects)
    folder.mkdir()
    parts = parts_of(served_text(text), folder, text)
    await parts.desired_state.refresh(None)
    await eventually(lambda: reconcile(parts).settled)
    found = calls(lambda: reconcile(parts))
    await parts.collector.close()
    await parts.executor.close()
    parts.store.close()
    return found


def test_a_plan_grows_as_the_cluster_does() -> None:
    assert planned(MANY) / planned(FEW) < TIMES_MAX


async def test_a_whole_pass_grows_as_the_cluster_does(tmp_path: Path) -> None:
    few, many = await passed(FEW, tmp_path / "few"), await passed(MANY, tmp_path / "many")
    assert many / few < TIMES_MAX
