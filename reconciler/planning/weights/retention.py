"""Removes weights that nobody wants any longer: never those of a ``path``, never those that may be used."""

from __future__ import annotations

from reconciler.planning.context.decision import NOTHING, Decision
from reconciler.planning.context.world import World
from reconciler.resources import Model
from reconciler.state.machine.weights import RemoveWeights, folder
from reconciler.wire.weights import KeptWeights, repo_folder


def decide(world: World) -> Decision:
    """Remove superfluous fetched weights on every node, once for each folder that several nodes share."""
    used = in_use(world)
    if world.desired.stopping or used is None:
        return NOTHING
    steps: list[RemoveWeights] = []
    seen: set[tuple[str, str]] = set()
    for name in sorted(world.desired.nodes):
        report = world.node(name).report
        if report is None or not world.reached(name) or not world.seen_since_last_write(name):
            continue
        for weights in _superfluous(world, report.kept, used):
            place = (report.host_id, weights.directory)
            step = RemoveWeights(name, weights.path, weights.size)
            if (
                place not in seen
                and step.subject not in world.memory.in_flight
                and not _fetched(world, weights)
            ):
                seen.add(place)
                steps.append(step)
    return Decision(steps=tuple(steps))


def in_use(world: World) -> frozenset[str] | None:
    """Return the paths that something in the cluster may read; None while that is not known for certain."""
    found: set[str] = set()
    for record in world.memory.groups.values():
        if not record.secret:
            return None  # it was adopted: what its ranks hold was not recorded
        found |= {folder(weights) for weights in (record.weights, record.weights_before) if weights}
    for rank in world.observed.ranks():
        known = world.memory.groups.get(rank.workload)
        if rank.alive and (known is None or known.epoch != rank.report.id.epoch):
            return None
    for rollback in world.memory.rollbacks.values():
        found |= {folder(weights) for weights in (rollback.tried, rollback.served) if weights}
    leaving = [each.manifest for each in world.memory.leaving.values() if isinstance(each.manifest, Model)]
    for model in (*world.desired.models.values(), *leaving):
        if model.spec.source.huggingface is not None:
            found.add(model.spec.source.folder)
    return frozenset(found)


def _superfluous(world: World, kept: tuple[KeptWeights, ...], used: frozenset[str]) -> list[KeptWeights]:
    """List weights that were not asked for in a while, except for the newest that the Models of a repository keep."""
    unused = [weights for weights in kept if weights.path not in used]
    spared: set[str] = set()
    for repo in {_repo(weights.path) for weights in unused}:
        older = sorted(
            (weights for weights in unused if weights.whole and _repo(weights.path) == repo),
            key=lambda weights: (-weights.changed_at, weights.path),
        )
        spared |= {weights.path for weights in older[: _revisions_kept(world, repo)]}
    return [weights for weights in unused if weights.stale and weights.path not in spared]


def _revisions_kept(world: World, repo: str) -> int:
    """Return how many older revisions of a repository are kept."""
    keeps = [
        model.spec.keep
        for model in world.desired.models.values()
        if (hub := model.spec.source.huggingface) is not None and repo_folder(hub.repo) == repo
    ]
    return max(keeps, default=0)


def _repo(path: str) -> str:
    return path.split("/")[1]


def _fetched(world: World, weights: KeptWeights) -> bool:
    """Return whether somebody fetches or verifies these weights now."""
    reports = [node.model(weights.path) for node in world.observed.nodes.values()]
    return any(report is not None and report.fetch is not None and report.fetch.running for report in reports)
