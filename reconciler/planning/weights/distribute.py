"""Decides which nodes get the weights of which Model, and what each does for that now."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from reconciler.planning.context import weights_access
from reconciler.planning.context.decision import NOTHING, Decision, wait
from reconciler.planning.context.memory_ledger import Placed
from reconciler.planning.context.workload import Workload
from reconciler.planning.context.world import World
from reconciler.planning.nodes import runtimes
from reconciler.planning.nodes.eligible import candidates, in_parts, placement_key, requirements
from reconciler.planning.rollout import targets as replicas
from reconciler.resources import Model, ModelDeployment
from reconciler.resources.weights import ModelSource
from reconciler.state import DeploymentName, NodeName, Refusal, RefusedBecause, Step, Waiting, WaitingFor
from reconciler.state.identity import ObjectKey
from reconciler.state.machine.weights import (
    ON_DEMAND,
    FetchWeights,
    failed,
    given_up,
    present,
    progress,
    running,
)
from reconciler.state.slices import Slices
from reconciler.wire.node import ModelReport
from reconciler.wire.paths import giving_socket, taking_socket
from reconciler.wire.weights import (
    FETCHERS_MAX,
    SPARE_BYTES,
    FetchProblem,
    FetchReport,
    FetchSource,
    Progress,
)

BACK_OFF_SECONDS_MAX = 300.0
COPIES_MAX = 2
"""Failed copies in a row from another node before the hub is asked."""
LASTING_SECONDS = 600.0
"""Seconds between looks at a problem that a person has to fix: nobody has to report that it is fixed."""


def decide(world: World) -> Slices[Decision]:
    """Bring all weights to the nodes that are to have them."""
    decision = NOTHING
    if not world.desired.stopping:
        for _, model in sorted(wanted(world).items()):
            decision += _in_turn(world, _decide_model(world, model.metadata.name, model), decision.steps)
            yield
    return decision


def _in_turn(world: World, decided: Decision, before: tuple[Step, ...]) -> Decision:
    """Begin no more fetches on a node than may run there at a time; ``before``: the steps decided earlier."""
    begun = Counter(step.node for step in before if isinstance(step, FetchWeights))
    kept: list[Step] = []
    waiting = decided.waiting
    for step in decided.steps:
        if isinstance(step, FetchWeights) and begun[step.node] + _fetching(world, step.node) >= FETCHERS_MAX:
            text = f"{step.model}: {step.node} fetches others first, {FETCHERS_MAX} at a time"
            waiting += (Waiting(step.object, WaitingFor.WEIGHTS, text),)
        else:
            kept.append(step)
    return replace(decided, steps=tuple(kept), waiting=waiting)


def _fetching(world: World, node: NodeName) -> int:
    """Count the fetches that run on a node, or were just asked for."""
    report, asked = world.node(node).report, f"weights/{node}/"
    found = {each.path for each in report.models if running(each) is not None} if report else set()
    return len(
        found | {each.removeprefix(asked) for each in world.memory.in_flight if each.startswith(asked)}
    )


def wanted(world: World) -> dict[str, Model]:
    """Return the Models from hubs that deployments are served with, by the path of their weights."""
    return {
        model.spec.source.folder: model
        for name in world.desired.deployments
        for model in replicas.models(world, name)
        if model.spec.source.huggingface is not None
    }


def _decide_model(world: World, name: str, model: Model) -> Decision:
    """Decide about one Model. Nodes that share a folder of one machine fetch once."""
    path = model.spec.source.folder
    nodes = targets(world, model)
    at_work = {in_full: _holders(world, path, in_full, nodes) for in_full in (True, False)}
    decision = NOTHING
    for turn, (node, in_full) in enumerate(nodes.items()):
        place, weights = place_of(world, node, path), world.node(node).model(path)
        if place is None or weights is None or present(weights, in_full) or not world.reached(node):
            continue
        if runtimes.about_to_arrive(world, node):
            text = f"{name}: the runtime of {node} is being built"
            decision += wait(ObjectKey("Model", name), WaitingFor.RUNTIME, text)
            continue
        busy = at_work[in_full]
        having = tuple(each for each in busy.values() if present(world.node(each).model(path), in_full))
        if busy.get(place, node) != node:
            text = f"{busy[place]} has {name}, or fetches it, in the folder that {node} uses too"
            decision += wait(ObjectKey("Model", name), WaitingFor.WEIGHTS, text)
            continue
        if busy and not having and node not in busy.values():
            first = next(iter(busy.values()))
            text = f"{name}: {node} waits for {first} to fetch it, and copies it from there"
            decision += wait(ObjectKey("Model", name), WaitingFor.WEIGHTS, text)
            continue
        decided = on_node(world, model, node, None if in_full else ())
        if having:
            decided = from_peer(world, decided, having[turn % len(having)])
        if decided.steps:
            busy[place] = node
        decision += decided
    return decision


def from_peer(world: World, decided: Decision, origin: NodeName) -> Decision:
    """Fetch the same from a node that has the weights; if that has failed, from the hub after all."""
    step = next((step for step in decided.steps if isinstance(step, FetchWeights)), None)
    giving = world.node(origin).report
    taking = world.node(step.node).report if step else None
    if step is None or giving is None or taking is None or not world.seen_since_last_write(origin):
        return decided
    last = failed(world.node(step.node).model(step.path))
    if last is not None and last.attempts >= COPIES_MAX and last.attempts % 2 == 0:
        return decided  # alternate, because the hub may have failed instead
    sockets = (
        giving_socket(giving.run_directory, origin, step.path),
        taking_socket(taking.run_directory, step.node, step.path),
    )
    return replace(decided, steps=(replace(step, origin=origin, sockets=sockets),))


def _holders(
    world: World, path: str, in_full: bool, nodes: Mapping[NodeName, bool]
) -> dict[tuple[str, str], NodeName]:
    """Return for each folder the node that has the weights there, or is about to, or may be until it is seen
    again."""
    return {
        place: node
        for node in sorted(world.observed.nodes)
        if (place := place_of(world, node, path)) is not None
        and (
            _has_or_fetches(world, node, path, in_full)
            or (node in nodes and world.reached(node) and not world.seen_since_last_write(node))
        )
    }


def place_of(world: World, node: NodeName, path: str) -> tuple[str, str] | None:
    """Return machine and folder of weights on a node; None if they are not known."""
    seen = world.node(node)
    weights = seen.model(path)
    return (seen.report.host_id, weights.directory) if seen.report and weights else None


def _has_or_fetches(world: World, node: NodeName, path: str, in_full: bool) -> bool:
    """Return whether a node has the weights, is fetching them, or has just been asked to."""
    weights = world.node(node).model(path)
    requested = f"weights/{node}/{path}" in world.memory.in_flight
    return world.reached(node) and (present(weights, in_full) or requested or running(weights) is not None)


def being_fetched(world: World, workload: Workload) -> Placed:
    """List the matching nodes that lack the weights, and are about to have them."""
    lacking = world.once(_lacking, workload, key=requirements(workload))
    wanted = targets(world, workload.model) if lacking else {}
    return tuple(name for name in lacking if name in wanted)


def _lacking(world: World, workload: Workload) -> Placed:
    """List the matching nodes that lack some of the weights, and have not given up on them."""
    if workload.model.spec.source.huggingface is None:
        return ()
    in_full = not in_parts(workload.deployment)
    return tuple(
        name
        for name in candidates(world, workload.deployment.spec.placement).matching
        if not present(weights := world.node(name).model(workload.path), in_full)
        and given_up(weights) is None
    )


def targets(world: World, model: Model) -> Mapping[NodeName, bool]:
    """Return the nodes that are to have the weights, and whether in full.

    Each deployment gets as many nodes as it may use, first those that have the weights. Without the full weights a node
    gets outlines, and later the files that its rank turns out to need.
    """
    return world.once_as_decided(_targets, model.spec.source)


def _targets(world: World, source: ModelSource) -> dict[NodeName, bool]:
    found: dict[NodeName, bool] = {}
    for served_by, deployment in sorted(world.desired.deployments.items()):
        if any(model.spec.source == source for model in replicas.models(world, served_by)):
            for name in _of_deployment(world, source.folder, deployment):
                found[name] = found.get(name, False) or not in_parts(deployment)
    return found


Preference = tuple[bool, bool, int, NodeName]
"""The order of nodes: whether one lacks the weights, whether it has given up on them, its memory (negative), its name."""


def _of_deployment(world: World, path: str, deployment: ModelDeployment) -> list[NodeName]:
    """List the nodes for the weights of a deployment: of two that have as much of them, first one with its ranks."""
    key = placement_key(deployment.spec.placement), path, in_parts(deployment)
    preferences = world.once(_preferences, path, deployment, key=key)
    groups = world.memory.groups_of(DeploymentName(deployment.metadata.name))
    members = {name for group in groups for name in group.members}
    own = sorted(preferences[name] for name in members if name in preferences)
    others = (each for name, each in preferences.items() if name not in members)
    both = heapq.merge(own, others, key=lambda each: (*each[:2], each[-1] not in members, *each[2:]))
    spec = deployment.spec
    most = (spec.replicas + spec.strategy.extra(spec.replicas)) * spec.parallelism.nodes.max
    return [name for _, _, _, name in islice(both, most)]


def _preferences(world: World, path: str, deployment: ModelDeployment) -> dict[NodeName, Preference]:
    """Return the nodes that the deployment may use, the preferred ones first."""
    in_full = not in_parts(deployment)

    def preference(name: NodeName) -> Preference:
        node = world.node(name)
        weights = node.model(path)
        memory = node.report.memory_bytes if node.report else 0
        return not present(weights, in_full), given_up(weights) is not None, -memory, name

    usable = candidates(world, deployment.spec.placement).matching
    return {each[-1]: each for each in sorted(map(preference, usable))}


def on_node(world: World, model: Model, node: NodeName, only: tuple[str, ...] | None) -> Decision:
    """Decide what is done now for the weights of one Model on one node: ``only`` as in ``FetchWeights``."""
    name, hub, path = model.metadata.name, model.spec.source.huggingface, model.spec.source.folder
    weights = world.node(node).model(path)
    if hub is None or weights is None:
        return NOTHING
    key = ObjectKey("Model", name)
    if against := weights_access.obstacle(node, weights):
        return Decision(
            refused=(Refusal(key, against.reason, f"{name}: {against.text}", person=against.person),)
        )
    fetch = running(weights)
    if fetch is not None:
        fetching = wait(key, WaitingFor.WEIGHTS, f"{node} fetches {name}: {progress(fetch)}")
        return fetching + _refusals(key, node, weights)
    source = FetchSource(hub.repo, hub.revision, code=model.spec.trust_remote_code)
    request_id = f"{world.desired.generations.get(key, 1)}/{world.memory.token}"
    step = FetchWeights(name, node, path, source, hub.token_ref, request_id, only=only)
    if step.subject in world.memory.in_flight:
        return wait(key, WaitingFor.STEP, f"{name}: a fetch on {node} is being started")
    if not world.seen_since_last_write(node):
        return wait(key, WaitingFor.OBSERVATION, f"{name}: waiting for a newer report from {node}")
    ended = failed(weights)
    if ended is None or (ended.wish != request_id and not ended.wish.startswith(ON_DEMAND)):
        return Decision(steps=(step,))
    return _retry(world, step, ended, weights)


def _retry(world: World, step: FetchWeights, ended: FetchReport, weights: ModelReport) -> Decision:
    """Try again when it is time, and report a problem that nobody should wait out."""
    lasting = ended.progress.problem not in FetchProblem.PASSING and not _disk_freed(world, step, ended)
    seconds = LASTING_SECONDS if lasting else min(BACK_OFF_SECONDS_MAX, 2.0 ** min(ended.attempts, 10))
    refusals = _refusals(step.object, step.node, weights)
    if ended.ended_seconds >= seconds:
        return Decision(steps=(step,)) + refusals
    until = world.now + seconds - ended.ended_seconds
    text = f"{_problem(step.object, step.node, ended.progress)}; tried again in {seconds - ended.ended_seconds:.0f} s"
    return wait(step.object, WaitingFor.BACK_OFF, text, until) + refusals


def _refusals(model: ObjectKey, node: NodeName, weights: ModelReport) -> Decision:
    """Report the problems that nobody should wait out, even while another attempt runs."""
    ended = given_up(weights)
    if ended is None:
        return NOTHING
    person = weights_access.CONSENT.format(node=node) if ended.problem == FetchProblem.NOT_ALLOWED else ""
    refusal = Refusal(model, RefusedBecause(ended.problem), _problem(model, node, ended), person=person)
    return Decision(refused=(refusal,))


def _problem(model: ObjectKey, node: NodeName, ended: Progress) -> str:
    return f"{model.name} on {node}: {ended.text}"


def _disk_freed(world: World, step: FetchWeights, ended: FetchReport) -> bool:
    """Return whether a disk that was full now has room for what was still to come."""
    report, progress = world.node(step.node).report, ended.progress
    free = report.models_free_bytes if report else None
    if progress.problem != FetchProblem.DISK_FULL or not progress.total_bytes or free is None:
        return False
    return free > progress.total_bytes - progress.done_bytes + SPARE_BYTES
