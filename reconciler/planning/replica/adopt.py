"""Ranks that the store does not know, because it was lost or replaced by an older copy.

Nodes keep the directories of their ranks. Their reports give the record of a group again, without its secret, which
only the start of a rank needs. So such a group is never completed, only proven or replaced.
"""

from __future__ import annotations

from reconciler.planning.context.view import Wanted
from reconciler.planning.rollout import specs
from reconciler.state import GroupRecord, ObservedRank
from reconciler.state.formed_spec import FormedSpec
from reconciler.state.formed_under import Facts
from reconciler.wire.launch import Phase
from reconciler.wire.node import RankReport


def unrecorded(view: Wanted) -> bool:
    """Return whether nodes know a later epoch of this replica than the store, or run one that it does not know."""
    recorded = view.record.epoch if view.record else 0
    known = max(recorded, view.world.memory.last_epochs.get(view.replica, 0))
    return _newest(view) > known or any(rank.report.id.epoch > recorded for rank in view.alive)


def adopted(view: Wanted) -> GroupRecord | str:
    """Return the record of the group that the living ranks form; else why they form none that could serve.

    Later rules judge whether it is the wanted group, as for any group.
    """
    epoch = _newest(view)
    alive = sorted(view.alive, key=lambda rank: rank.report.id.rank)
    ended = [rank for rank in view.ranks if not rank.alive and rank.report.id.epoch == epoch]
    given = view.world.memory.last_epochs.get(view.replica, 0)
    flaw = f"epoch {given} was given since" if given > epoch else _flaw(epoch, alive, ended)
    if flaw:
        return flaw
    first = alive[0].report
    spec = _formed_for(view, first)
    members = tuple(rank.node for rank in alive)
    needs = tuple(rank.report.memory_bytes for rank in alive)
    (transport, *others) = sorted({rank.report.transport for rank in alive})
    return GroupRecord(
        workload=view.replica,
        epoch=epoch,
        members=members,
        port=first.port,
        secret="",
        fingerprint=first.group,
        created_at=view.world.now,
        rank_bytes=max(needs),
        needs=needs if len(set(needs)) > 1 else (),
        transport="" if others else transport,
        model=spec.model.metadata.name if spec else "",
        boots=tuple(view.world.boot(name) for name in members),
        facts=Facts.of(view.current_facts(members)),
        weights=specs.weights(spec.model) if spec else "",
        context=first.context,
        spec=spec,
    )


def _formed_for(view: Wanted, rank: RankReport) -> FormedSpec | None:
    """Return the spec that the group of a rank was formed for: as its agent reports it, else that of the manifests if
    it is the same; None if it is another one, and not known."""
    spec, wanted = FormedSpec.parse(rank.formed_for), view.workload
    if spec is not None and specs.hashed(spec) == rank.group:
        return spec
    same = wanted is not None and wanted.is_served_by(rank.group, rank.context)
    return FormedSpec.of(wanted.deployment, wanted.model) if wanted and same else None


def _newest(view: Wanted) -> int:
    return max((rank.report.id.epoch for rank in view.ranks), default=0)


def _flaw(epoch: int, alive: list[ObservedRank], ended: list[ObservedRank]) -> str:
    """Say why these are not all ranks of one group, each alive and meant to stay; empty if they are."""
    if ended:
        return ended[0].ending
    if not alive:
        return f"no rank of epoch {epoch} is left"
    first = alive[0].report
    for rank in alive:
        report = rank.report
        who = f"rank {report.id.rank} on {rank.node}"
        if report.id.epoch != epoch:
            return f"{who} is one of epoch {report.id.epoch}"
        if not report.port or (report.group, report.size, report.port) != (
            first.group,
            first.size,
            first.port,
        ):
            return f"{who} does not say what group it is in"
        if report.phase == Phase.DRAINING:
            return f"{who} is ending"
    if [rank.report.id.rank for rank in alive] != list(range(first.size)):
        return f"{len(alive)} of {first.size} ranks of epoch {epoch} are left"
    return ""
