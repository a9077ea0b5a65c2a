"""Lays the operations over the manifests of ``main``, which gives the desired state. Pure.

The rules of the planner read the same fields as without operations. Objects that no operation names stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.resources import STOPPED, Manifest, ModelDeployment, Node
from reconciler.resources.operation import Operation
from reconciler.resources.verbs import CLUSTER_KIND, REVISION_KIND, VERBS
from reconciler.state.identity import ObjectKey
from reconciler.state.operations import Effect, Standing, expired


@dataclass(frozen=True, slots=True)
class Overlaid:
    """The manifests with all operations that apply, and the standing of each operation."""

    manifests: tuple[Manifest, ...]
    effects: tuple[Effect, ...]


def overlay(manifests: Iterable[Manifest], operations: Iterable[Operation], now: float) -> Overlaid:
    """Return ``manifests`` with ``operations`` at ``now``, in seconds since the Unix epoch."""
    wishes = {ObjectKey.of(manifest): manifest for manifest in manifests}
    result, order = dict(wishes), list(VERBS)
    ordered = sorted(operations, key=lambda each: (order.index(each.spec.verb), each.metadata.name))
    effects = tuple(Effect(operation, _lay(operation, wishes, result, now)) for operation in ordered)
    return Overlaid(tuple(result.values()), effects)


def _lay(
    operation: Operation, wishes: Mapping[ObjectKey, Manifest], result: dict[ObjectKey, Manifest], now: float
) -> Standing:
    """Apply one operation to ``result``."""
    target = ObjectKey(operation.spec.target.kind, operation.spec.target.name)
    if expired(operation, now):
        return Standing.EXPIRED
    if target.kind == REVISION_KIND:
        return Standing.IN_FORCE
    if target.kind == CLUSTER_KIND:
        for key, manifest in result.items():
            if operation.spec.verb == "stop" and isinstance(manifest, Node):
                result[key] = _stopped(manifest)
        return Standing.IN_FORCE
    frozen = operation.frozen
    if frozen is not None:
        names = _names_of_others(target, wishes)
        if target not in wishes and target.name in names:
            return Standing.NO_TARGET  # main has removed it, and has given its name to another deployment
        result[target] = _without_names(frozen, names)
        return Standing.IN_FORCE
    if target not in result:
        return Standing.NO_TARGET
    if VERBS[operation.spec.verb].sets is None:
        return Standing.IN_FORCE
    result[target] = _changed(result[target], operation)
    wish = wishes.get(target)
    return Standing.AGREES if wish is not None and _changed(wish, operation) == wish else Standing.IN_FORCE


def _changed(manifest: Manifest, operation: Operation) -> Manifest:
    sets = VERBS[operation.spec.verb].sets
    assert sets is not None
    return _with_spec(manifest, **sets(manifest.spec, operation.spec))  # type: ignore[attr-defined]


def _with_spec(manifest: Any, **fields: Any) -> Manifest:
    """Return a manifest with other values of some fields of its spec."""
    changed: Manifest = manifest.model_copy(update={"spec": manifest.spec.model_copy(update=fields)})
    return changed


def _stopped(node: Node) -> Manifest:
    """Return a node as `reconciler stop` leaves it; a node that is drained anyway stays as it is."""
    if node.spec.drain:
        return node
    labels = {**node.metadata.labels, STOPPED: "in-use"}
    marked = node.model_copy(update={"metadata": node.metadata.model_copy(update={"labels": labels})})
    return _with_spec(marked, unschedulable=True, drain=True)


def _names_of_others(target: ObjectKey, wishes: Mapping[ObjectKey, Manifest]) -> set[str]:
    """Return the names by which clients ask for other deployments; empty if the object is no deployment."""
    if target.kind != "ModelDeployment":
        return set()
    others = [m for key, m in wishes.items() if isinstance(m, ModelDeployment) and key != target]
    return {name for other in others for name in (other.metadata.name, *other.spec.serving.aliases)}


def _without_names(frozen: Manifest, taken: set[str]) -> Manifest:
    """Return a suspended object without the aliases that ``main`` has given to another deployment meanwhile."""
    if not isinstance(frozen, ModelDeployment) or not taken & set(frozen.spec.serving.aliases):
        return frozen
    free = tuple(alias for alias in frozen.spec.serving.aliases if alias not in taken)
    return _with_spec(frozen, serving=frozen.spec.serving.model_copy(update={"aliases": free}))
