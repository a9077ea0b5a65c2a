"""The snapshot nouns of the loop: Desired, Observed, Memory, Plan, Outcome. Read this room first."""

from .desired import Desired, Hold, Rejection
from .facts import MachineFacts, PortFacts
from .faults import Attempt, FaultClass, RungFailure
from .identity import DeploymentName, NodeName, ObjectKey, ReplicaId
from .memory import GroupRecord, Leaving, Memory, StepFailure, StopAsked, Write
from .observed import Contact, GatewayObservation, NodeObservation, Observed, ObservedRank
from .outcome import Outcome
from .plan import (
    AdoptGroup,
    AllocateEpoch,
    Cause,
    ContinueRank,
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
    "AdoptGroup",
    "AllocateEpoch",
    "Attempt",
    "Cause",
    "Contact",
    "ContinueRank",
    "DeploymentName",
    "Desired",
    "FaultClass",
    "ForgetRank",
    "GatewayObservation",
    "GroupRecord",
    "Hold",
    "Leaving",
    "MachineFacts",
    "Memory",
    "NodeName",
    "NodeObservation",
    "ObjectKey",
    "Observed",
    "ObservedRank",
    "Outcome",
    "Plan",
    "PortFacts",
    "ProveGroup",
    "Refusal",
    "RefusedBecause",
    "Rejection",
    "ReleaseReplica",
    "RemoveObject",
    "ReplicaId",
    "RungFailure",
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
