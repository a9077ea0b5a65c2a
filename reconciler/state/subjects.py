"""The subjects of troubles and incidents. Store and answers have them as text, which is written and read here alone."""

from __future__ import annotations

from dataclasses import dataclass

from .identity import DeploymentName, JobName, NodeName, ReplicaId, RunId, WorkloadId


@dataclass(frozen=True, slots=True)
class ReplicaSubject:
    """A replica with its group."""

    replica: ReplicaId

    def __str__(self) -> str:
        return f"replica/{self.replica}"


@dataclass(frozen=True, slots=True)
class RunSubject:
    """A run of a job."""

    run: RunId

    def __str__(self) -> str:
        return str(self.run)


@dataclass(frozen=True, slots=True)
class JobSubject:
    """A job, for what outlives one of its runs."""

    job: JobName

    def __str__(self) -> str:
        return f"job/{self.job}"


@dataclass(frozen=True, slots=True)
class NodeSubject:
    """A machine."""

    node: NodeName

    def __str__(self) -> str:
        return f"node/{self.node}"


@dataclass(frozen=True, slots=True)
class LinkSubject:
    """The cables between two nodes."""

    one: NodeName
    other: NodeName

    def __str__(self) -> str:
        return f"link/{self.one}/{self.other}"

    @property
    def nodes(self) -> tuple[NodeName, NodeName]:
        return self.one, self.other


@dataclass(frozen=True, slots=True)
class RequestSubject:
    """A request that ended groups."""

    request: str
    """Its id."""

    def __str__(self) -> str:
        return f"request/{self.request}"


@dataclass(frozen=True, slots=True)
class GatewaySubject:
    """The gateway of a node."""

    node: NodeName

    def __str__(self) -> str:
        return f"gateway-on/{self.node}"


@dataclass(frozen=True, slots=True)
class OtherSubject:
    """Anything else that a step is about, such as ``repair/studio-1``."""

    text: str

    def __str__(self) -> str:
        return self.text


Subject = (
    ReplicaSubject
    | RunSubject
    | JobSubject
    | NodeSubject
    | LinkSubject
    | RequestSubject
    | GatewaySubject
    | OtherSubject
)


def subject_of(workload: WorkloadId) -> ReplicaSubject | RunSubject:
    return RunSubject(workload) if isinstance(workload, RunId) else ReplicaSubject(workload)


def read(written: str) -> Subject:
    """Return the subject that ``str`` has written like this."""
    kind, _, rest = written.partition("/")
    match kind, rest.split("/"):
        case "replica", [deployment, index] if index.isdecimal():
            return ReplicaSubject(ReplicaId(DeploymentName(deployment), int(index)))
        case "job", [job, index] if index.isdecimal():
            return RunSubject(RunId(JobName(job), int(index)))
        case "job", [job]:
            return JobSubject(JobName(job))
        case "node", [name]:
            return NodeSubject(NodeName(name))
        case "link", [one, other]:
            return LinkSubject(NodeName(one), NodeName(other))
        case "gateway-on", [name]:
            return GatewaySubject(NodeName(name))
        case "request", _:
            return RequestSubject(rest)
        case _:
            return OtherSubject(written)
