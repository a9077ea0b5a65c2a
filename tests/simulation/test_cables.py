"""A cable that is pulled while a group uses it: its ranks end at once, and machines tell of the cable seconds later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from reconciler.state import FaultClass
from reconciler.state.reports.incident import Class
from reconciler.store.tables.incidents import IncidentFilter
from tests.simulation.oracles.up import end_all, up
from tests.simulation.schedules.acts import cable
from tests.simulation.schedules.scenarios import SCENARIOS, THREE, big, cluster
from tests.simulation.world.world import World


@pytest.fixture
def cabled() -> Iterator[World]:
    """A group serves over RDMA."""
    yield up(replace(SCENARIOS["cable"], acts=()))
    end_all()


def told(world: World) -> dict[str, set[Class]]:
    """The classes of incidents by their subjects."""
    assert world.controller is not None
    assert world.controller.parts is not None
    found: dict[str, set[Class]] = {}
    for each in world.controller.parts.store.incidents.find(IncidentFilter(limit=1000)):
        seen = {entry.fault for entry in each.entries if entry.fault is not None}
        found.setdefault(str(each.subject), set()).update(seen | {each.fault})
    return found


@pytest.mark.parametrize("late", [0.0, 2.0, 6.0, 15.0])
@pytest.mark.parametrize("changed", [False, True], ids=["as it was", "after a change"])
def test_it_is_told_by_its_cause_and_rdma_is_not_tried_over_it(
    cabled: World, late: float, changed: bool
) -> None:
    if changed:
        cabled.commit(cluster(big(serving={"context": 1024}), nodes=THREE))
        cabled.run(10.0)
    for name in ("a", "b"):
        cabled.machines[name].probes_late = late
    cabled.run(late)  # whatever had begun before is over
    cable(plugged=False)(cabled)
    for _ in range(120):
        cabled.run(0.5)
        assert not [rank for rank in cabled.ranks() if rank.config.backend == "jaccl"]
    assert "big" in {replica.key.name for replica in cabled.routed()}
    assert told(cabled) == {"replica/big/0": {FaultClass.LINK_DOWN}, "link/a/b": {FaultClass.LINK_DOWN}}
    assert not cabled.stored.rollbacks()

    cable(plugged=True)(cabled)
    cabled.run(1500.0)
    assert {rank.config.backend for rank in cabled.ranks()} == {"jaccl"}, "it is tried once the cable is well"
