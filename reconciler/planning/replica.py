"""What to do about one replica: a ladder of rules, the first that answers wins.

Form = new epoch in the store -> stop every rank of the replica -> see that they are gone -> start all
together -> all report ready -> one real completion succeeds. Every rung is derived from what is seen, so
the same ladder continues a formation that another controller began.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reconciler.resources import Model, ModelDeployment
from reconciler.state import (
    AllocateEpoch,
    Cause,
    GroupRecord,
    NodeName,
    ObservedRank,
    ProveGroup,
    Refusal,
    RefusedBecause,
    ReleaseReplica,
    ReplicaId,
    StartRank,
    Step,
    StopRank,
    Waiting,
    WaitingFor,
)
from reconciler.wire.launch import ExitCode, Phase

from . import group
from .decision import NOTHING, Decision
from .placement import Ledger, Placed, place
from .world import World

DRAIN_SECONDS = 30.0
"""How long a healthy group may finish what it has begun."""
GRACE_SECONDS = 5.0
"""How long the rest of a dead group may take to end in order; it has nothing left to finish."""
SHUTDOWN_SECONDS = 3.0
"""The same while everything is being stopped: somebody is waiting at a terminal."""

BACK_OFF_SECONDS_MAX = 300.0
HEALTHY_SECONDS = 600.0
"""A group that lived so long after its proof has earned an immediate restart."""
LASTING_REFUSALS = (ExitCode.CONFIG, ExitCode.WEIGHTS)
"""Exits that another attempt with the same files cannot change: tried again only slowly."""


@dataclass(frozen=True, slots=True)
class View:
    """One replica within its world."""

    world: World
    ledger: Ledger
    replica: ReplicaId
    deployment: ModelDeployment | None
    """None when the replica is no longer wanted."""
    model: Model | None
    record: GroupRecord | None
    ranks: tuple[ObservedRank, ...]
    """Of any epoch, on any node."""

    @property
    def alive(self) -> tuple[ObservedRank, ...]:
        return tuple(rank for rank in self.ranks if rank.alive)

    @property
    def current(self) -> dict[int, ObservedRank]:
        """The ranks of the recorded epoch, by rank."""
        epoch = self.record.epoch if self.record else None
        return {r.report.id.rank: r for r in self.ranks if r.report.id.epoch == epoch}

    @property
    def ended(self) -> ObservedRank | None:
        """The rank whose end tells most of why the group is dead: not one that merely lost its peers."""
        gone = [rank for rank in self.current.values() if not rank.alive]
        return min(gone, key=_blame, default=None)

    def wait(self, reason: WaitingFor, text: str, until: float | None = None) -> Waiting:
        return Waiting(self.replica.key, reason, f"{self.replica}: {text}", until, self.replica)


def _blame(rank: ObservedRank) -> tuple[bool, float, int]:
    ended = rank.report.exit
    consequence = ended is not None and ended.code in (ExitCode.PEER_LOST, ExitCode.OK)
    return (consequence, ended.at if ended else 0.0, rank.report.id.rank)


def decide(view: View) -> Decision:
    """The first rule that has an answer for this replica."""
    for rule in LADDER:
        decision = rule(view)
        if decision is not None:
            return decision
    return NOTHING


def _step_in_flight(view: View) -> Decision | None:
    """What is being done is not decided anew."""
    if f"replica/{view.replica}" not in view.world.memory.in_flight:
        return None
    return Decision(waiting=(view.wait(WaitingFor.STEP, "a step is being executed"),))


def _not_observed(view: View) -> Decision | None:
    """Nothing is decided about ranks on nodes that were not seen since the last change to them."""
    nodes = {rank.node for rank in view.alive} | set(view.record.members if view.record else ())
    down = sorted(n for n in nodes if not view.world.reached(n))
    if down:
        return Decision(waiting=(view.wait(WaitingFor.AGENT, f"no answer from {', '.join(down)}"),))
    stale = sorted(n for n in nodes if not view.world.fresh(n))
    if stale:
        text = f"waiting for news from {', '.join(stale)}"
        return Decision(waiting=(view.wait(WaitingFor.OBSERVATION, text),))
    return None


def _unwanted(view: View) -> Decision | None:
    """Nobody wants this replica any more: let it finish, end it, release it."""
    if view.deployment is not None:
        return None
    if view.alive:
        stopping = view.world.desired.stopping
        return _stop(view, view.alive, SHUTDOWN_SECONDS if stopping else DRAIN_SECONDS, "no longer wanted")
    return Decision(steps=(ReleaseReplica(view.replica),)) if view.record else NOTHING


def _unknown_model(view: View) -> Decision | None:
    """A deployment without its model forms no group; one that runs goes on."""
    if view.model is not None or view.deployment is None:
        return None
    text = (
        f'model "{view.deployment.spec.model}" does not exist; add a Model of this name or correct spec.model'
    )
    return Decision(refused=(Refusal(view.replica.key, RefusedBecause.MODEL_UNKNOWN, text, view.replica),))


def _dead(view: View) -> Decision | None:
    """One dead rank is a dead group: a new epoch, as soon as the back-off allows."""
    ended = view.ended
    if view.record is None or ended is None:
        return None
    failures = _failures(view.record, view.world.now)
    exit_code = ended.report.exit.code if ended.report.exit else None
    lasting = exit_code in LASTING_REFUSALS and view.record.fingerprint == _wish(view)
    delay = BACK_OFF_SECONDS_MAX if lasting else back_off_seconds(failures)
    until = view.record.created_at + delay
    if view.world.now >= until:
        return _form(view, Cause.RANK_EXITED, ended.ending, failures + 1)
    waiting = view.wait(WaitingFor.BACK_OFF, f"next attempt after {ended.ending}", until)
    refusal = Refusal(view.replica.key, RefusedBecause.RANK_REFUSES, ended.last_words, view.replica)
    rest = _stop(view, view.alive, GRACE_SECONDS, "its group is dead") if view.alive else NOTHING
    return rest + Decision(waiting=(waiting,), refused=(refusal,) if lasting else ())


def _failures(record: GroupRecord, now: float) -> int:
    """Failures in a row that count: a long healthy life wipes them out."""
    lived = record.proven_at is not None and now - record.proven_at >= HEALTHY_SECONDS
    return 0 if lived else record.failures


def back_off_seconds(failures: int) -> float:
    """None before the first repetition, then 1 s doubling to five minutes."""
    return 0.0 if failures == 0 else min(BACK_OFF_SECONDS_MAX, 2.0 ** (failures - 1))


def _wish(view: View) -> str:
    assert view.deployment is not None
    assert view.model is not None
    return group.fingerprint(view.deployment, view.model)


def _unformed(view: View) -> Decision | None:
    """A replica without a group gets one; a group for another wish is replaced."""
    record = view.record
    if record is None:
        return _form(view, Cause.NEW_REPLICA, "it has no group yet", 0)
    assert view.deployment is not None
    bounds = view.deployment.spec.parallelism.nodes
    missing = [n for n in record.members if n not in view.world.desired.nodes]
    if record.fingerprint != _wish(view):
        return _replace(view, "its manifest has changed")
    if not bounds.min <= len(record.members) <= bounds.max:
        return _replace(
            view, f"it runs on {len(record.members)} nodes, wanted are {bounds.min} to {bounds.max}"
        )
    if missing:
        return _replace(view, f"{', '.join(missing)} is no longer a node of this cluster")
    return None


def _replace(view: View, why: str) -> Decision | None:
    """A new group where one can be formed; where not, say so, and let the old one go on."""
    decision = _form(view, Cause.SPEC_CHANGED, why, 0)
    if decision.steps:
        return decision
    return decision + (_running(view) or NOTHING)


def _form(view: View, cause: Cause, detail: str, failures: int) -> Decision:
    assert view.deployment is not None
    assert view.model is not None
    placed = _place(view, view.deployment, view.model)
    if isinstance(placed, Waiting):
        return Decision(waiting=(placed,))
    if isinstance(placed, Refusal):
        return Decision(refused=(placed,))
    memory = view.world.memory
    seen = [rank.report.id.epoch for rank in view.ranks]
    epoch = max([memory.last_epochs.get(view.replica, 0), *seen]) + 1
    record = GroupRecord(
        replica=view.replica,
        epoch=epoch,
        members=placed,
        port=group.first_ports(memory.next_port, len(placed) + 1, memory.groups.values()),
        secret=group.secret(view.world.entropy, view.replica, epoch),
        fingerprint=_wish(view),
        created_at=view.world.now,
        failures=failures,
    )
    return Decision(steps=(AllocateEpoch(view.replica, record, cause, detail),))


def _place(view: View, deployment: ModelDeployment, model: Model) -> Placed | Waiting | Refusal:
    """Nodes for the new group, as if the one that it replaces were gone already."""
    old = view.record.members if view.record else ()
    view.ledger.charge(old, deployment, model, sign=-1)
    placed = place(view.world, view.ledger, view.replica, deployment, model)
    if isinstance(placed, Waiting | Refusal):
        view.ledger.charge(old, deployment, model)
    return placed


def _leftovers(view: View) -> Decision | None:
    """No rank of a new epoch starts while one of an old epoch may be alive."""
    assert view.record is not None
    old = tuple(r for r in view.alive if r.report.id.epoch != view.record.epoch)
    if not old:
        return None
    dead = any(not r.alive for r in view.ranks if r.report.id.epoch == old[0].report.id.epoch)
    return _stop(
        view, old, GRACE_SECONDS if dead else DRAIN_SECONDS, f"epoch {view.record.epoch} replaces it"
    )


def _stop(view: View, ranks: tuple[ObservedRank, ...], grace: float, reason: str) -> Decision:
    """Ask each rank to end, once; then wait until all are gone."""
    asked = view.world.memory.stops
    steps: tuple[Step, ...] = tuple(
        StopRank(view.replica, r.node, r.report.id, grace, reason)
        for r in ranks
        if asked.get(r.report.id, 0.0) <= view.world.now
    )
    names = ", ".join(f"rank {r.report.id.rank} of epoch {r.report.id.epoch} on {r.node}" for r in ranks)
    until = max((asked.get(r.report.id, 0.0) for r in ranks), default=0.0)
    return Decision(
        steps, (view.wait(WaitingFor.STOPPING, f"waiting for the end of {names}", until or None),)
    )


def _running(view: View) -> Decision | None:
    """The rungs of a group on its way up, and nothing for one that is proven."""
    for rule in (_leftovers, _incomplete, _not_ready, _not_proven):
        decision = rule(view)
        if decision is not None:
            return decision
    return None


def _incomplete(view: View) -> Decision | None:
    """Start, all together, the ranks that were never started; a proven group that misses one is dead."""
    assert view.record is not None
    missing = [rank for rank in range(len(view.record.members)) if rank not in view.current]
    if not missing:
        return None
    if view.record.proven_at is not None:
        text = f"rank {missing[0]} of epoch {view.record.epoch} is gone without a trace"
        return _form(view, Cause.RANK_MISSING, text, view.record.failures + 1)
    starts = [_start(view, view.record, rank) for rank in missing]
    return Decision(steps=tuple(step for step in starts if step is not None))


def _start(view: View, record: GroupRecord, rank: int) -> StartRank | None:
    assert view.deployment is not None
    assert view.model is not None
    name: NodeName = record.members[rank]
    node = view.world.node(name)
    weights = node.model(view.model.spec.source.path)
    if node.report is None or weights is None:
        return None
    spec = group.launch(record, rank, view.deployment, view.model, (node.report, weights))
    return StartRank(view.replica, name, spec)


def _not_ready(view: View) -> Decision | None:
    """Loading is not failing."""
    late = [r for _, r in sorted(view.current.items()) if r.report.phase != Phase.READY]
    if not late:
        return None
    text = ", ".join(f"rank {r.report.id.rank} is {_phase(r)}" for r in late)
    return Decision(waiting=(view.wait(WaitingFor.RANKS, text),))


def _phase(rank: ObservedRank) -> str:
    report = rank.report
    if report.phase == Phase.LOADING and report.total_bytes:
        return f"loading ({100 * report.loaded_bytes // report.total_bytes} %)"
    return {Phase.RENDEZVOUS: "looking for the others", Phase.WARM: "warming up"}.get(
        report.phase, report.phase
    )


def _not_proven(view: View) -> Decision | None:
    """Ready is what a rank says; a completion is what it does."""
    assert view.record is not None
    if view.record.proven_at is not None:
        return None
    first = view.current[0]
    step = ProveGroup(view.replica, view.record.epoch, first.node, first.report.socket)
    return Decision(steps=(step,))


LADDER: tuple[Callable[[View], Decision | None], ...] = (
    _step_in_flight,
    _not_observed,
    _unwanted,
    _unknown_model,
    _dead,
    _unformed,
    _running,
)
