"""The plan of one pass: nodes first, then every replica, then the tidying up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from reconciler.state import (
    AdoptGroup,
    AllocateEpoch,
    Desired,
    EmptyNode,
    FaultClass,
    ForgetAgent,
    FreeTransport,
    JobName,
    Memory,
    NodeName,
    Observed,
    Plan,
    ProveGroup,
    RebootNode,
    ReleaseReplica,
    RemoveObject,
    ReplicaId,
    Sign,
    StartAgent,
    Step,
    StopAgent,
    Trouble,
    Waiting,
    WaitingFor,
)
from reconciler.state.identity import CLUSTER
from reconciler.state.job_steps import CreateRun, EndAttempt, EndRun, RemoveRuns, SuspendRun
from reconciler.state.machine.links import Cabling
from reconciler.state.plan import SetBack
from reconciler.state.slices import Slices, whole

from . import removal, safety
from .context import reboot_requests
from .context.decision import NOTHING, Decision, combined, wait
from .context.reservations import Reservations
from .context.view import View, look
from .context.world import World, due
from .jobs import retention as retention_of_jobs
from .jobs import runs
from .nodes import agents, gateways, quarantine, repair, runtimes
from .placement.place import FOR_WANT_OF_NODES
from .recovery import cable_faults, machine_faults, quarantined_prompts, rollback, rolling_reboot
from .replica import ladder
from .rollout import surge, targets
from .transport import link_check
from .weights import distribute, retention

K = TypeVar("K")
T = TypeVar("T")


def plan(desired: Desired, observed: Observed, memory: Memory, now: float, entropy: str) -> Plan:
    """Return every step that is safe to take now, everything that waits, and everything that is refused.

    ``now`` is in seconds of the controller's clock; ``entropy`` is secret, and new for each pass.
    """
    return whole(plan_in_slices(desired, observed, memory, now, entropy))


def plan_in_slices(
    desired: Desired, observed: Observed, memory: Memory, now: float, entropy: str
) -> Slices[Plan]:
    """Make the same plan in slices: after each node and each replica the event loop may do something else."""
    kept_out = safety.held_revision(desired) + safety.unwritable(memory) + safety.locked(memory, now)
    if not desired.revision and not desired.stopping:
        # The desired state is not known. Taking it for empty would stop everything that runs.
        unread = wait(CLUSTER, WaitingFor.SOURCE, "the manifests have not been read yet")
        return combined((kept_out, unread))
    draft = Draft(
        reboot_requests.with_reboots_drained(World(desired, observed, memory, now, entropy)),
        (kept_out,),
        cabling={},
    )
    for stage in STAGES:
        draft = yield from stage.run(draft)
    complete = combined(draft.decisions)
    for gate in GATES:
        complete = gate.run(complete, memory, now)
    yield
    ours = sorted(desired.nodes.keys() | memory.agents)
    kept_away = tuple(
        found for name in ours if (found := quarantine.quarantine_of(draft.world, name)) is not None
    )
    return replace(complete, quarantined=kept_away, cabling=draft.cabling)


class Draft(NamedTuple):
    """The decisions of this pass so far."""

    world: World
    decisions: tuple[Decision, ...]
    """In the order in which their steps are taken."""
    cabling: Cabling
    own: tuple[Trouble, ...] = ()
    """The faults of machines and cables themselves."""

    @property
    def names(self) -> list[NodeName]:
        """List the nodes that are wanted or seen, in the order of names."""
        return sorted(self.world.desired.nodes.keys() | self.world.observed.nodes.keys())

    def then(self, *decisions: Decision) -> Draft:
        """Add decisions after all others."""
        told = (decision for decision in decisions if decision is not NOTHING)
        return self._replace(decisions=(*self.decisions, *told))


def _each(names: Iterable[K], ask: Callable[[World, K], T], world: World) -> Slices[list[T]]:
    """Ask the same about each, one after the other."""
    found = []
    for name in names:
        found.append(ask(world, name))
        yield
    return found


def _machines(draft: Draft) -> Slices[Draft]:
    world, names = draft.world, draft.names
    decisions = yield from _each(names, agents.decide, world)
    decisions.append(runtimes.decide(world, names))
    yield
    decisions.append((yield from distribute.decide(world)))
    decisions += yield from _each(names, repair.decide, world)
    return draft.then(*decisions)


def _serving(draft: Draft) -> Slices[Draft]:
    decisions = yield from _workloads(draft.world)
    rollbacks = Decision(refused=tuple(rollback.refusals(draft.world)))
    prompts = Decision(troubles=tuple(quarantined_prompts.troubles(draft.world)))
    return draft.then(*decisions, rollbacks, prompts)


def _gateways(draft: Draft) -> Slices[Draft]:
    world = draft.world
    decisions = yield from _each(gateways.names(world), gateways.decide, world)
    return draft.then(gateways.own(world), *decisions)


def _tidying(draft: Draft) -> Slices[Draft]:
    world = draft.world
    decisions = yield from _each(draft.names, agents.forget, world)
    decisions += yield from _each(draft.names, retention_of_jobs.forget, world)
    decisions.append(retention.decide(world))
    decisions += yield from _each(sorted(world.memory.leaving), removal.decide, world)
    return draft.then(*decisions)


def _causes(draft: Draft) -> Slices[Draft]:
    world, names, found = draft.world, draft.names, link_check.compare(draft.world)
    yield
    each = yield from _each(names, machine_faults.troubles, world)
    own = tuple(trouble for troubles in each for trouble in troubles)
    own += quarantine.troubles(world, names)
    yield
    return draft._replace(own=own + cable_faults.persistent_faults(world, found), cabling=found)


def _name_each_task_once(draft: Draft) -> Slices[Draft]:
    yield
    named = {(trouble.fault, trouble.task) for trouble in draft.own if trouble.person}
    named |= cable_faults.person_tasks(draft.world, draft.cabling)
    if not named:
        return draft
    return draft._replace(
        decisions=tuple(_without_repeated_tasks(decision, named) for decision in draft.decisions)
    )


def _without_repeated_tasks(decision: Decision, named: set[tuple[FaultClass, Sign]]) -> Decision:
    """Drop a person's task from a group where the machine or cable that causes it has the task already."""
    if not decision.troubles:
        return decision
    troubles = tuple(
        replace(trouble, person="") if (trouble.fault, trouble.task) in named else trouble
        for trouble in decision.troubles
    )
    return replace(decision, troubles=troubles)


def _machine_troubles(draft: Draft) -> Slices[Draft]:
    yield
    world, own = draft.world, draft.own
    return draft.then(
        Decision(troubles=machine_faults.without_pending_restart(world, own))
        + machine_faults.restart(world, own)
    )


def _requested_restarts(draft: Draft) -> Slices[Draft]:
    yield
    first = rolling_reboot.decide(draft.world, list(draft.decisions))
    return draft._replace(decisions=(first, *draft.decisions))


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the pass, and the reason for its place."""

    run: Callable[[Draft], Slices[Draft]]
    reason: str


STAGES: tuple[Stage, ...] = (
    Stage(
        _machines, "agents, runtimes, weights and repairs come first: groups are formed on what they prepare"
    ),
    Stage(_serving, "each replica sees what those before it have reserved"),
    Stage(
        _gateways,
        "steps for groups go first: a gateway gets routes that the pass before has put in force",
    ),
    Stage(_tidying, "nothing is forgotten or removed before the replicas have said what they still use"),
    Stage(
        _causes,
        "what is wrong with machines and cables is collected before groups' complaints are judged by it",
    ),
    Stage(
        _name_each_task_once,
        "a person is asked once, of the machine or cable, and not of each group that suffers from it",
    ),
    Stage(
        _machine_troubles,
        "these are the causes themselves, so they are added after the complaints were judged",
    ),
    Stage(
        _requested_restarts,
        "a requested restart waits until all else is settled, so it is decided last; its steps are taken first",
    ),
)


def _workloads(world: World) -> Slices[list[Decision]]:
    """Decide about every replica that is wanted, recorded, or has ranks somewhere, and about every job. Those of higher
    priority come first: they take what is free."""
    wanted, extra = world.desired.replicas(), targets.extra(world)
    ranks = world.observed.ranks()
    running = world.memory.groups.keys() | {rank.workload for rank in ranks if rank.alive}
    known = extra | wanted.keys() | {each for each in running if isinstance(each, ReplicaId)}
    taken = Reservations.of(world)
    decisions: list[Decision] = []
    for name in _by_priority(world, _in_order(known, extra), runs.names(world)):
        if isinstance(name, str):
            decisions.append(runs.decide(taken, name))
            taken = taken.kept(decisions[-1])
            yield
            continue
        view = view_of(taken, name)
        decision, no_extra = surge.refused(view, ladder.decide(view))
        decisions.append(decision)
        degraded = cable_faults.degraded(view)
        if degraded:
            decisions.append(Decision(troubles=degraded))
        taken = taken.kept(decision)
        if no_extra:
            taken = replace(taken, world=taken.world.without_extra(name.deployment, no_extra))
        elif any(each.reason in FOR_WANT_OF_NODES for each in decision.refused):
            taken = replace(taken, world=taken.world.without_room(name.deployment))
        yield
    return decisions


def _in_order(known: Collection[ReplicaId], extra: Collection[ReplicaId]) -> list[ReplicaId]:
    """Sort replicas: extra ones take what others leave. The other replicas of their deployment are decided once it is known
    whether there is room for an extra one."""
    waiting = {replica.deployment for replica in extra}
    return sorted(
        known, key=lambda each: (each.deployment in waiting, each.deployment, each not in extra, each)
    )


def _by_priority(world: World, replicas: list[ReplicaId], jobs: list[JobName]) -> list[ReplicaId | JobName]:
    """Order replicas and jobs by their priority; of one priority, replicas come first."""
    desired = world.desired

    def priority(each: ReplicaId | JobName) -> int:
        if isinstance(each, str):
            return desired.jobs[each].spec.priority if each in desired.jobs else 0
        deployment = desired.deployments.get(each.deployment)
        return deployment.spec.priority if deployment is not None else 0

    return sorted([*replicas, *jobs], key=priority, reverse=True)


def view_of(taken: Reservations, name: ReplicaId) -> View:
    """Look at a replica, with everything that others have taken so far."""
    return look(taken.world, taken.ledger, name, targets.target(taken.world, name))


def one_restart(plan: Plan, memory: Memory, now: float) -> Plan:
    """Keep one restart of a machine: a second one is considered again when the first machine is back."""
    later = [step for step in plan.steps if isinstance(step, RebootNode)][1:]
    return replace(plan, steps=tuple(step for step in plan.steps if step not in later)) if later else plan


def _written_first(plan: Plan, memory: Memory, now: float) -> Plan:
    """While the store is locked, leave out the steps that write to it: what cannot be written is not acted upon."""
    if not memory.locked:
        return plan
    return replace(plan, steps=tuple(step for step in plan.steps if not isinstance(step, WRITTEN)))


def _held_back(plan: Plan, memory: Memory, now: float) -> Plan:
    """Have a step that has just failed wait its turn instead of trying it in a tight loop."""
    if not memory.failures:
        return plan
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


@dataclass(frozen=True, slots=True)
class Gate:
    """A function that takes steps out of the complete plan, and the reason for its place."""

    run: Callable[[Plan, Memory, float], Plan]
    reason: str


WRITTEN = (
    CreateRun, EndAttempt, EndRun, SuspendRun, RemoveRuns,
    AdoptGroup, AllocateEpoch, ProveGroup, FreeTransport, SetBack, ReleaseReplica, RemoveObject,
    StartAgent, StopAgent, ForgetAgent, EmptyNode, RebootNode,
)  # fmt: skip
"""The steps whose handlers write to the store."""

GATES: tuple[Gate, ...] = (
    Gate(
        one_restart,
        "several stages restart machines: only the complete plan shows that two would go at once",
    ),
    Gate(
        _written_first,
        "a locked store is reported once, and not by the failure of each step that it delays",
    ),
    Gate(
        _held_back,
        "a back-off is reported of steps that would be taken, so it comes after all that drop steps",
    ),
)
