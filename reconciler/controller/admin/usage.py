"""Reports the current use of nodes and ranks, from their agents' last reports; nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.state import Contact, MachineFacts, NodeName, NodeObservation
from reconciler.wire import answers
from reconciler.wire.node import NodeReport, RankReport


def usage(nodes: Mapping[NodeName, NodeObservation]) -> answers.ReportedUsage:
    """Answer ``wire.admin.ShowUsage``, for nodes whose agent answers."""
    reports = {
        name: seen.report
        for name, seen in sorted(nodes.items())
        if seen.report is not None and seen.contact is Contact.REACHED
    }
    return {
        "nodes": [_node(name, report, nodes[name].facts) for name, report in reports.items()],
        "ranks": [_rank(name, rank) for name, report in reports.items() for rank in _alive(report)],
    }


def _alive(report: NodeReport) -> list[RankReport]:
    alive = (rank for rank in report.ranks if rank.exit is None)
    return sorted(alive, key=lambda rank: (rank.id.deployment, rank.id.replica, rank.id.epoch, rank.id.rank))


def _node(name: NodeName, report: NodeReport, facts: MachineFacts) -> answers.NodeUsage:
    load, alive = report.load, _alive(report)
    free = load.memory_free_bytes if load else None
    return {
        "name": name,
        "host": report.host_id,
        "cpus": report.cpus,
        "load": load.average if load else None,
        "ranks": len(alive),
        "ranksCores": round(sum(rank.cores for rank in alive), 2),
        "memoryBytes": report.memory_bytes,
        "memoryUsedBytes": None if free is None else report.memory_bytes - free,
        "pressure": load.pressure if load else "",
        "gpuWatts": facts.gpu_watts,
        "gpuUse": facts.gpu_use,
        "tokensPerSecond": round(sum(rank.tokens_per_second for rank in alive if rank.id.rank == 0), 1),
    }


def _rank(node: NodeName, rank: RankReport) -> answers.RankUsage:
    return {
        "name": str(rank.id),
        "node": node,
        "cores": rank.cores,
        "residentBytes": rank.resident_bytes,
        "chargedBytes": rank.memory_bytes,
        "loadedBytes": rank.loaded_bytes,
        "totalBytes": rank.total_bytes,
        "demand": rank.demand,
        "tokensPerSecond": rank.tokens_per_second,
    }
