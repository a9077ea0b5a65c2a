"""Finds compatible nodes: those that agree in everything that the ranks of a group must agree on.

Checked only for groups that are about to be formed. Running groups continue.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from reconciler.errors import few_names
from reconciler.planning.context.memory_ledger import Placed
from reconciler.planning.context.world import World
from reconciler.state import NodeName
from reconciler.state.machine.compatibility import (
    BUILD,
    ENGINE,
    KERNEL,
    PACKAGES,
    SYSTEM,
    WEIGHTS,
    Traits,
    agree,
    differences,
)
from reconciler.state.machine.compatibility import together as joined
from reconciler.state.machine.compatibility import traits as of
from reconciler.wire.engines import MLX

KINDS_SHOWN = 3
"""Kinds of machines that are named in one sentence."""
SETS_MAX = 32
"""Most sets of compatible nodes that are tried. In a cluster with more kinds of machines, the largest sets are."""
_REMEDIES = {
    SYSTEM: "choose nodes of one kind with placement.nodeSelector",
    KERNEL: "bring all to one version of the system",
    BUILD: "bring all to one version of macOS",
    **{name: f"install the same {name} on all" for name in PACKAGES},
    ENGINE: f"install the same packages on all: {few_names(MLX.packages)}",
    WEIGHTS: "put the same files on all",
}


def traits(world: World, name: NodeName, path: str) -> Traits | None:
    """Return the traits in which a node must agree with others; None if nothing is known about it."""
    node = world.node(name)
    return of(node.report, node.model(path)) if node.report is not None else None


def compatible_sets(world: World, names: Placed, path: str, before: Collection[NodeName]) -> list[Placed]:
    """Sort the nodes into sets that agree, none of them part of another: first those with most of ``before``, then
    the larger ones. A node about which little is known may be in several."""
    kinds = world.once(_kinds, names, path)
    if len(kinds) < 2:
        return [names]

    def preference(kind: Traits) -> tuple[int, int, NodeName]:
        members = kinds[kind]
        return -sum(name in before for name in members), -len(members), members[0]

    ordered = sorted(kinds, key=preference)
    found: dict[frozenset[NodeName], None] = {}
    for kind in ordered[:SETS_MAX]:
        known, members = kind, list(kinds[kind])
        for other in ordered:
            if other is not kind and agree(known, other):
                known = joined(known, other)
                members += kinds[other]
        found[frozenset(members)] = None
    sets = [tuple(name for name in names if name in each) for each in found]
    return sorted(sets, key=lambda each: (-sum(name in before for name in each), -len(each), each))


def _kinds(world: World, names: Sequence[NodeName], path: str) -> dict[Traits, list[NodeName]]:
    kinds: dict[Traits, list[NodeName]] = {}
    for name in names:
        known = world.once(traits, name, path)
        if known is not None:
            kinds.setdefault(known, []).append(name)
    return kinds


def describe_differences(
    world: World, path: str, chosen: Sequence[NodeName], others: Sequence[NodeName]
) -> str:
    """Say how ``others`` differ from the chosen nodes, and what to do about it, for people."""
    texts: list[str] = []
    remedies: dict[str, None] = {}
    for kind, members in _kinds(world, others, path).items():
        for like in _kinds(world, chosen, path):
            different = list(differences(kind, like))
            if different:
                words = ", ".join(f"{what} {mine} instead of {theirs}" for what, mine, theirs in different)
                texts.append(f"{few_names(members)} {'have' if len(members) > 1 else 'has'} {words}")
                remedies |= dict.fromkeys(_REMEDIES[what] for what, _, _ in different)
                break
    more = f" and {len(texts) - KINDS_SHOWN} more kinds" if len(texts) > KINDS_SHOWN else ""
    return (
        f"{'; '.join(texts[:KINDS_SHOWN])}{more} as on {few_names(chosen)}: {', '.join(remedies)}"
        if texts
        else ""
    )


def divergence(world: World, path: str, group: Sequence[NodeName]) -> str:
    """Say how the nodes of a formed group have come to differ, for people; empty if they agree. ``path`` leads to
    the weights."""
    members = tuple(dict.fromkeys(group))
    first, *others = compatible_sets(world, members, path, ())
    return (
        describe_differences(world, path, first, [name for name in members if name not in first])
        if others
        else ""
    )
