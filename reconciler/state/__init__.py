"""The snapshot nouns of the loop: Desired, Observed, Memory, Plan, Outcome. Read this room first."""

from .desired import Desired, Hold, Rejection
from .identity import DeploymentName, NodeName, ObjectKey, ReplicaId
from .memory import GroupRecord, Leaving, Memory, StepFailure, StopAsked, Write
from .observed import Contact, GatewayObservation, NodeObservation, Observed, ObservedRank
from .outcome import Outcome
from .plan import (
    AllocateEpoch,
    Cause,
    ForgetRank,
    Plan,
    ProveGroup,
    Refusal,
    RefusedBecause,
    ReleaseReplica,
    RemoveObject,
    StartAgent,
    StartRank,
    Step,
    StopAgent,
    StopRank,
    Waiting,
    WaitingFor,
)

__all__ = [
    "AllocateEpoch",
    "Cause",
    "Contact",
    "DeploymentName",
    "Desired",
    "ForgetRank",
    "GatewayObservation",
    "GroupRecord",
    "Hold",
    "Leaving",
    "Memory",
    "NodeName",
    "NodeObservation",
    "ObjectKey",
    "Observed",
    "ObservedRank",
    "Outcome",
    "Plan",
    "ProveGroup",
    "Refusal",
    "RefusedBecause",
    "Rejection",
    "ReleaseReplica",
    "RemoveObject",
    "ReplicaId",
    "StartAgent",
    "StartRank",
    "Step",
    "StepFailure",
    "StopAgent",
    "StopAsked",
    "StopRank",
    "Waiting",
    "WaitingFor",
    "Write",
]
