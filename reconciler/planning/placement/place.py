"""Places a group: chooses its nodes, their number, the split and the transport.

Deterministic and stable: it keeps the same nodes unless something is against them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from reconciler.errors import few_names
from reconciler.planning.context.memory_ledger import Ledger, Placed
from reconciler.planning.context.memory_needs import Needs
from reconciler.planning.context.sharding import Split, Unsplit, alternatives, splits
from reconciler.planning.context.workload import Workload
from reconciler.planning.context.world import World
from reconciler.planning.nodes import eligible
from reconciler.planning.nodes.eligible import returning, too_few, unfit
from reconciler.planning.transport.fallback import Transport
from reconciler.planning.weights.distribute import being_fetched
from reconciler.resources.deployment import RANKS_MAX
from reconciler.state import NodeName, NodeObservation, Refusal, RefusedBecause, Waiting, WaitingFor
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import FailedExamination

from . import compatibility, suggestions
from .contexts import Charges, too_long, unscalable
from .joining import Joining
from .search import FreeMemory


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes in the order of ranks, the memory that each rank is charged, and how the model is split."""

    members: Placed
    needs: Needs
    split: Split
    context: int
    """Most tokens of one request."""
    guessed: bool
    """True if ``needs`` is a guess."""


FOR_WANT_OF_NODES = (RefusedBecause.NO_NODES, RefusedBecause.NO_MEMORY)
"""Reasons that more nodes would remove."""
Joined = tuple[Placement, Transport]


def choose(
    world: World, ledger: Ledger, workload: Workload, without: Placed = ()
) -> Joined | Waiting | Refusal:
    """Choose machines and transport for a replica's group, but none of ``without``; else say what it waits for, or why it
    cannot be placed. Charges nothing."""
    placed = _place(world, ledger, workload, without)
    if isinstance(placed, Refusal):
        nodes = eligible.candidates(world, workload.deployment.spec.placement).without(without)
        by_choice = nodes.left_out_by_choice(world) if placed.reason in FOR_WANT_OF_NODES else None
        if by_choice is not None:
            return workload.refuse(*by_choice)
        return replace(placed, text=placed.text + nodes.states(world, workload.deployment.spec.placement))
    return placed


def _place(world: World, ledger: Ledger, workload: Workload, without: Placed) -> Joined | Waiting | Refusal:
    key = eligible.requirements(workload)

    def others(list_nodes: Callable[[World, Workload], Placed]) -> Placed:
        return _but(without, world.once(list_nodes, workload, key=key))

    late = others(eligible.late)
    if late:
        # Not only when there are too few: how large a group becomes must not depend on who answers first.
        return _awaited(world, workload, late)
    occupied = others(eligible.occupied)
    ending = [text for name in occupied for text in returning(world, name, workload.replica)]
    if ending:
        return workload.wait(WaitingFor.STOPPING, f"waiting for the end of {few_names(ending)}")
    building = others(eligible.building)
    if building:
        return workload.wait(WaitingFor.RUNTIME, f"the runtime of {few_names(building)} is being built")
    fetching = _but(without, being_fetched(world, workload))
    if fetching:
        text = f"the weights of {workload.model.metadata.name} are not on {few_names(fetching)} yet"
        return workload.wait(WaitingFor.WEIGHTS, text)
    usable = others(eligible.fit)
    wanted = workload.deployment.spec.parallelism.nodes.min
    if len(usable) < wanted:
        unusable = others(eligible.unusable)
        problem = unfit(world, unusable[0], workload) if unusable else None
        text = too_few(world.desired.nodes, workload.deployment.spec.placement, wanted, len(usable))
        return problem or workload.refuse(RefusedBecause.NO_NODES, text)
    return _among_compatible(world, ledger, workload, usable)


def _but(without: Placed, names: Placed) -> Placed:
    return tuple(name for name in names if name not in without) if without else names


def _awaited(world: World, workload: Workload, late: Placed) -> Waiting:
    """Say which nodes are about to report. Those that examine weights do answer."""
    silent = [name for name in late if not eligible.answers(world, name)]
    text = f"no answer yet from {', '.join(silent)}"
    if not silent:
        text = f"the weights of {workload.model.metadata.name} are still being examined on {few_names(late)}"
    reason = WaitingFor.AGENT if silent else WaitingFor.EXAMINED
    return workload.wait(reason, text)


def _among_compatible(
    world: World, ledger: Ledger, workload: Workload, usable: Placed
) -> Joined | Waiting | Refusal:
    """Find the largest group of nodes that agree in everything that its ranks must agree on. One rank agrees with itself."""
    bounds = workload.deployment.spec.parallelism.nodes
    if bounds.max == 1:
        return _Search.start(world, ledger, workload, usable).largest()
    record = world.memory.groups.get(workload.replica)
    sets = compatibility.compatible_sets(world, usable, workload.path, record.members if record else ())
    best: Joined | None = None
    problem: Waiting | Refusal | None = None
    first = frozenset(sets[0])
    for names in sets:
        if len(names) < max(bounds.min, len(best[0].members) + 1 if best else 1):
            continue
        found = _Search.start(world, ledger, workload, names).largest()
        if isinstance(found, Refusal | Waiting):
            problem = problem or found
        elif best is None or len(found[0].members) > len(best[0].members):
            best = found
    if best is not None:
        return best
    others = compatibility.describe_differences(
        world, workload.path, sets[0], [name for name in usable if name not in first]
    )
    if problem is not None:
        return replace(problem, text=f"{problem.text}; not used: {others}") if others else problem
    text = f"needs {bounds.min} compatible nodes, {len(sets[0])} are: {others}"
    return workload.refuse(RefusedBecause.NODES_DIFFER, text)


@dataclass(frozen=True, slots=True)
class _Search:
    """The nodes that could be used, and the group to place on them."""

    world: World
    workload: Workload
    joining: Joining
    weights: ModelReport
    failed: Mapping[NodeName, FailedExamination]
    """The examinations of these weights that failed, by node."""
    context_before: int
    """The context of the replica's group, if it was formed for the same spec; else 0."""

    @classmethod
    def start(cls, world: World, ledger: Ledger, workload: Workload, usable: Placed) -> _Search:
        replica = workload.replica
        record = world.memory.groups.get(replica)
        joining = Joining.of(world, ledger, replica, workload.deployment.spec.transport, usable)
        weights = world.once(_weights, usable, workload.path)
        same = record is not None and record.fingerprint == workload.spec_hash
        context = record.context if record is not None and same else 0
        failed = world.once(_failed, usable, workload.path)
        return cls(world, workload, joining, weights, failed, context)

    @property
    def rooms(self) -> FreeMemory:
        return self.joining.rooms

    def largest(self) -> Joined | Waiting | Refusal:
        """Take as many nodes as there are within the bounds, and fewer if the model, the memory or the transport
        requires it."""
        refused = unscalable(self.workload, self.weights) or too_long(self.workload, self.weights)
        if refused is not None:
            return refused
        bounds = self.workload.deployment.spec.parallelism.nodes
        # Only one refusal is written, at the end: writing it costs more than finding a place.
        unsplit: list[tuple[int, Unsplit]] = []
        short: tuple[int, Split] | None = None
        unjoined: Refusal | None = None
        for size in range(min(bounds.max, len(self.rooms.nodes)), bounds.min - 1, -1):
            possible = splits(self.workload.deployment.spec.parallelism.strategy, self.weights, size)
            if isinstance(possible, Unsplit):
                unsplit.append((size, possible))
                continue
            answer = self._place_size(size, possible)
            if isinstance(answer, tuple):
                return answer
            if unjoined is None and short is None:
                unjoined, short = answer, None if answer else (size, possible[0])
        if unjoined is not None:
            return unjoined
        # If fewer nodes would do but have no room, the lack of room is the reason, not the split.
        if short:
            return suggestions.no_room(self.workload, self.rooms, self.weights, *short, self.failed)
        size, why = unsplit[0]
        return self._unsplit(why, size)

    def _place_size(self, size: int, possible: tuple[Split, ...]) -> Joined | Refusal | None:
        """Place a group of ``size`` nodes; a refusal if no nodes can be joined, None if none have room."""
        unjoined: Refusal | None = None
        for split in possible:
            found = self._place_split(size, split)
            if isinstance(found, tuple):
                return found
            unjoined = unjoined or found
        return unjoined

    def _place_split(self, size: int, split: Split) -> Joined | Refusal | None:
        """Place a group of ``size`` nodes that is split this way. Nodes that allow half of the longest context are as
        good as those that allow all of it. Then the context is as long as the chosen ones allow."""
        deployment, weights = self.workload.deployment, self.weights
        charges = Charges.of(deployment, weights, split.strategy, size, self.context_before)
        contexts = charges.contexts
        roomiest = self.rooms.roomiest(size) if contexts.most > contexts.least else self.rooms
        longest = contexts.largest(
            lambda context: charges.allows(context) and roomiest.fit(charges.room_for(context))
        )
        unjoined: Refusal | None = None
        for enough in charges.enough(longest):
            found = self.joining.best(charges.room_for(enough))
            if isinstance(found, tuple):
                return self._placed(found, split, charges)
            if found is not None:
                unjoined = unjoined or self.workload.refuse(RefusedBecause.NO_TRANSPORT, str(found))
        return unjoined

    def _placed(self, found: tuple[Placed, Transport], split: Split, charges: Charges) -> Joined:
        members, transport = found
        longest = charges.contexts.largest(
            lambda context: charges.allows(context) and self.rooms.fits(members, charges.room_for(context))
        )
        return Placement(members, charges.at(longest), split, longest, charges.guessed), transport

    def _unsplit(self, why: Unsplit, size: int) -> Refusal:
        parallelism, name = self.workload.deployment.spec.parallelism, self.workload.deployment.spec.model
        other = alternatives(
            parallelism.strategy, self.weights, range(1, min(RANKS_MAX, len(self.rooms.nodes)) + 1)
        )
        how = {"tensor": "by tensor", "pipeline": "as a pipeline"}.get(parallelism.strategy, "at all")
        because = RefusedBecause.NOT_SUPPORTED if why.lasting else RefusedBecause.NOT_DIVISIBLE
        text = f"model {name} cannot be split {how} over {size} nodes: {why.text}"
        return self.workload.refuse(because, f"{text}; works: {other}" if other else text)


def _weights(world: World, usable: Placed, path: str) -> ModelReport:
    """Return the report on the weights that says most: one with shares, if any node has it. If none of these nodes has one,
    another node with the same weights and runtime may."""
    reports = [(world.node(name), world.node(name).model(path)) for name in usable]
    known = [(node, report) for node, report in reports if report is not None]
    node, first = known[0]
    told = next((report for _, report in known if report.shares), None)
    return told or _of_others(world, node, first) or first


def _of_others(world: World, node: NodeObservation, like: ModelReport) -> ModelReport | None:
    """Return a report with shares on the same weights by a runtime with the same versions, of any node that has reported."""
    runtime = node.report.runtime if node.report else None
    for _, other in sorted(world.observed.nodes.items()):
        report = other.model(like.path)
        same = report is not None and (report.weights_bytes, report.config) == (
            like.weights_bytes,
            like.config,
        )
        if report is not None and same and report.shares and other.report and other.report.runtime == runtime:
            return replace(like, shares=report.shares, ranks_tried=report.ranks_tried)
    return None


def _failed(world: World, usable: Placed, path: str) -> dict[NodeName, FailedExamination]:
    """Return the examinations of weights that failed on these nodes."""
    reports = ((name, world.node(name).model(path)) for name in usable)
    return {name: report.examination for name, report in reports if report and report.examination}
