"""The plan of one pass: nodes first, then every replica, then what is left to tidy up."""

from __future__ import annotations

from dataclasses import replace

from reconciler.state import (
    AllocateEpoch,
    Desired,
    FaultClass,
    Memory,
    Observed,
    Plan,
    RebootNode,
    Refusal,
    RefusedBecause,
    ReplicaId,
    Step,
    Waiting,
    WaitingFor,
)
from reconciler.state.identity import CLUSTER, ObjectKey

from . import (
    asked,
    fabric,
    links,
    machines,
    nodes,
    quarantine,
    removal,
    repair,
    replica,
    restarts,
    retention,
    runtimes,
    safety,
    setbacks,
    weights,
)
from .decision import NOTHING, Decision, whole
from .ledger import Ledger
from .view import View
from .world import World, due


def plan(desired: Desired, observed: Observed, memory: Memory, now: float, entropy: str) -> Plan:
    """Every step that is safe to take now, everything that waits, everything that is refused.

    ``now`` is in seconds of the controller's clock; ``entropy`` is secret, and drawn anew for each pass.
    """
    kept_out = safety.kept_out(desired) + safety.unwritable(memory)
    if not desired.revision and not desired.stopping:
        # What is wanted is not known: to take that for nothing would stop everything that runs.
        unread = Waiting(CLUSTER, WaitingFor.SOURCE, "the manifests have not been read yet")
        return whole((kept_out, Decision(waiting=(unread,))))
    world = asked.emptied(World(desired, observed, memory, now, entropy))
    names = sorted(desired.nodes.keys() | observed.nodes.keys())
    decisions = [kept_out, *(nodes.decide(world, name) for name in names)]
    decisions += [runtimes.decide(world, names), weights.decide(world)]
    decisions += [repair.decide(world, name) for name in names]
    decisions += _replicas(world)
    decisions.append(Decision(refused=tuple(setbacks.refusals(world))))
    decisions.append(_gateway(world))
    decisions += [nodes.forget(world, name) for name in names]
    decisions.append(retention.decide(world))
    decisions += [removal.decide(world, key) for key in sorted(memory.leaving)]
    own = tuple(trouble for name in names for trouble in machines.troubles(world, name))
    cabling = fabric.compare(world)
    own += quarantine.troubles(world, names) + links.lasting(world, cabling)
    said = {(trouble.fault, trouble.person) for trouble in own} | links.asked(world, cabling)
    decisions = [_told_once(decision, said) for decision in decisions]
    decisions.append(Decision(troubles=machines.left_to_people(world, own)) + machines.restart(world, own))
    decisions.insert(0, restarts.decide(world, decisions))
    ours = sorted(desired.nodes.keys() | memory.agents)
    kept_away = tuple(found for name in ours if (found := quarantine.of(world, name)) is not None)
    whole_plan = _held_back(one_restart(whole(decisions)), memory, now)
    return replace(whole_plan, quarantined=kept_away, cabling=cabling)


def _told_once(decision: Decision, said: set[tuple[FaultClass, str]]) -> Decision:
    """What a person must do on a machine or a cable is said of that, and not of each group that suffers from it."""
    if not decision.troubles or not said:
        return decision
    troubles = tuple(
        replace(trouble, person="") if (trouble.fault, trouble.person) in said else trouble
        for trouble in decision.troubles
    )
    return replace(decision, troubles=troubles)


def _gateway(world: World) -> Decision:
    """The gateway follows its routes by itself; here is only said what stops it."""
    wanted, seen = world.desired.gateway, world.observed.gateway
    if wanted is None or seen is None or not seen.problem:
        return NOTHING
    key = ObjectKey("Gateway", wanted.metadata.name)
    return Decision(refused=(Refusal(key, RefusedBecause.CANNOT_LISTEN, seen.problem),))


def _replicas(world: World) -> list[Decision]:
    """Decisions about every replica that is wanted, recorded, or has ranks somewhere."""
    wanted = world.desired.replicas()
    ranks = world.observed.ranks()
    known = wanted.keys() | world.memory.groups.keys() | {rank.replica for rank in ranks if rank.alive}
    ledger = Ledger(world)
    decisions: list[Decision] = []
    for name in sorted(known):
        view = _view(world, ledger, name)
        decision = replica.decide(view)
        decisions += [decision, Decision(troubles=links.degraded(view))]
        world = _after(world, decision)
    return decisions


def _view(world: World, ledger: Ledger, name: ReplicaId) -> View:
    deployment = world.desired.replicas().get(name)
    return View(
        world=world,
        ledger=ledger,
        replica=name,
        deployment=deployment,
        model=setbacks.effective(world, deployment) if deployment else None,
        record=world.memory.groups.get(name),
        ranks=world.ranks_of(name),
    )


def _after(world: World, decision: Decision) -> World:
    """The world in which the ports and cables of groups just decided on are taken."""
    groups = [step.group for step in decision.steps if isinstance(step, AllocateEpoch)]
    if not groups:
        return world
    last, memory = groups[-1], world.memory
    taken = {**memory.groups, **{group.replica: group for group in groups}}
    return replace(world, memory=replace(memory, groups=taken, next_port=last.port + len(last.members) + 1))


def one_restart(plan: Plan) -> Plan:
    """Two machines that need a restart in the same pass: the second is looked at again when the first is back."""
    later = [step for step in plan.steps if isinstance(step, RebootNode)][1:]
    return replace(plan, steps=tuple(step for step in plan.steps if step not in later)) if later else plan


def _held_back(plan: Plan, memory: Memory, now: float) -> Plan:
    """A step that has just failed waits its turn instead of being tried in a tight loop."""
    steps: list[Step] = []
    waiting = list(plan.waiting)
    for step in plan.steps:
        failure = memory.failures.get(step.key)
        if failure is None or due(failure.retry_at, now):
            steps.append(step)
        else:
            text = f"{step}: failed {failure.attempts} times, last: {failure.text}"
            waiting.append(Waiting(step.object, WaitingFor.BACK_OFF, text, failure.retry_at))
    return replace(plan, steps=tuple(steps), waiting=tuple(waiting))
