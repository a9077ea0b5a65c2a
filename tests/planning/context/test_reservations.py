"""What a group takes is reserved when its decision is kept, and never before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.planning.context import tcp_ports
from reconciler.planning.context.memory_ledger import Ledger
from reconciler.planning.context.reservations import Reservations, first_ports
from reconciler.planning.context.view import Wanted
from reconciler.planning.plan import view_of
from reconciler.planning.replica.form import form
from reconciler.planning.replica.ladder import decide
from reconciler.state import AllocateEpoch, Cause, NodeName
from tests.examples import examples
from tests.properties.test_planning import ACTIONS, Action, live
from tests.worlds import World, deployment, model, node, settled


def cluster(replicas: int = 3) -> World:
    return World(
        manifests=[
            model(),
            deployment(nodes=2, replicas=replicas),
            *(node(f"node-{n}") for n in range(1, 4)),
        ],
        agents={NodeName(f"node-{n}") for n in range(1, 4)},
    )


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(ACTIONS, max_size=15))
def test_a_group_that_is_tried_out_and_dropped_takes_nothing(history: list[Action]) -> None:
    world = cluster()
    live(world, history)
    before, taken = world.plan(), Reservations.of(world.seen())
    for name in sorted(taken.world.desired.replicas()):
        view = view_of(taken, name)
        assert isinstance(view, Wanted)
        first = decide(view)
        form(view, Cause.NEW_REPLICA, "tried out")  # and dropped
        assert taken == Reservations.of(world.seen())
        assert decide(view) == first
    assert world.plan() == before


def test_a_kept_decision_takes_ports_cables_and_memory_at_once() -> None:
    taken = Reservations.of(cluster().seen())
    name = sorted(taken.world.desired.replicas())[0]
    decision = decide(view_of(taken, name))
    (step,) = decision.steps
    assert isinstance(step, AllocateEpoch)
    record, kept = step.group, taken.kept(decision)
    assert kept.world.memory.groups[name] == record
    at_once = range(record.port, record.port + len(record.members) + 1)
    assert first_ports(taken.world, name, record.epoch, 2) == record.port
    assert first_ports(kept.world, name, record.epoch, 2) == at_once.stop, "the next free ones"
    for member, need in zip(record.members, record.charges, strict=True):
        other = sorted(taken.world.desired.replicas())[1]
        assert taken.ledger.free(member, other) - kept.ledger.free(member, other) == need
        assert kept.ledger.ranks(member, other) == 1
    assert taken.ledger == Ledger.of(taken.world)


@pytest.mark.parametrize("spare", [0, -1])
def test_a_group_has_a_port_for_each_rank_and_one_to_control_it(
    spare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = cluster().seen()
    monkeypatch.setattr(tcp_ports, "PORT_LAST", tcp_ports.PORT_FIRST + 2 + spare)
    name = sorted(world.desired.replicas())[0]
    if spare < 0:
        with pytest.raises(AssertionError):
            first_ports(world, name, 1, 2)
    else:
        assert first_ports(world, name, 1, 2) == tcp_ports.PORT_FIRST


def test_a_decision_without_a_group_takes_nothing() -> None:
    world = settled(cluster(replicas=1))
    taken = Reservations.of(world.seen())
    name = sorted(taken.world.desired.replicas())[0]
    assert taken.kept(decide(view_of(taken, name))) is taken
