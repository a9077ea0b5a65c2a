"""Reasons for forming groups, and for refusing to."""

from __future__ import annotations

from enum import Enum

from reconciler.wire.weights import FetchProblem


class Cause(Enum):
    """The reason for forming a group."""

    NEW_REPLICA = "NewReplica"
    SPEC_CHANGED = "SpecChanged"
    NODE_DRAINED = "NodeDrained"
    RANK_EXITED = "RankExited"
    RANK_MISSING = "RankMissing"
    PROOF_FAILED = "ProofFailed"
    STALLED = "Stalled"
    OVERDUE = "DeadlineExceeded"
    RANKS_APART = "RendezvousTimeout"
    RANK_UNKILLABLE = "UnkillableRank"
    NODE_QUARANTINED = "NodeQuarantined"
    STORE_LOST = "StoreLost"
    FACTS_CHANGED = "FactsChanged"
    TRANSPORT_FAILED = "TransportFailed"
    TRANSPORT_BACK = "TransportBack"
    NODES_BACK = "NodesBack"
    PREEMPTED = "Preempted"
    NEW_RUN = "NewRun"
    NEXT_ATTEMPT = "NextAttempt"


class RefusedBecause(Enum):
    """Reasons why something is impossible until a person changes something."""

    MODEL_UNKNOWN = "ModelNotFound"
    NO_NODES = "NotEnoughNodes"
    NODES_DIFFER = "NodesDiffer"
    NO_RUNTIME = "RuntimeMissing"
    RUNTIME_UNAVAILABLE = "RuntimeUnavailable"
    WEIGHTS_MISSING = "WeightsMissing"
    WEIGHTS_UNUSABLE = "WeightsUnusable"
    INTERRUPTED = FetchProblem.INTERRUPTED
    TRUNCATED = FetchProblem.TRUNCATED
    CORRUPTED = FetchProblem.CORRUPTED
    UNAUTHORIZED = FetchProblem.UNAUTHORIZED
    FORBIDDEN = FetchProblem.FORBIDDEN
    NOT_ON_HUB = FetchProblem.NOT_FOUND
    NO_HUB = FetchProblem.UNREACHABLE
    DISK_FULL = FetchProblem.DISK_FULL
    NOT_ALLOWED = FetchProblem.NOT_ALLOWED
    VOLUME_ABSENT = "VolumeNotMounted"
    NOT_SERVABLE = FetchProblem.NOT_SERVABLE
    NO_HUB_CLIENT = FetchProblem.NO_CLIENT
    FETCH_FAILED = FetchProblem.FAILED
    CODE_UNTRUSTED = "RemoteCodeNotTrusted"
    NOT_SUPPORTED = "StrategyNotSupported"
    NOT_DIVISIBLE = "NotDivisible"
    CONTEXT_TOO_LONG = "ContextTooLong"
    ROPE_SCALING = "RopeScalingNotSupported"
    NO_MEMORY = "NotEnoughMemory"
    NO_TRANSPORT = "NoTransport"
    JOBS_DENIED = "JobsNotAllowed"
    NODE_LOSS = "CausedNodeLoss"
    RANK_REFUSES = "RankRefuses"
    CRASH_LOOP = "CrashLoopBackOff"
    STOPPED = "StoppedByRequest"
    RESTARTING = "NodeRestarting"
    NO_RESTART = "CannotRestart"
    NOT_REPAIRED = "CannotRepair"
    CANNOT_LISTEN = "CannotListen"
    NO_GATEWAY = "GatewayNotRunning"
    SET_BACK = "RevisionSetBack"
    HELD = "RevisionHeld"
    REJECTED = "RevisionRejected"
    UNWRITABLE = "StateUnwritable"
