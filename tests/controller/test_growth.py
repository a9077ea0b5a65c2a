"""How the work of a pass that finds nothing to do grows with the cluster: counted in calls, so no clock is asked."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from pathlib import Path

from reconciler.bootstrap.controller import keep_what_lasts
from reconciler.controller.reconcile import reconcile
from reconciler.planning import plan
from reconciler.state import NodeName
from reconciler.state.slices import whole
from tests.bench.controller import composed, served_text
from tests.bench.measures.documents import manifests
from tests.bench.measures.planning import world
from tests.gateway.rank_double import eventually
from tests.worlds import World, deployment, model, node

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


def placed(nodes: int) -> int:
    """Of a plan for nodes on which nothing runs yet: every group is placed."""
    names = [node(f"node-{number:04}") for number in range(nodes)]
    wanted = [deployment(f"tiny-{number:04}", nodes=4) for number in range(nodes // 5)]
    cluster = World([*names, model(), *wanted])
    cluster.agents = {NodeName(each.metadata.name) for each in names}
    desired, observed, memory = cluster.desired(), cluster.observed(), cluster.memory()
    return calls(lambda: plan(desired, observed, memory, cluster.now, "entropy"))


async def passed(objects: int, folder: Path) -> int:
    """Of a whole pass: source, planning, store and status."""
    text = manifests(objects)
    folder.mkdir()
    _, parts = composed(served_text(text), folder, text)
    await parts.desired_state.refresh(None)
    await eventually(lambda: whole(reconcile(parts)).settled)
    found = calls(lambda: whole(reconcile(parts)))
    await parts.collector.close()
    await parts.executor.close()
    parts.store.close()
    return found


def test_a_plan_grows_as_the_cluster_does() -> None:
    assert planned(MANY) / planned(FEW) < TIMES_MAX


def test_placement_from_nothing_grows_as_the_cluster_does() -> None:
    """What is asked of a node is asked once, and not for each replica."""
    assert placed(MANY) / placed(FEW) < TIMES_MAX


async def test_what_lasts_is_kept_out_of_collections_of_garbage_once_for_each_revision(
    tmp_path: Path,
) -> None:
    """With a thousand nodes, a collection that looks through everything would block the loop for a fifth of a second."""
    text = manifests(FEW)
    _, parts = composed(served_text(text), tmp_path, text)
    frozen = gc.get_freeze_count()
    keeping = asyncio.create_task(keep_what_lasts(parts))
    try:
        await eventually(lambda: gc.get_freeze_count() > frozen)
        imported = gc.get_freeze_count()
        await parts.desired_state.refresh(None)
        await eventually(lambda: whole(reconcile(parts)).settled and parts.lease.looked)
        await eventually(lambda: gc.get_freeze_count() > imported)
        known = gc.get_freeze_count()
        whole(reconcile(parts))
        for _ in range(5):
            await asyncio.sleep(0)
        assert gc.get_freeze_count() <= known
    finally:
        keeping.cancel()
        gc.unfreeze()
    await parts.collector.close()
    await parts.executor.close()
    parts.store.close()


async def test_a_whole_pass_grows_as_the_cluster_does(tmp_path: Path) -> None:
    few, many = await passed(FEW, tmp_path / "few"), await passed(MANY, tmp_path / "many")
    assert many / few < TIMES_MAX
