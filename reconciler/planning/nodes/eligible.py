"""Finds the nodes that a replica may be placed on, and the reasons against the others."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.errors import few_names
from reconciler.planning.context import reboot_requests, weights_access
from reconciler.planning.context.memory_ledger import Placed
from reconciler.planning.context.workload import Workload
from reconciler.planning.context.world import World
from reconciler.resources import STOPPED, ModelDeployment, Node
from reconciler.resources.scheduling import Placement
from reconciler.state import Contact, NodeName, Refusal, RefusedBecause, WorkloadId
from reconciler.state.machine.weights import present, unfetched

from . import quarantine, runtimes


@dataclass(frozen=True, slots=True)
class CandidateNodes:
    """The nodes with the labels that a workload asks for, sorted by what manifests and quarantine say about each."""

    tainted: list[NodeName]
    withheld: list[NodeName]
    kept_out: list[NodeName]
    matching: list[NodeName]
    """Those with nothing against them."""

    @classmethod
    def classify(cls, world: World, placement: Placement) -> CandidateNodes:
        """Sort the nodes, each list in the order of names."""
        found = cls([], [], [], [])
        for name, node in sorted(world.desired.nodes.items()):
            if not suits(node, placement):
                continue
            if tainted(node, placement):
                found.tainted.append(name)
            elif withheld(node):
                found.withheld.append(name)
            elif quarantine.quarantine_of(world, name) is not None:
                found.kept_out.append(name)
            else:
                found.matching.append(name)
        return found

    def without(self, names: Placed) -> CandidateNodes:
        """Return the same without some nodes."""
        if not names:
            return self
        lists = (self.tainted, self.withheld, self.kept_out, self.matching)
        return CandidateNodes(*([name for name in each if name not in names] for each in lists))

    def left_out_by_choice(self, world: World) -> tuple[RefusedBecause, str] | None:
        """Explain a lack of nodes that people have caused; None if it has another cause."""
        nodes = world.desired.nodes
        if any(STOPPED in nodes[name].metadata.labels for name in self.withheld):
            return RefusedBecause.STOPPED, "everything is stopped by request; to go on: reconciler start"
        away: list[str] = [name for name in self.withheld if reboot_requests.begun(world, name)]
        if away:
            text = f"it is formed again when {few_names(away)}, which is being restarted, is back"
            return RefusedBecause.RESTARTING, text
        return None

    def states(self, world: World, placement: Placement) -> str:
        """Say what keeps nodes out, for people; empty if nothing does."""
        nodes, text = world.desired.nodes, ""
        if self.kept_out:
            states = few_names(
                [f"{name} is quarantined: {quarantine.reason(world, name)}" for name in self.kept_out]
            )
            text += f" ({states})"
        if self.withheld:
            states = few_names([f"{name} is {withheld(nodes[name])}" for name in self.withheld])
            text += f" ({states}; undo with: reconciler uncordon {self.withheld[0]})"
        if self.tainted:
            states = few_names([f"{name} has {tainted(nodes[name], placement)}" for name in self.tainted])
            text += f" ({states}; allow it in placement.tolerations)"
        return text


def requirements(workload: Workload) -> Hashable:
    """Return the key of the requirements of a workload on nodes, which is equal for all that get the same answers."""
    deployment, model = workload.deployment, workload.model.spec
    fetched = model.source.huggingface is not None
    return (
        placement_key(deployment.spec.placement),
        workload.path,
        fetched,
        in_parts(deployment),
        model.trust_remote_code,
    )


def candidates(world: World, placement: Placement) -> CandidateNodes:
    """Sort the nodes for a workload, once for all that select the same."""
    return world.once(CandidateNodes.classify, placement, key=placement_key(placement))


def placement_key(placement: Placement) -> str:
    """Return a text that is equal for workloads that may use the same nodes."""
    return placement.model_dump_json()


def late(world: World, workload: Workload) -> Placed:
    """List the matching nodes that are about to report what they can do."""
    return tuple(name for name in _matching(world, workload) if about_to_report(world, name, workload.path))


def occupied(world: World, workload: Workload) -> Placed:
    """List the matching nodes with living ranks."""
    living = {rank.node for rank in world.observed.ranks() if rank.alive}
    return tuple(name for name in _matching(world, workload) if name in living)


def building(world: World, workload: Workload) -> Placed:
    """List the matching nodes whose runtime is being built."""
    return tuple(name for name in _matching(world, workload) if runtimes.about_to_arrive(world, name))


def fit(world: World, workload: Workload) -> Placed:
    """List the matching nodes that can run a rank."""
    matching = _matching(world, workload)
    return tuple(name for name in matching if unfit(world, name, workload) is None)


def unusable(world: World, workload: Workload) -> Placed:
    """List the matching nodes that cannot."""
    matching = _matching(world, workload)
    return tuple(name for name in matching if unfit(world, name, workload) is not None)


def _matching(world: World, workload: Workload) -> list[NodeName]:
    return candidates(world, workload.deployment.spec.placement).matching


def suits(node: Node, placement: Placement) -> bool:
    """Return whether a node has the labels that a workload asks for."""
    return placement.node_selector.items() <= node.metadata.labels.items()


def tainted(node: Node, placement: Placement) -> str:
    """Name the taint of a node that a workload does not tolerate; empty if there is none."""
    taint = placement.untolerated(node.spec.taints)
    return f"the taint {taint}" if taint else ""


def in_parts(deployment: ModelDeployment) -> bool:
    """Return whether no rank needs all of the weights, so that a node gets only the files that its rank reads."""
    parallelism = deployment.spec.parallelism
    return parallelism.strategy == "pipeline" and parallelism.nodes.min > 1


def withheld(node: Node) -> str:
    """Say in a word why the manifests keep new ranks off a node; empty if they do not."""
    return "drained" if node.spec.drain else "cordoned" if node.spec.unschedulable else ""


def open_to(node: Node, placement: Placement) -> bool:
    """Return whether the manifests let a workload use a node."""
    return suits(node, placement) and not tainted(node, placement) and not withheld(node)


def too_few(
    nodes: Mapping[NodeName, Node],
    placement: Placement,
    wanted: int,
    usable: int,
    field: str = "spec.parallelism.nodes",
) -> str:
    """Say by the manifests why there are fewer nodes than a workload needs; ``field``: that of the number. If the manifests have enough nodes,
    the machines are the reason: then no change of a manifest is advised."""
    need = f"needs {wanted} node{'s' if wanted > 1 else ''}"
    selector = ",".join(f"{key}={value}" for key, value in placement.node_selector.items())
    if not nodes:
        return f"{need}, and there are none; add a Node"
    if not any(suits(node, placement) for node in nodes.values()):
        return f"{need}, and none has the labels {selector}; label a Node or correct placement.nodeSelector"
    few = f"{need}{f' with the labels {selector}' if selector else ''}, {usable} can be used"
    if sum(open_to(node, placement) for node in nodes.values()) >= wanted:
        return few
    lower = f" or lower {field}{f' to {usable}' if usable else ''}" if wanted > 1 else ""
    return f"{few}; add Nodes{lower}"


def ranks_by_state(states: Sequence[tuple[int, str]]) -> str:
    """Write ranks together that are in the same state: ``ranks 0, 1 are starting, rank 2 is warming up``."""
    ranks: dict[str, list[str]] = {}
    for rank, state in states:
        ranks.setdefault(state, []).append(str(rank))
    return ", ".join(
        f"ranks {', '.join(alike)} are {state}" if len(alike) > 1 else f"rank {alike[0]} is {state}"
        for state, alike in ranks.items()
    )


def about_to_report(world: World, name: NodeName, path: str) -> bool:
    """Return whether a node is about to report what it can do. A node whose agent does not start is not about to."""
    node = world.node(name)
    if node.contact is Contact.AGENT_DOWN:
        return not world.memory.unstarted(name)
    weights = node.model(path)
    return not answers(world, name) or weights is None or weights.examining


def answers(world: World, name: NodeName) -> bool:
    """Return whether a node's agent answers, and its probes and its Python were asked since it booted."""
    node = world.node(name)
    return world.reached(name) and node.probed and node.report is not None and node.report.runtime is not None


def returning(world: World, name: NodeName, workload: WorkloadId) -> Iterator[str]:
    """Yield ranks of other workloads whose group was formed elsewhere while this node was away: the node is not used
    before they are gone."""
    for rank in world.observed.ranks_on(name):
        record = world.memory.groups.get(rank.workload)
        if rank.alive and rank.workload != workload and record is not None and name not in record.members:
            yield f"{rank.title}, on {name}"


def unfit(world: World, name: NodeName, workload: Workload) -> Refusal | None:
    """Say why a node cannot run a rank; None if it can."""
    node, title = world.node(name), workload.model.metadata.name
    weights = node.model(workload.path)
    if not world.reached(name) or node.report is None or weights is None:
        return workload.refuse(
            RefusedBecause.NO_NODES, f"the agent of {name} cannot be started: {node.problem}"
        )
    if failed := runtimes.problem(world, name):
        return workload.refuse(RefusedBecause.RUNTIME_UNAVAILABLE, failed)
    lacking = workload.engine.lacking(node.report.runtime)
    if lacking:
        todo = f"there: {node.report.python} -m pip install {' '.join(workload.engine.pins)}"
        text = f"{name} has no {lacking[0]} in its Python {node.report.python}; install it {todo}"
        return workload.refuse(RefusedBecause.NO_RUNTIME, text)
    if against := weights_access.obstacle(name, weights):
        return workload.refuse(against.reason, f"model {title}: {against.text}", against.person)
    fetched = workload.model.spec.source.huggingface is not None
    if fetched and not present(weights, in_full=not in_parts(workload.deployment)):
        return workload.refuse(RefusedBecause.WEIGHTS_MISSING, unfetched(title, name, weights))
    if weights.problem:
        person = f"correct {weights.directory}, or spec.source.path"
        if fetched:  # verified files should not be edited
            person = f"reconciler model update {title} --revision COMMIT"
        text = f"model {title} on {name}: {weights.problem}"
        return workload.refuse(RefusedBecause.WEIGHTS_UNUSABLE, text, person)
    if not weights.present:
        text = (
            f"model {title}: no weights at {weights.directory} on {name};"
            " put them there or correct spec.source.path"
        )
        return workload.refuse(RefusedBecause.WEIGHTS_MISSING, text)
    if weights.code and not workload.model.spec.trust_remote_code:
        text = f"model {title}: {weights.code}; if you trust it, set spec.trustRemoteCode: true in its Model"
        return workload.refuse(RefusedBecause.CODE_UNTRUSTED, text)
    return None
