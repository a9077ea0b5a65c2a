"""Statuses that are kept from pass to pass are those that would be made anew, whatever has changed in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.state import (
    Contact,
    Desired,
    Leaving,
    NodeName,
    NodeObservation,
    ObjectKey,
    Observed,
    Plan,
    Refusal,
    RefusedBecause,
    Waiting,
    WaitingFor,
)
from reconciler.status import Snapshots, Statuses
from reconciler.status.conditions import Known, each_status
from tests.examples import examples
from tests.worlds import World, deployment, fabric, gateway, model, node

A, B = NodeName("node-a"), NodeName("node-b")
OF_A = ObjectKey("Node", A)
MANIFESTS = (node(A), node(B), model(), gateway(), deployment())


def settled() -> World:
    world = World([*MANIFESTS])
    world.settle()
    return world


WORLD = settled()


def desired(*manifests: object) -> Desired:
    return World([*manifests]).desired()  # type: ignore[list-item]


DESIRED = (
    WORLD.desired(),
    WORLD.desired().stopped(),
    replace(WORLD.desired(), generations={OF_A: 2}),
    desired(node(A, unschedulable=True), *MANIFESTS[1:]),
    desired(*MANIFESTS, fabric("studios", ("node-a/1", "node-b/1"))),
    desired(*MANIFESTS[1:]),
)


def observed(**of_a: object) -> Observed:
    """What was seen, with something else of one node."""
    found = WORLD.observed()
    return replace(found, nodes={**found.nodes, A: replace(found.nodes[A], **of_a)})  # type: ignore[arg-type]


def reported(**fields: object) -> NodeObservation:
    seen = WORLD.observed().nodes[A]
    assert seen.report is not None
    return replace(seen, report=replace(seen.report, **fields))  # type: ignore[arg-type]


OBSERVED = (
    WORLD.observed(),
    observed(contact=Contact.AGENT_DOWN, problem="its agent was killed"),
    observed(contact=Contact.UNREACHABLE, problem="no route"),
    replace(WORLD.observed(), nodes={B: WORLD.observed().nodes[B]}),
    replace(WORLD.observed(), nodes={**WORLD.observed().nodes, B: reported(runtime={"mlx": "0.1"})}),
)
MEMORY = (
    WORLD.memory(),
    replace(WORLD.memory(), in_flight=frozenset(("node/node-a",))),
    replace(WORLD.memory(), leaving={OF_A: Leaving(MANIFESTS[0], 3, 0.0)}),
)
PLANS = (
    Plan(),
    Plan(refused=(Refusal(OF_A, RefusedBecause.RUNTIME_UNAVAILABLE, "no Python"),)),
    Plan(refused=(Refusal(OF_A, RefusedBecause.RUNTIME_UNAVAILABLE, "no disk"),)),
    Plan(waiting=(Waiting(OF_A, WaitingFor.RUNTIME, "it is built", None),)),
    Plan(waiting=(Waiting(OF_A, WaitingFor.AGENT, "it starts", 7.0),)),
    Plan(
        refused=(
            Refusal(OF_A, RefusedBecause.STOPPED, "stopped"),
            Refusal(OF_A, RefusedBecause.RUNTIME_UNAVAILABLE, "no Python"),
        )
    ),
)
POOLS = (DESIRED, OBSERVED, MEMORY, PLANS)
CHANGES = [(which, at) for which, pool in enumerate(POOLS) for at in range(len(pool))]
"""Which of the snapshots is another one, and which one it is."""


@settings(max_examples=examples(200))
@example([(1, 1), (0, 1)])
@given(st.lists(st.sampled_from(CHANGES), min_size=10, max_size=30))
def test_a_status_that_is_kept_is_the_one_that_would_be_made(changes: Sequence[tuple[int, int]]) -> None:
    known: Known = {}
    kept: Statuses = {}
    made: Statuses = {}
    now = [0, 0, 0, 0]
    for which, at in changes:
        now[which] = at
        wanted, seen, memory, plan = DESIRED[now[0]], OBSERVED[now[1]], MEMORY[now[2]], PLANS[now[3]]
        snapshots = Snapshots(wanted, seen, memory, plan, 1000.0)
        kept, made = dict(each_status(snapshots, kept, known)), dict(each_status(snapshots, made, {}))
        assert kept == made
