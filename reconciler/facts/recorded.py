"""The recorded facts of a running cluster, and the plan that follows from them for other manifests."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reconciler.admission import jobs
from reconciler.admission.judge import Incoming, InForce, Live, Verdict, judge
from reconciler.admission.overlay import overlay
from reconciler.admission.removals import serving
from reconciler.errors import Invalid
from reconciler.planning import plan
from reconciler.planning.context.world import World
from reconciler.planning.placement.capacity import beyond_all_nodes
from reconciler.planning.rollout.costs import Cost, foresee
from reconciler.resources import LOCAL, Manifest
from reconciler.resources.operation import Operation
from reconciler.state import Desired, GatewayObservation, Memory, NodeName, NodeObservation, Observed, Plan
from reconciler.state.identity import ObjectKey
from reconciler.state.operations import Operations
from reconciler.wire import answers

from . import declared
from .form import Malformed, outline, read
from .privacy import Disguise

KIND = "RecordedFacts"
VERSION = 1
AGAIN = "record them again with: reconciler facts export -o FILE"


@dataclass(frozen=True)
class Facts:
    """A cluster at one moment, as far as plans depend on it.

    Left out are the access to machines, which is in git; objects that are leaving; and everything about clients: their
    keys, requests and usage.
    """

    at: float
    """Time in seconds of the controller's clock."""
    revision: str
    """The revision of the manifests that was in force."""
    in_force: tuple[ObjectKey, ...]
    """The objects in force: a revision that removes many of them is held."""
    agents: tuple[NodeName, ...] = ()
    """The nodes whose agent was started. The manifests have the access to them."""
    nodes: Mapping[NodeName, NodeObservation] = field(default_factory=dict)
    gateway_problem: str = ""
    """Why the gateway does not listen; empty if it does, or if there is none."""
    memory: Memory = field(default_factory=lambda: Memory(token=0))
    served: tuple[Manifest, ...] = ()
    """The Models and ModelDeployments in force, with operations."""
    operations: tuple[Operation, ...] = ()
    """The operations in force, without their authors and reasons."""
    runnable: tuple[str, ...] = ()
    """Marks of the jobs that the revision in force could run (``admission.jobs``)."""

    def judge(self, wished: Incoming, now: float) -> Verdict:
        """Return the verdict on other manifests, with the operations that were in force.

        Sync windows are open or closed at ``now``, in seconds since the Unix epoch. Only windows that were in force
        count, as the other manifests have them.
        """
        laid = overlay(wished.manifests.values(), self.operations, self.at).manifests
        incoming = Desired.of(wished.revision, laid).objects()
        served = {ObjectKey(each.kind, each.metadata.name): each for each in self.served}
        # The earlier state of an object that is not recorded is unknown: it counts as unchanged.
        was = {key: served.get(key, incoming.get(key)) for key in self.in_force}
        in_force = {key: manifest for key, manifest in was.items() if manifest is not None}
        serves = serving(self.in_force, self.memory.groups.keys(), gateway=True)
        live = Live(self.revision, self.in_force, serves, self.runnable)
        operations = Operations("", self.operations)
        before = InForce(self.revision, in_force, in_force)
        return judge(before, replace(wished, manifests=incoming), operations, live, now)

    def desired(self, verdict: Verdict) -> Desired:
        """Return the desired state that follows from a verdict, without objects that are not recorded."""
        found = verdict.in_force or InForce(self.revision, {}, {})
        return replace(Desired.of(found.revision, found.manifests.values()), held_changes=verdict.held)

    def costs(self, desired: Desired, plan: Plan) -> tuple[Cost, ...]:
        """Return the costs of the changes of deployments; ``plan`` is the plan for them."""
        return tuple(foresee(Desired.of(self.revision, self.served), desired, self.memory.groups, plan))

    def too_large(self, desired: Desired) -> Iterator[str]:
        """Yield a sentence for each deployment that the change makes larger than any of the nodes could hold."""
        served = {ObjectKey(each.kind, each.metadata.name): each for each in self.served}
        objects = desired.objects().items()
        changed = frozenset(key for key, manifest in objects if manifest != served.get(key))
        return beyond_all_nodes(World(desired, Observed(self.nodes), self.memory, self.at, ""), changed)

    def plan(self, desired: Desired) -> Plan:
        """Return the plan that the controller would have made for these manifests at that moment."""
        accesses = {name: desired.accesses.get(name, LOCAL) for name in self.agents}
        observed = Observed(self.nodes, GatewayObservation(0, None, self.gateway_problem))
        memory = replace(self.memory, agents=accesses)
        # Random parts of a plan, such as a group's ports and secret, are not shown.
        return plan(desired, observed, memory, self.at, entropy="0" * 64)


def facts_of(
    desired: Desired,
    observed: Observed,
    memory: Memory,
    now: float,
    in_force: tuple[ObjectKey, ...],
    operations: tuple[Operation, ...] = (),
    runnable: Collection[str] = (),
) -> Facts:
    """Return the facts of these snapshots; their texts are not disguised yet.

    ``desired``: the manifests with the ``operations`` laid over them. ``runnable``: marks of the jobs that they could run
    without operations.
    """
    return Facts(
        now,
        desired.revision,
        in_force,
        tuple(sorted(memory.agents)),
        observed.nodes,
        observed.gateway.problem if observed.gateway else "",
        memory,
        (*desired.models.values(), *desired.deployments.values()),
        declared.anonymous(operations),
        tuple(sorted({*runnable, *jobs.runnable(desired.objects().values())})),
    )


def written(facts: Facts, desired: Desired, product: str) -> answers.FactsFile:
    """Return the content of a file, every text in the form that may leave the cluster.

    ``desired``: the manifests, whose texts need no disguise. ``product``: the version that records.
    """
    disguise = Disguise(frozenset(each.python for each in desired.accesses.values() if each.python))
    return {
        "kind": KIND,
        "version": VERSION,
        "product": product,
        "at": facts.at,
        "revision": facts.revision,
        "inForce": [f"{key.kind}/{key.name}" for key in facts.in_force],
        "agents": list(facts.agents),
        "nodes": {name: outline(node, disguise) for name, node in sorted(facts.nodes.items())},
        "gatewayProblem": disguise.written(facts.gateway_problem),
        "memory": outline(facts.memory, disguise),
        "served": declared.written(facts.served),
        "operations": declared.written(facts.operations),
        "runnable": list(facts.runnable),
    }


def of_file(content: Any, name: str) -> Facts:
    """Return the facts in a file's JSON. Raises ``Invalid`` with the place of the first mistake."""
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise Invalid(f"{name} has no recorded facts (kind: {KIND}); {AGAIN}")
    version, product = content.get("version"), content.get("product", "?")
    if version != VERSION:
        raise Invalid(f"{name} has facts of version {version}, and this reconciler reads {VERSION}; {AGAIN}")
    apart = ("kind", "version", "product", "served", "operations")
    body = {key: value for key, value in content.items() if key not in apart}
    try:
        facts: Facts = read(Facts, body, "facts")
        served = declared.served(content.get("served", []), "facts.served")
        operations = declared.operations(content.get("operations", []), "facts.operations")
    except Malformed as error:
        raise Invalid(f"{name}: {error} (recorded by reconciler {product}); {AGAIN}") from None
    return replace(facts, served=served, operations=operations)
