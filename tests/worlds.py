"""Worlds for the pure rooms: manifests in short, and a cluster that does at once what a plan says.

``World`` holds what the store and the machines would; ``settle`` plans and carries out until there is
nothing left to do. It has no clock of its own: tests move ``now``.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from reconciler import status
from reconciler.planning import plan
from reconciler.planning.context.guessed_cache import guessed
from reconciler.planning.context.sharding import STRATEGIES
from reconciler.planning.context.world import World as PlanningWorld
from reconciler.resources import LOCAL, Fabric, Gateway, Job, Manifest, Model, ModelDeployment, Node, Notifier
from reconciler.resources.sync_window import SyncWindow
from reconciler.state import (
    AdoptGroup,
    AllocateEpoch,
    Attempt,
    BuildRuntime,
    ConfirmRepair,
    Contact,
    ContinueGateway,
    ContinueRank,
    DeploymentName,
    Desired,
    EmptyNode,
    Ends,
    ForgetAgent,
    ForgetRank,
    FreeTransport,
    GatewayObservation,
    GroupRecord,
    Leaving,
    MachineFacts,
    Memory,
    NodeGatewayObservation,
    NodeName,
    NodeObservation,
    ObjectKey,
    Observed,
    ObservedRank,
    Plan,
    ProveGroup,
    ProvenTransport,
    PruneRuntimes,
    Reboot,
    RebootNode,
    ReleaseReplica,
    RemoveObject,
    RepairNode,
    ReplaceGateway,
    ReplicaId,
    RequestedStop,
    RunId,
    SendRoutes,
    StartAgent,
    StartGateway,
    StartRank,
    Step,
    StepFailure,
    StopAgent,
    StopGateway,
    StopRank,
    TransportFailure,
    VerbsAttempts,
    WorkloadId,
    Write,
)
from reconciler.state.identity import workload_named
from reconciler.state.job_steps import (
    CreateRun,
    EndAttempt,
    EndRun,
    FetchArtifacts,
    RemoveRuns,
    RunStep,
    SuspendRun,
)
from reconciler.state.jobs import Artifacts, Fetched, Run
from reconciler.state.machine.gateways import GatewaysInForce
from reconciler.state.machine.runtimes import Runtimes, Tidied
from reconciler.state.machine.weights import FetchWeights, RemoveWeights, folder
from reconciler.state.plan import SetBack
from reconciler.state.reports.status import ObjectStatus
from reconciler.state.rollback import Rollback
from reconciler.status import Snapshots
from reconciler.wire.generation import Route
from reconciler.wire.launch import Exit, Phase, RankId, TransportProof
from reconciler.wire.node import Gone, ModelReport, NodeReport, RankReport
from reconciler.wire.prompts import QuarantinedPrompt
from reconciler.wire.repair import RepairReport, RepairState
from reconciler.wire.weights import FetchReport, KeptWeights, RankShare

from .settings import changed

TINY: dict[str, Any] = {
    "model_type": "qwen3",
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "hidden_size": 192,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "torch_dtype": "float32",
}

HOOK = "http://localhost/hook"
"""Where a notifier's messages go that nobody sends."""


S = TypeVar("S")


def manifest(kind: type[Any], name: str, labels: dict[str, str] | None = None, **spec: Any) -> Any:
    """A manifest of a kind, from its spec's YAML names."""
    metadata = {"name": name, "labels": labels or {}}
    body = {"apiVersion": "reconciler/v1alpha1", "kind": kind.__name__, "metadata": metadata, "spec": spec}
    return kind.model_validate(body, strict=False)


def node(name: str, **spec: Any) -> Node:
    labels = spec.pop("labels", None)
    return manifest(Node, name, labels, local={}, **spec)  # type: ignore[no-any-return]


def hub_model(name: str = "tiny", revision: str = "a" * 40, **more: Any) -> Model:
    hub = {"repo": "org/tiny", "revision": revision, **more}
    return manifest(Model, name, source={"huggingface": hub})  # type: ignore[no-any-return]


def worker(name: str, **spec: Any) -> Node:
    """A node that runs jobs."""
    return node(name, jobs={"allow": {"paths": ["jobs/*"]}}, **spec)


def model(name: str = "tiny", path: str = "tiny", trusted: bool = False) -> Model:
    return manifest(Model, name, source={"path": path}, trustRemoteCode=trusted)  # type: ignore[no-any-return]


def deployment(name: str = "tiny", nodes: Any = 2, **spec: Any) -> ModelDeployment:
    parallelism = {"strategy": spec.pop("strategy", "tensor"), "nodes": nodes}
    if rolling := spec.pop("rolling", None):
        spec["strategy"] = rolling
    spec = {"model": "tiny", "parallelism": parallelism, **spec}
    return manifest(ModelDeployment, name, **spec)  # type: ignore[no-any-return]


def fabric(
    name: str = "studios",
    *links: tuple[str, str],
    pool: str | None = None,
    untested: tuple[tuple[str, str], ...] = (),
) -> Fabric:
    """Cables, each by its two ends: `node/receptacle`; ``untested``: those that may carry RDMA untested."""
    spec: dict[str, Any] = {"links": links, "addressing": {"pool": pool}, "allowUntested": untested}
    return manifest(Fabric, name, **spec)  # type: ignore[no-any-return]


def gateway(**spec: Any) -> Gateway:
    spec = {"listen": "127.0.0.1:8400", "auth": {"mode": "none"}, **spec}
    return manifest(Gateway, "main", **spec)  # type: ignore[no-any-return]


def sync_window(name: str = "office-hours", **spec: Any) -> SyncWindow:
    spec = {"kind": "deny", "schedule": "0 8 * * 1-5", "duration": "10h", **spec}
    body = {"apiVersion": "reconciler/v1alpha1", "kind": "SyncWindow", "metadata": {"name": name}}
    return SyncWindow.model_validate({**body, "spec": spec}, strict=False)


def job(name: str = "train", **spec: Any) -> Job:
    """A Job as it is in a revision, at ``jobs/NAME.yaml``."""
    program = {"script": {"command": ["python", "train.py"]}}
    return manifest(Job, name, **{"program": program, "manifestPath": f"jobs/{name}.yaml", **spec})  # type: ignore[no-any-return]


def notifier(name: str = "on-call", **spec: Any) -> Notifier:
    spec = {"webhook": {"url": HOOK}, **spec}
    return manifest(Notifier, name, **spec)  # type: ignore[no-any-return]


def shares(size: int, config: dict[str, Any]) -> dict[str, tuple[RankShare, ...]]:
    """What a runtime says that each rank of a model holds whose layers are all alike."""
    return {
        f"{strategy}/{ranks}": (RankShare(size // ranks, guessed(config, strategy, ranks)),)
        for strategy in STRATEGIES
        for ranks in range(1, 9)
    }


@dataclass
class World:
    """A cluster of nodes that obey."""

    manifests: list[Manifest]
    now: float = 1000.0
    stopping: bool = False
    memory_bytes: int = 64 * 2**30
    weights: dict[str, tuple[int, dict[str, Any]]] = field(
        default_factory=lambda: {"tiny": (6_500_000, TINY)}
    )
    says: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Fields of the report on a model, by its path, beside what ranks hold by its shape, or in place of that."""
    runtime: dict[str, str] = field(
        default_factory=lambda: {"mlx": "0.32.4", "mlx-lm": "0.32.2", "llguidance": "1.9.1"}
    )
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What a node's report says otherwise than those of others, by its name."""
    hosts: dict[str, str] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    ranks: dict[RankId, tuple[NodeName, RankReport]] = field(default_factory=dict)
    groups: dict[WorkloadId, GroupRecord] = field(default_factory=dict)
    last_epochs: dict[WorkloadId, int] = field(default_factory=dict)
    attempts: dict[WorkloadId, tuple[Attempt, ...]] = field(default_factory=dict)
    transport_failures: dict[WorkloadId, tuple[TransportFailure, ...]] = field(default_factory=dict)
    proofs: dict[str, ProvenTransport] = field(default_factory=dict)
    routed: bool = True
    verbs: dict[NodeName, VerbsAttempts] = field(default_factory=dict)
    system: str = "Linux"
    """``uname -s`` of every node."""
    since: dict[str, float] = field(default_factory=dict)
    """Since when a node's contact is as it is."""
    skews: dict[str, float] = field(default_factory=dict)
    """Seconds by which the clock of a node is ahead."""
    sequence: int = 1
    link: int = 1
    token: int = 1
    """Of the controller."""
    asked_with: int | None = 1
    """The token of the last look at any node."""
    writes: dict[NodeName, Write] = field(default_factory=dict)
    stops: dict[RankId, RequestedStop] = field(default_factory=dict)
    continued: dict[RankId, tuple[float, ...]] = field(default_factory=dict)
    failures: dict[str, StepFailure] = field(default_factory=dict)
    quarantined: tuple[QuarantinedPrompt, ...] = ()
    """Prompts that the gateway refuses; without any, there is no gateway."""
    reboots: dict[NodeName, Reboot] = field(default_factory=dict)
    repairs: dict[NodeName, RepairReport] = field(default_factory=dict)
    repaired: dict[NodeName, float] = field(default_factory=dict)
    stubborn: set[str] = field(default_factory=set)
    """Machines whose settings stay as they are, whatever is done."""
    boots: dict[NodeName, str] = field(default_factory=dict)
    in_flight: set[str] = field(default_factory=set)
    published: frozenset[tuple[WorkloadId, int]] | None = None
    memory_of: dict[str, int] = field(default_factory=dict)
    history: list[Step] = field(default_factory=list)
    weight_files: tuple[str, ...] = ()
    """Of weights from hubs, where those may be there in part."""
    held: dict[str, dict[NodeName, set[str]]] = field(default_factory=dict)
    """By path and node: which of them are there in full."""
    fetched: dict[str, dict[NodeName, FetchReport | None]] = field(default_factory=dict)
    """Weights that come from a hub, by path and node: how their fetch stands, and None where they are verified."""
    rollbacks: dict[DeploymentName, Rollback] = field(default_factory=dict)
    runs: dict[RunId, Run] = field(default_factory=dict)
    created: dict[ObjectKey, float] = field(default_factory=dict)
    on_disk: tuple[KeptWeights, ...] = ()
    """Fetched weights, on every node."""
    folders: dict[str, str] = field(default_factory=dict)
    """Where a node keeps such weights, if not in the folder that all nodes have."""
    agents: set[NodeName] = field(default_factory=set)
    leaving: dict[ObjectKey, Leaving] = field(default_factory=dict)
    generations: dict[ObjectKey, int] = field(default_factory=dict)
    kept: World | None = None
    """As it was when its store was copied."""
    first_phase: str = Phase.READY
    """What a rank is doing right after its start."""
    lingers: bool = False
    """Whether a rank that is asked to end takes the whole of its grace for that."""
    unkillable: set[str] = field(default_factory=set)
    """Nodes on which nothing ends a rank but a restart."""
    broken: set[NodeName] = field(default_factory=set)
    """Nodes whose agent cannot be started."""
    mute: set[ReplicaId] = field(default_factory=set)
    """Replicas that give no completion."""
    stale: dict[NodeName, NodeObservation] = field(default_factory=dict)
    """Nodes of which there is no news, as they were last seen."""
    lost: dict[NodeName, NodeObservation] = field(default_factory=dict)
    """Nodes that give no answer, as they were last seen: what runs there goes on."""
    within_reach: frozenset[NodeName] = frozenset()
    """Nodes that could be asked for something when the last plan was made."""
    facts: dict[NodeName, MachineFacts] = field(default_factory=dict)
    ends: dict[NodeName, Ends] = field(default_factory=dict)
    """Of the controller's connections to other machines."""
    runtimes: Runtimes = field(default_factory=Runtimes)
    """What the controller knows of managed ones."""
    unbuildable: set[NodeName] = field(default_factory=set)
    """Nodes on which no runtime can be built."""
    agent_file: str = ""
    """What the controller starts on nodes."""
    agent_files: dict[NodeName, str] = field(default_factory=dict)
    """What runs there."""
    gateways_on_nodes: dict[NodeName, NodeGatewayObservation] = field(default_factory=dict)
    """The gateways of nodes, as they are seen. They obey nothing."""
    gateways: GatewaysInForce = field(default_factory=GatewaysInForce)

    def desired(self) -> Desired:
        desired = replace(
            Desired.of("r1", self.manifests), generations=dict(self.generations), created=dict(self.created)
        )
        return desired.stopped() if self.stopping else desired

    def observed(self) -> Observed:
        names = set(self.desired().nodes) | {place for place, _ in self.ranks.values()} | self.agents
        names |= {name for group in self.groups.values() for name in group.members}
        gateway = GatewayObservation(1, "http://x/v1", quarantined=self.quarantined)
        return Observed(
            {name: self._node(name) for name in sorted(names)},
            gateway if self.quarantined else None,
            self.gateways_on_nodes,
        )

    def _node(self, name: NodeName) -> NodeObservation:
        if name in self.lost:
            return self.lost[name]
        if name not in self.agents:
            return NodeObservation(name, Contact.AGENT_DOWN, 0.0, 0, None, "no agent")
        if name in self.stale:
            return self.stale[name]
        report = NodeReport(
            sequence=self.sequence,
            boot_id=self.boots.get(name, "boot"),
            agent_id="agent",
            system=self.system,
            release="6.1",
            machine="x86_64",
            hostname=name,
            memory_bytes=self.memory_of.get(name, self.memory_bytes),
            cpus=2,
            host_id=self.hosts.get(name, name),
            python="/usr/bin/python3",
            runtime=self.runtime,
            run_directory="/run/r",
            agent_file=self.agent_files.get(name, ""),
            token=self.asked_with or 1,
            asked_with=self.asked_with,
            repair=self.repairs.get(name),
            kept=self.on_disk,
            ranks=tuple(report for place, report in self.ranks.values() if place == name),
            models=tuple(
                ModelReport(
                    path,
                    f"/models/{path}",
                    True,
                    size,
                    config,
                    **{"shares": shares(size, config), **self.says.get(path, {})},
                )
                for path, (size, config) in self.weights.items()
            )
            + tuple(self._from_hub(name, path) for path in sorted(self._hub_paths())),
        )
        report = replace(report, **self.reports.get(name, {}))
        contact = Contact.AGENT_DOWN if name in self.down else Contact.REACHED
        facts = self.facts.get(name, MachineFacts())
        since, ends = self.since.get(name, 0.0), self.ends.get(name, Ends())
        return NodeObservation(
            name,
            contact,
            since,
            self.link,
            report,
            facts=facts,
            facts_link=self.link,
            ends=ends,
            skew_seconds=self.skews.get(name, 0.0),
        )

    def _hub_paths(self) -> set[str]:
        found = {
            each.spec.source.folder
            for each in self.manifests
            if isinstance(each, Model) and each.spec.source.huggingface is not None
        }
        served = {group.weights for group in self.groups.values()}
        served |= {rollback.served for rollback in self.rollbacks.values()}
        return found | {folder(weights) for weights in served if weights}

    def _from_hub(self, name: NodeName, path: str) -> ModelReport:
        directory = f"{self.folders.get(name, '/models')}/{path}"
        known = self.fetched.get(path, {})
        place = (self.hosts.get(name, name), self.folders.get(name))
        there = [other for other in known if (self.hosts.get(other, other), self.folders.get(other)) == place]
        in_part = bool(self.weight_files) and name in self.held.get(path, {})
        if not in_part and all(known[other] is not None for other in there):
            return ModelReport(path, directory, False, fetch=known.get(name))
        size, config = self.weights["tiny"]
        held = self.held.get(path, {}).get(name, set())
        lacking = tuple(file for file in self.weight_files if file not in held)
        return ModelReport(
            path,
            directory,
            True,
            size,
            config,
            verified=True,
            lacking=lacking,
            fetch=known.get(name),
            **{"shares": shares(size, config), **self.says.get(path, {})},
        )

    def memory(self) -> Memory:
        """As the store and the controller would have it: whatever the world has under the name of a field."""
        mine = {each.name for each in fields(Memory)} & vars(self).keys()
        found = {name: copy(getattr(self, name)) for name in mine}
        agents, in_flight = dict.fromkeys(sorted(self.agents), LOCAL), frozenset(self.in_flight)
        return Memory(**{**found, "agents": agents, "in_flight": in_flight})

    def lose(self, name: str) -> None:
        """A node gives no answer any more; nobody knows what becomes of its ranks."""
        seen = self._node(NodeName(name))
        self.lost[seen.name] = replace(
            seen, contact=Contact.UNREACHABLE, since=self.now, problem="timed out", silent=True
        )
        self.stale.pop(seen.name, None)

    def find(self, name: str) -> None:
        """A node answers again."""
        self.lost.pop(NodeName(name), None)

    def remove(self, gone: Manifest) -> None:
        """A revision without this manifest comes into force."""
        self.manifests.remove(gone)
        self.leaving[ObjectKey(gone.kind, gone.metadata.name)] = Leaving(gone, 1, self.now)

    def bring(self, new: Manifest) -> None:
        """A revision with one more manifest comes into force."""
        self.manifests.append(new)
        self.leaving.pop(ObjectKey(new.kind, new.metadata.name), None)

    def plan(self) -> Plan:
        given_up = {name for name in self.down if f"start-agent/{name}" in self.failures}
        self.within_reach = frozenset(self.agents - self.lost.keys() - given_up)
        return plan(self.desired(), self.observed(), self.memory(), self.now, "entropy")

    def seen(self) -> PlanningWorld:
        """What the rules of a pass ask."""
        return PlanningWorld(self.desired(), self.observed(), self.memory(), self.now, "entropy")

    def snapshots(self, decided: Plan | None = None) -> Snapshots:
        """What statuses are made from, with the next plan unless another is given."""
        decided = self.plan() if decided is None else decided
        return Snapshots(self.desired(), self.observed(), self.memory(), decided, self.now)

    def statuses(self, decided: Plan | None = None) -> dict[ObjectKey, ObjectStatus]:
        return status.statuses(self.snapshots(decided), {})

    def routes(self, decided: Plan | None = None) -> tuple[Route, ...]:
        decided = self.plan() if decided is None else decided
        return status.routes(self.desired(), self.observed(), self.memory(), decided)

    def done(self, kind: type[S]) -> list[S]:
        """The steps of a kind that were obeyed."""
        return [step for step in self.history if isinstance(step, kind)]

    def did(self) -> list[str]:
        """The names of the steps that were obeyed."""
        return [type(step).__name__ for step in self.history]

    def forming(self) -> AllocateEpoch:
        """The only step of the next plan, which forms a group."""
        (step,) = self.plan().steps
        assert isinstance(step, AllocateEpoch)
        return step

    def act(self, passes: int = 1) -> None:
        """Plan and obey, without an end in sight."""
        for _ in range(passes):
            for step in self.plan().steps:
                self.obey(step)

    def settle(self, passes: int = 30) -> Plan:
        """Plan and obey until nothing changes any more; the last plan."""
        for _ in range(passes):
            decided = self.plan()
            if not decided.steps:
                return decided
            for step in decided.steps:
                self.obey(step)
        raise AssertionError(f"still acting after {passes} passes: {[str(s) for s in decided.steps]}")

    def obey(self, step: Step) -> None:
        """Do a step at once and wholly; the observation that follows shows it."""
        self.history.append(step)
        self.sequence += 1
        place = getattr(step, "node", None)
        assert place not in self.lost or isinstance(step, ForgetAgent), f"{step}: nobody there would hear it"
        match step:
            case AllocateEpoch() | AdoptGroup():
                seen = [
                    rank.epoch
                    for rank, (place, _) in self.ranks.items()
                    if _replica(rank) == step.workload and place in self.agents and place not in self.lost
                ]
                known = max([self.last_epochs.get(step.workload, 0), *seen])
                assert step.group.epoch > known - isinstance(step, AdoptGroup)
                self.groups[step.workload] = step.group
                self.last_epochs[step.workload] = step.group.epoch
                if isinstance(step.workload, RunId) and self.runs[step.workload].started_at is None:
                    begun = replace(self.runs[step.workload], started_at=step.group.created_at)
                    self.runs[step.workload] = begun
                if isinstance(step, AllocateEpoch):
                    self._note_transport(step)
                    self.attempts[step.workload] = (*self.attempts.get(step.workload, ()), step.attempt)[-50:]
            case StartRank() | StopRank() | ContinueRank() | ForgetRank():
                self._obey_about_rank(step)
                self.writes[step.node] = Write(self.link, self.sequence)
            case CreateRun() | EndAttempt() | EndRun() | SuspendRun() | FetchArtifacts() | RemoveRuns():
                self._obey_about_run(step)
            case ProveGroup():
                self._prove(step)
            case FetchWeights() | RemoveWeights() | BuildRuntime() | PruneRuntimes():
                self._obey_about_files(step)
            case RemoveObject() | ReleaseReplica() | FreeTransport() | SetBack():
                self._obey_the_store(step)
            case StartAgent():
                self._start_agent(step)
            case EmptyNode() | RebootNode() | RepairNode() | ConfirmRepair():
                self._change_machine(step)
            case StopAgent() | ForgetAgent():
                self.agents.discard(step.node)
                self.lost.pop(step.node, None)
                self.down.discard(step.node)
                self.stale.pop(step.node, None)
            case SendRoutes() | StartGateway() | ContinueGateway() | ReplaceGateway() | StopGateway():
                pass  # gateways of nodes are as tests put them

    def _obey_about_run(self, step: RunStep) -> None:
        if isinstance(step, RemoveRuns):
            for id in step.runs:
                del self.runs[id]
            return
        run = step.run
        assert isinstance(step, CreateRun) == (run.id not in self.runs), step
        assert not isinstance(step, EndRun | EndAttempt) or self.runs[run.id].ended is None, "it has ended"
        if isinstance(step, FetchArtifacts):
            run = replace(run, artifacts=Artifacts(Fetched.DONE))
        if isinstance(step, EndAttempt):
            del self.groups[run.id]
        if isinstance(step, CreateRun) and step.group is not None:
            self.groups[run.id] = step.group
            self.last_epochs[run.id] = step.group.epoch
        self.runs[run.id] = run

    def _obey_about_files(self, step: FetchWeights | RemoveWeights | BuildRuntime | PruneRuntimes) -> None:
        if isinstance(step, FetchWeights):
            self.fetched.setdefault(step.path, {})[step.node] = None
            held = self.held.setdefault(step.path, {}).setdefault(step.node, set())
            held |= set(self.weight_files if step.only is None else step.only)
        elif isinstance(step, BuildRuntime | PruneRuntimes):
            self._obey_about_runtime(step)
        else:
            self.on_disk = tuple(each for each in self.on_disk if each.path != step.path)

    def _obey_about_runtime(self, step: BuildRuntime | PruneRuntimes) -> None:
        if isinstance(step, PruneRuntimes):
            self.runtimes = replace(
                self.runtimes, tidied={**self.runtimes.tidied, step.node: Tidied(step.runtime)}
            )
        elif step.node in self.unbuildable:
            self._fail(step)
        else:
            key = self.runtimes.wanted[f"{self.system}/x86_64"]
            self.runtimes = replace(self.runtimes, built={**self.runtimes.built, step.node: key})
            self.failures.pop(step.key, None)

    def _change_machine(self, step: EmptyNode | RebootNode | RepairNode | ConfirmRepair) -> None:
        if isinstance(step, RepairNode | ConfirmRepair):
            self._repair(step)
        else:
            self._restart(step)

    def _repair(self, step: RepairNode | ConfirmRepair) -> None:
        """The settings of the machine are as they were asked for, and seen over a new connection."""
        before = self.repairs.get(step.node)
        if isinstance(step, ConfirmRepair):
            assert before is not None
            self.repairs[step.node] = replace(before, state=RepairState.CONFIRMED)
            self.repaired[step.node] = self.now
            return
        tried = before.tried if before and before.boot_id == step.boot_id else ()
        self.repairs[step.node] = RepairReport(
            step.id, step.boot_id, RepairState.WAITING, step.changes, tried=(*tried, step.id)
        )
        for change in step.changes if step.node not in self.stubborn else ():
            self.facts[step.node] = changed(self.facts[step.node], change.argv)

    def _restart(self, step: EmptyNode | RebootNode) -> None:
        """The machine goes down with all that ran on it; it is back when its agent is started again."""
        self.reboots[step.node] = step.reboot
        if isinstance(step, EmptyNode):
            return
        self.boots[step.node] = f"boot-{self.now}"
        self.down.add(step.node)
        for rank in self.alive():
            if self.ranks[rank][0] == step.node:
                self.end_rank(rank, signal=9)

    def _obey_the_store(self, step: RemoveObject | ReleaseReplica | FreeTransport | SetBack) -> None:
        if isinstance(step, RemoveObject):
            self._leaves(step.object)
        elif isinstance(step, SetBack):
            self.rollbacks[step.replica.deployment] = step.rollback
        elif isinstance(step, ReleaseReplica):
            del self.groups[step.replica]
            self.transport_failures.pop(step.replica, None)
        else:
            failures = self.transport_failures[step.replica]
            self.transport_failures[step.replica] = tuple(
                f for f in failures if f.transport != step.transport
            )

    def _note_transport(self, step: AllocateEpoch) -> None:
        if step.failed is not None:
            known = self.transport_failures.get(step.workload, ())
            others = (each for each in known if each.transport != step.failed.transport)
            self.transport_failures[step.workload] = (*others, step.failed)
        for name, boot in step.wasted_verbs:
            before = self.verbs.get(name)
            count = before.count + 1 if before and before.boot_id == boot else 1
            self.verbs[name] = VerbsAttempts(boot, count)

    def _prove(self, step: ProveGroup) -> None:
        if step.replica in self.mute:
            self._fail(step)
            return
        group = self.groups.get(step.replica)
        if group is not None and group.epoch == step.epoch:
            self.groups[step.replica] = replace(group, proven_at=self.now)
            if step.proof is not None:
                self.proofs[step.combination] = ProvenTransport(self.now, step.proof)

    def _start_agent(self, step: StartAgent) -> None:
        if step.node in self.broken:
            self._fail(step)
            return
        self.agent_files[step.node] = self.agent_file
        if step.node in self.runtimes.built:
            python = f"/home/me/.reconciler/runtimes/{self.runtimes.built[step.node]}/bin/python3"
            self.reports[step.node] = {**self.reports.get(step.node, {}), "python": python}
        self.failures.pop(step.key, None)
        self.agents.add(step.node)
        self.down.discard(step.node)
        self.stale.pop(step.node, None)

    def _fail(self, step: Step) -> None:
        before = self.failures.get(step.key)
        self.failures[step.key] = StepFailure(before.attempts + 1 if before else 1, self.now + 1, "broken")

    def _obey_about_rank(self, step: StartRank | StopRank | ContinueRank | ForgetRank) -> None:
        match step:
            case StartRank():
                self._start(step)
            case StopRank():
                self._stop(step)
            case ContinueRank():
                self.continued[step.id] = (*self.continued.get(step.id, ()), self.now)
                self.report(step.id, stopped=False)  # who is silent is so until its next step
            case ForgetRank():
                assert self.ranks[step.id][1].phase == Phase.EXITED, "a rank that lives is forgotten"
                if step.keep_record:
                    self.report(step.id, pruned=True)
                else:
                    del self.ranks[step.id]

    def _stop(self, step: StopRank) -> None:
        gone_by = self.now + step.grace_seconds
        self.stops[step.id] = RequestedStop(gone_by, gone_by + 10, step.symptom)
        if step.node in self.unkillable:
            assert self.ranks[step.id][1].killed_seconds is None, "who was killed is not asked again"
            self.report(step.id, killed_seconds=0.0)  # its grace is over at once
        elif not self.lingers:
            self._end_as_asked(step.id)
        elif self.ranks[step.id][1].phase != Phase.EXITED:
            self.report(step.id, phase=Phase.DRAINING)

    def _end_as_asked(self, rank: RankId) -> None:
        """The rank of a job ends by the signal, whatever its program does then."""
        if isinstance(_replica(rank), RunId):
            self.end_rank(rank, signal=15)
        else:
            self.end_rank(rank, code=0)

    def pass_time(self, until: float) -> None:
        """The clock goes on, and whoever was asked to end by then has ended."""
        passed, self.now = max(0.0, until - self.now), max(self.now, until)
        for rank in self.alive():
            killed = self.ranks[rank][1].killed_seconds
            if killed is not None:
                self.report(rank, killed_seconds=killed + passed)
                continue
            stop = self.stops.get(rank)
            if self.ranks[rank][1].phase == Phase.DRAINING and (stop is None or stop.gone_by <= self.now):
                self._end_as_asked(rank)

    def restart_controller(self) -> None:
        """Another controller goes on with the same store."""
        self.stops, self.failures, self.writes, self.continued = {}, {}, {}, {}
        self.stale = {}
        self.lost = {
            name: NodeObservation(name, Contact.UNREACHABLE, self.now, problem="timed out", silent=True)
            for name in self.lost
        }

    def _leaves(self, key: ObjectKey) -> None:
        """An object is taken out of the inventory: then nothing of it may be left."""
        known = [rank for rank in self.alive() if self.ranks[rank][0] in self.within_reach]
        known = [rank for rank in known if rank not in self.given_up()]
        assert not any(_replica(rank).key == key for rank in known), f"{key} has a rank"
        assert not any(replica.key == key for replica in self.groups), f"{key} has a group"
        assert key.kind != "Node" or key.name not in self.agents, f"{key} has an agent"
        del self.leaving[key]

    def _start(self, step: StartRank) -> None:
        rank_id = step.spec.id
        if rank_id in self.ranks and self.ranks[rank_id][0] == step.node:
            return  # as the agent does
        others = [
            i
            for i, (place, r) in self.ranks.items()
            if r.phase != Phase.EXITED and _replica(i) == step.workload and place in self.within_reach
            if i not in self.given_up()
        ]
        assert step.node not in {self.ranks[i][0] for i in self.given_up()}, "its node is at fault"
        assert all(i.epoch == rank_id.epoch for i in others), "a rank of an old epoch is alive"
        left = [i for i, (place, r) in self.ranks.items() if place == step.node and r.gone == Gone.NO]
        assert not left, f"{step}: {left} has left something there"
        report = RankReport(
            id=rank_id, group=step.spec.group, socket=step.spec.config.socket, pid=100 + len(self.ranks),
            shim_pid=1, phase=self.first_phase, steps=0, demand=0, loaded_bytes=0, total_bytes=0, detail="",
            started_at=self.now, size=step.spec.config.size, memory_bytes=step.spec.memory_bytes,
            transport=step.spec.transport,
            formed_for=step.spec.formed_for,
            context=step.spec.config.context,
            port=int(step.spec.config.addresses[0].rpartition(":")[2]),
            proof=TransportProof(1_048_576, 4864) if step.spec.config.prove else None,
        )  # fmt: skip
        self.ranks[rank_id] = (step.node, report)

    def report(self, rank_id: RankId, **changes: Any) -> None:
        """What its agent says of a rank changes."""
        place, report = self.ranks[rank_id]
        self.ranks[rank_id] = (place, replace(report, **changes))

    def end_rank(
        self,
        rank_id: RankId,
        code: int | None = None,
        signal: int | None = None,
        program: int | None = None,
    ) -> None:
        """A rank ends, for whatever reason; of a job, with its program unless ``program`` says otherwise."""
        place, report = self.ranks[rank_id]
        of_job = isinstance(_replica(rank_id), RunId)
        ended = Exit(code, signal, self.now, program=of_job if program is None else bool(program))
        self.ranks[rank_id] = (
            place,
            replace(
                report,
                phase=Phase.EXITED,
                exit=ended,
                stopped=False,
                silent_seconds=0.0,
                killed_seconds=None,
            ),
        )

    def lose_store(self, kept: World | None = None) -> None:
        """The store is gone, or one of an earlier moment is in its place; what the nodes know stays."""
        self.groups = dict(kept.groups) if kept else {}
        self.attempts = dict(kept.attempts) if kept else {}
        self.last_epochs = dict(kept.last_epochs) if kept else {}
        self.runs = dict(kept.runs) if kept else {}
        self.restart_controller()

    def replica(self, name: str = "tiny", index: int = 0) -> ReplicaId:
        return ReplicaId(DeploymentName(name), index)

    def group(self, name: str = "tiny", index: int = 0) -> GroupRecord:
        return self.groups[self.replica(name, index)]

    def given_up(self) -> set[RankId]:
        """The ranks that SIGKILL has not ended in time."""
        return {
            rank for rank, (place, report) in self.ranks.items() if ObservedRank(place, report).unkillable
        }

    def alive(self) -> list[RankId]:
        return sorted(i for i, (_, r) in self.ranks.items() if r.phase != Phase.EXITED)


def _replica(rank_id: RankId) -> WorkloadId:
    return workload_named(rank_id.deployment, rank_id.replica)


def two_nodes(**spec: Any) -> World:
    """The quickstart's cluster."""
    return World([node("node-a"), node("node-b"), model(), deployment(**spec)])


def settled(world: World) -> World:
    """The same world, when there is nothing left to do."""
    world.settle()
    return world
