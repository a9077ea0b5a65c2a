"""The desired state: one revision of the manifests, typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from reconciler.errors import few_names, on_one_line
from reconciler.resources import (
    Access,
    End,
    Fabric,
    Gateway,
    Job,
    Manifest,
    Model,
    ModelDeployment,
    Node,
    Notifier,
)
from reconciler.resources.operation import Operation, written_moment

from .answers import Asked
from .held_changes import HeldChanges
from .identity import DeploymentName, JobName, NodeName, ObjectKey, ReplicaId
from .operations import Effect


@dataclass(frozen=True, slots=True)
class Rejection:
    """A newer revision that is not in force because its manifests are wrong."""

    text: str
    """One line for each problem."""

    @property
    def line(self) -> str:
        """Return the rejection on one line, for tables."""
        return on_one_line(self.text)


@dataclass(frozen=True, slots=True)
class JobToRun:
    """A job that a revision would run, and that nobody has permitted."""

    name: JobName
    command: tuple[str, ...]
    nodes: tuple[NodeName, ...]
    """The nodes that allow it, sorted."""

    def __str__(self) -> str:
        words = shlex.join(self.command)
        shown = "".join(each if each.isprintable() else "?" for each in words[:COMMAND_CHARACTERS])
        end = "…" if len(words) > COMMAND_CHARACTERS else ""
        return f"job/{self.name} ({shown}{end}) on {few_names(self.nodes)}"


@dataclass(frozen=True, slots=True)
class Hold:
    """A newer revision that is not in force because it would remove too much, or because it would run a job."""

    revision: str
    removes: tuple[ObjectKey, ...]
    """The objects in force that it lacks, in the order of kinds and names; empty if they are no reason for the hold."""
    of: int
    over: str = ""
    """The revision in force; empty where it is not needed."""
    unsaid: tuple[ObjectKey, ...] = ()
    """Objects that serve now and whose removal no commit names, if it does not remove too much anyway."""
    runs: tuple[JobToRun, ...] = ()
    """Jobs that it would run, and that no commit names."""

    @property
    def command(self) -> str:
        """Return the command that approves it."""
        return f"reconciler approve {abbreviated(self.revision)}"

    @property
    def text(self) -> str:
        """Return the reason for the hold and the remedy, for people."""
        revision = abbreviated(self.revision)
        commits = min(len(self.over), len(self.revision)) >= COMMIT_CHARACTERS
        revert = (
            f", such as with a revert of the commits {abbreviated(self.over)}..{revision}" if commits else ""
        )
        if self.over == self.revision:
            revert = ", or name the folder before: reconciler source set --path FOLDER"
        if not self.removes:
            return f"revision {revision} is held: {self.why}; to run {self._them}: {self.command}"
        also = f" and run {self._them}" if self.runs else ""
        return (
            f"revision {revision} is held: {self.why}; to remove them{also}: {self.command};"
            f" to keep them: put their manifests back{revert}"
        )

    @property
    def _them(self) -> str:
        return "the job" if len(self.runs) == 1 else "the jobs"

    @property
    def why(self) -> str:
        """Return the removals and the jobs, for people."""
        runs = self._why_runs
        return "; and ".join(([self._why_removes] if self.removes else []) + ([runs] if runs else []))

    @property
    def _why_runs(self) -> str:
        if not self.runs:
            return ""
        jobs = few_names([str(each) for each in self.runs], JOBS_SHOWN)
        said = ", ".join(each.name for each in self.runs)
        return f"it would run {jobs}, and no commit allows that (Allow-Job: {said})"

    @property
    def _why_removes(self) -> str:
        removes = f"it would remove {len(self.removes)} of {self.of} objects"
        if not self.unsaid:
            return f"{removes} ({few_names([str(key) for key in self.removes], OBJECTS_SHOWN)})"
        names = few_names([str(key) for key in self.unsaid], OBJECTS_SHOWN)
        serves = "serves" if len(self.unsaid) == 1 else "serve"
        said = ", ".join(dict.fromkeys(key.name for key in self.unsaid))
        return f"{removes}, and no commit allows that for {names}, which {serves} now (Allow-Removal: {said})"


@dataclass(frozen=True, slots=True)
class Suspended:
    """A newer revision, or the rest of the one in force, that waits because somebody has suspended the cluster."""

    revision: str
    operation: Operation
    rest: bool = False
    """True if it is in force, except for changes that a sync window has held."""

    @property
    def text(self) -> str:
        """Return the reason for the wait and the remedy, for people."""
        spec = self.operation.spec
        end = f" until {written_moment(spec.until)}" if spec.until is not None else ""
        why = f": {spec.reason}" if spec.reason else ""
        named = UNNAMED if self.revision == UNNAMED else f"revision {abbreviated(self.revision)}"
        what = f"changes of {named} that a sync window has held wait" if self.rest else f"{named} waits"
        return (
            f"{what}: {self.operation.who} has suspended the cluster{end}{why};"
            " to go on: reconciler resume --all"
        )


UNNAMED = "this change"
"""Stands for a revision that does not exist yet."""
OBJECTS_SHOWN = 10
JOBS_SHOWN = 3
COMMAND_CHARACTERS = 100
"""Most characters of a command that are shown."""
COMMIT_CHARACTERS = 40
"""Length of a commit's id; other revisions have shorter names."""


def abbreviated(revision: str) -> str:
    """Return the abbreviated revision; only commit ids are long."""
    return revision[:10] if len(revision) == 40 else revision


PLANNED = (Node, Fabric, Model, ModelDeployment, Job, Gateway, Notifier)
"""The kinds that have their own field in ``Desired``."""


@dataclass(frozen=True)
class Desired(Asked):
    """The manifests in force."""

    revision: str
    nodes: Mapping[NodeName, Node] = field(default_factory=dict)
    fabrics: Mapping[str, Fabric] = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    deployments: Mapping[DeploymentName, ModelDeployment] = field(default_factory=dict)
    jobs: Mapping[JobName, Job] = field(default_factory=dict)
    gateway: Gateway | None = None
    notifiers: Mapping[str, Notifier] = field(default_factory=dict)
    others: Mapping[ObjectKey, Manifest] = field(default_factory=dict)
    """Objects of kinds that no rule plans for."""
    generations: Mapping[ObjectKey, int] = field(default_factory=dict)
    created: Mapping[ObjectKey, float] = field(default_factory=dict)
    """The time at which each object was first seen, in seconds since the Unix epoch."""
    rejection: Rejection | None = None
    hold: Hold | None = None
    suspended: Suspended | None = None
    held_changes: HeldChanges | None = None
    """Changes of the newest revision that sync windows keep out."""
    operations: str = ""
    """Commit of the operations that are laid over the manifests; empty if there are none."""
    effects: tuple[Effect, ...] = ()
    operations_rejection: Rejection | None = None
    """Newer operations that are not in force because they are wrong."""
    stopping: bool = False
    """True while everything is being shut down: then no replica and no agent is wanted."""

    @classmethod
    def of(cls, revision: str, manifests: Iterable[Manifest]) -> Desired:
        """Sort manifests by kind. Names are unique within a kind: the source has checked that."""
        manifests = tuple(manifests)
        gateways = [m for m in manifests if isinstance(m, Gateway)]
        return cls(
            revision=revision,
            nodes={NodeName(m.metadata.name): m for m in manifests if isinstance(m, Node)},
            fabrics={m.metadata.name: m for m in manifests if isinstance(m, Fabric)},
            models={m.metadata.name: m for m in manifests if isinstance(m, Model)},
            deployments={
                DeploymentName(m.metadata.name): m for m in manifests if isinstance(m, ModelDeployment)
            },
            jobs={JobName(m.metadata.name): m for m in manifests if isinstance(m, Job)},
            gateway=gateways[0] if gateways else None,
            notifiers={m.metadata.name: m for m in manifests if isinstance(m, Notifier)},
            others={ObjectKey.of(m): m for m in manifests if not isinstance(m, PLANNED)},
        )

    def stopped(self) -> Desired:
        """Return the same cluster with nothing running in it."""
        return replace(self, stopping=True)

    def objects(self) -> Mapping[ObjectKey, Manifest]:
        """Return every object by its key, sorted by kind."""
        return self._objects

    @cached_property
    def _objects(self) -> dict[ObjectKey, Manifest]:
        manifests: list[Manifest] = [*self.nodes.values(), *self.fabrics.values()]
        manifests += [*self.models.values(), *self.deployments.values(), *self.jobs.values()]
        if self.gateway is not None:
            manifests.append(self.gateway)
        manifests += self.notifiers.values()
        return {ObjectKey.of(m): m for m in (*manifests, *self.others.values())}

    def replicas(self) -> Mapping[ReplicaId, ModelDeployment]:
        """Return every replica that should run, with its deployment."""
        return self._replicas

    def may_be_extra(self, replica: ReplicaId) -> bool:
        """Return whether a replica may serve in addition to those of the manifest, while these are changed."""
        if self.stopping or replica.deployment not in self.deployments:
            return False
        spec = self.deployments[replica.deployment].spec
        return spec.replicas <= replica.index < spec.replicas + spec.strategy.extra(spec.replicas)

    @cached_property
    def accesses(self) -> Mapping[NodeName, Access]:
        """Return the access to each node. It is read once, because every pass asks for each node several times."""
        return {name: node.spec.access for name, node in self.nodes.items()}

    @cached_property
    def untested_ends(self) -> frozenset[End]:
        """Return the ends of all links that may carry RDMA although this project has not tested their path."""
        return frozenset(
            end for fabric in self.fabrics.values() for link in fabric.spec.untested for end in link
        )

    @cached_property
    def spreads(self) -> frozenset[tuple[frozenset[tuple[str, str]], tuple[str, ...]]]:
        """Return the node labels that deployments with several nodes select, each with their transports. Most
        deployments have the same."""
        return frozenset(
            (frozenset(deployment.spec.placement.node_selector.items()), deployment.spec.transport)
            for deployment in self.deployments.values()
            if deployment.spec.parallelism.nodes.max > 1
        )

    @cached_property
    def _replicas(self) -> dict[ReplicaId, ModelDeployment]:
        if self.stopping:
            return {}
        return {
            ReplicaId(name, index): deployment
            for name, deployment in sorted(self.deployments.items())
            for index in range(deployment.spec.replicas)
        }
