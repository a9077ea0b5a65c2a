"""Brings the weight files that the ranks of a pipeline need to the nodes of its next group, and no others.

By then every node has outlines of all files, from which its runtime tells which files each rank reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.planning.context.decision import NOTHING, Decision
from reconciler.planning.context.sharding import Split
from reconciler.planning.context.workload import Workload
from reconciler.planning.context.world import World
from reconciler.planning.placement.place import Placement
from reconciler.planning.weights.distribute import from_peer, on_node, place_of, targets
from reconciler.resources import Model
from reconciler.state import NodeName, WaitingFor
from reconciler.state.machine.weights import failed, present
from reconciler.wire.node import ModelReport

Files = frozenset[str]


def bring(world: World, workload: Workload, placed: Placement) -> Decision | None:
    """Bring the files that the nodes of a group lack before it may be formed; None if all are there."""
    model = workload.model
    if model.spec.source.huggingface is None:
        return None
    lacks = _by_folder(world, model, placed)
    if not lacks:
        return None
    decision = NOTHING
    for name, files in _shared_out(world, model, lacks).items():
        if not targets(world, model).get(name, False):  # else all files are being fetched anyway
            decision += _fetch_to(world, model, name, files)
    text = f"weights of {model.metadata.name} that its ranks read are not on {', '.join(lacks)} yet"
    return decision + Decision(waiting=(workload.wait(WaitingFor.WEIGHTS, text),))


def reads(weights: ModelReport, split: Split, ranks: int, rank: int) -> Files:
    """Return the files that a rank reads and its node lacks."""
    lacking = frozenset(weights.lacking)
    shares = weights.shares.get(f"{split.strategy}/{ranks}", ())
    if len(shares) not in (1, ranks):
        return lacking
    files = shares[rank if len(shares) == ranks else 0].files
    return lacking & frozenset(files) if files else lacking


def _by_folder(world: World, model: Model, placed: Placement) -> dict[NodeName, Files]:
    """Return the files that nodes lack; of nodes that share a folder, only the first."""
    first: dict[tuple[str, str], NodeName] = {}
    found: dict[NodeName, Files] = {}
    for rank, name in enumerate(placed.members):
        weights = world.node(name).model(model.spec.source.folder)
        place = place_of(world, name, model.spec.source.folder)
        if weights is None or place is None:
            continue
        needed = reads(weights, placed.split, len(placed.members), rank)
        if needed:
            name = first.setdefault(place, name)
            found[name] = found.get(name, frozenset()) | needed
    return found


def _shared_out(world: World, model: Model, lacks: Mapping[NodeName, Files]) -> dict[NodeName, Files]:
    """Share out which node gets which files now.

    Files that several nodes lack come from the hub once. Files that a node cannot get there go to one that can, and then
    the others copy them.
    """
    path = model.spec.source.folder
    able = [name for name in lacks if failed(world.node(name).model(path)) is None]
    found: dict[NodeName, Files] = {}
    coming: Files = frozenset()
    for name in (*able, *(each for each in lacks if each not in able)):
        held = frozenset(file for file in lacks[name] if _holders(world, path, file))
        lead = able[0] if able and name not in able else name
        fetched = lacks[name] - held - coming
        coming |= fetched
        found[name] = found.get(name, frozenset()) | held
        found[lead] = found.get(lead, frozenset()) | fetched
    return {name: files for name, files in found.items() if files}


def _fetch_to(world: World, model: Model, name: NodeName, files: Files) -> Decision:
    """Fetch files to one node: from the node that has most of them, else from the hub."""
    path = model.spec.source.folder
    by_node: dict[NodeName, Files] = {}
    for file in sorted(files):
        for holder in _holders(world, path, file):
            by_node[holder] = by_node.get(holder, frozenset()) | {file}
    if not by_node:
        return on_node(world, model, name, tuple(sorted(files)))
    origin = min(by_node, key=lambda each: (-len(by_node[each]), each))
    return from_peer(world, on_node(world, model, name, tuple(sorted(by_node[origin]))), origin)


def _holders(world: World, path: str, file: str) -> list[NodeName]:
    """List the nodes that have a file in full."""
    found = []
    for name in sorted(world.observed.nodes):
        weights = world.node(name).model(path)
        if (
            weights is not None
            and present(weights, in_full=False)
            and file not in weights.lacking
            and world.reached(name)
        ):
            found.append(name)
    return found
