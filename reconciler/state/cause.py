"""Reasons for forming groups."""

from __future__ import annotations

from enum import Enum


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
