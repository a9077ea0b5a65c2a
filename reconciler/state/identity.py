"""Identities. Ids are types, so that one cannot be passed for another."""

from __future__ import annotations

from typing import Literal, NamedTuple, NewType, Self

from reconciler.resources import Manifest
from reconciler.wire.launch import JOB_PREFIX, RankId

NodeName = NewType("NodeName", str)
DeploymentName = NewType("DeploymentName", str)
JobName = NewType("JobName", str)


class ObjectKey(NamedTuple):
    """An object of the cluster, as events and conditions name it."""

    kind: str
    name: str

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        return cls(manifest.kind, manifest.metadata.name)

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


CLUSTER = ObjectKey("Cluster", "main")
"""The object of events about all manifests together."""


class ReplicaId(NamedTuple):
    """One running copy of a deployment. Indexes count from 0."""

    deployment: DeploymentName
    index: int  # type: ignore[assignment]  # nobody calls this method of tuples on an id

    def __str__(self) -> str:
        return f"{self.deployment}/{self.index}"

    @property
    def key(self) -> ObjectKey:
        """Return the key of the deployment."""
        return ObjectKey("ModelDeployment", self.deployment)


class RunId(NamedTuple):
    """One run of a job. Indexes count from 1."""

    job: JobName
    index: int  # type: ignore[assignment]
    kind: Literal["Job"] = "Job"
    """Keeps it apart from a replica, because tuples are compared by their elements."""

    def __str__(self) -> str:
        return f"job/{self.job}/{self.index}"

    @property
    def key(self) -> ObjectKey:
        """Return the key of the job."""
        return ObjectKey("Job", self.job)


WorkloadId = ReplicaId | RunId
"""Anything that ranks are placed and started for."""


def workload_name(workload: WorkloadId) -> tuple[str, int]:
    """Return a workload as agents and the store have it: a name, which for a job begins with ``JOB_PREFIX``, and the
    index."""
    name = f"{JOB_PREFIX}{workload.job}" if isinstance(workload, RunId) else workload.deployment
    return name, workload.index


def workload_named(name: str, index: int) -> WorkloadId:
    """Return the workload with this name and index, as ``workload_name`` returns them."""
    if name.startswith(JOB_PREFIX):
        return RunId(JobName(name.removeprefix(JOB_PREFIX)), index)
    return ReplicaId(DeploymentName(name), index)


def rank_id(workload: WorkloadId, epoch: int, rank: int) -> RankId:
    """Return the id of a rank of a workload's group."""
    return RankId(*workload_name(workload), epoch, rank)
