"""The readiness of a ModelDeployment: the number of serving replicas, and all groups."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.resources import ModelDeployment
from reconciler.state import DeploymentName, GroupRecord, Observed, ProvenTransport, WaitingFor
from reconciler.state.identity import ObjectKey
from reconciler.transports import VERBS
from reconciler.wire import objects
from reconciler.wire.launch import Phase
from reconciler.wire.weights import PromptReuse

from .model_routes import serving
from .snapshots import Readiness, Snapshots
from .weights import prompt_reuse


class _Group(objects.GroupFields):
    """As the store keeps it, with its time in seconds since the Unix epoch."""

    since: float


class _Fields(objects.ReplicaFields):
    """The same of a deployment."""

    groups: list[_Group]


def readiness(name: str, snapshots: Snapshots) -> Readiness:
    deployment = snapshots.desired.deployments[DeploymentName(name)]
    wanted = 0 if snapshots.desired.stopping else deployment.spec.replicas
    records = snapshots.memory.groups_of(DeploymentName(name))
    groups = [
        _group(record, snapshots.observed, snapshots.memory.proofs, 0 < wanted <= record.workload.index)
        for record in records
    ]
    own = sum(group["ready"] and group["replica"] < wanted for group in groups)
    count = min(wanted, sum(group["ready"] for group in groups))
    body: _Fields = {
        "replicas": wanted,
        "readyReplicas": count,
        "updatedReplicas": sum(record.workload.index < wanted for record in records)
        - _later(name, snapshots),
        "promptReuse": _prompt_reuse(deployment, snapshots),
        "groups": groups,
    }
    text = f"{count} of {wanted} replicas serve"
    if count > own:
        text += f", {count - own} of them extra"
    if count < wanted:
        return Readiness(False, "ReplicasNotReady", text, body)
    return Readiness(True, "ReplicasReady", text, body)


def serving_text(name: DeploymentName, snapshots: Snapshots) -> str:
    """Return how many of a deployment's replicas serve, or that it is not in force."""
    known = name in snapshots.desired.deployments
    return readiness(name, snapshots).message if known else "it is not in force"


def _later(name: str, snapshots: Snapshots) -> int:
    """Count the replicas whose spec has changed but that are replaced later."""
    later = (WaitingFor.ROLLOUT, WaitingFor.PAUSED)
    waiting = snapshots.plan.waiting
    count = snapshots.desired.deployments[DeploymentName(name)].spec.replicas
    mine = (w.workload for w in waiting if w.workload is not None and w.reason in later)
    return sum(each.key == ObjectKey("ModelDeployment", name) and each.index < count for each in mine)


def _prompt_reuse(deployment: ModelDeployment, snapshots: Snapshots) -> str:
    """Return how its groups reuse their prefix cache for prompts that begin alike."""
    model = snapshots.desired.models.get(deployment.spec.model)
    if deployment.spec.serving.prefix_cache == 0:
        return f"{PromptReuse.NONE} (serving.prefixCache is 0)"
    return prompt_reuse(model.spec.source.folder, snapshots.observed) if model else "unknown"


def _group(
    record: GroupRecord, observed: Observed, proofs: Mapping[str, ProvenTransport], extra: bool
) -> _Group:
    current = {rank: seen.report.phase for rank, seen in observed.group(record).items()}
    phases = [current.get(rank, Phase.STARTING) for rank in range(len(record.members))]
    least = Phase.EXITED if Phase.EXITED in phases else min(phases, key=Phase.ALL.index)
    failed, serves = observed.failed(record.workload), serving(record, observed) is not None
    found: _Group = {
        "replica": record.workload.index,
        "epoch": record.epoch,
        "phase": least,
        "nodes": list(record.members),
        "ports": f"{record.port}-{record.port + len(record.members)}",
        "memory": {"bytes": record.rank_bytes, "basis": "guessed" if record.guessed else "computed"},
        "ready": serves,
        "since": record.proven_at or record.created_at,
    }
    if extra:
        found["extra"] = True
    if record.context:
        found["context"] = record.context
    if record.transport in VERBS:
        known = proofs.get(record.combination)
        found["results"] = known.proof.text if known else "not proven yet"
    if len(record.members) > 1:
        found["strategy"] = _because(record.strategy, record.strategy_why)
        found["transport"] = _because(record.transport, record.transport_why)
        found["transportName"], found["transportWhy"] = record.transport, record.transport_why
    if failed is not None and not serves:  # of the group before, until another one serves
        found["failed"] = {"rank": str(failed.report.id), "node": failed.node, "text": failed.ending_text}
    return found


def _because(choice: str, why: str) -> str:
    if not choice:
        return "as it was started"
    return f"{choice} ({why})" if why else choice
