"""Answers what nodes and deployments do: now, from the newest reports, or over the last hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler import __version__
from reconciler.controller.figures.files import number
from reconciler.controller.mirror.following import Following
from reconciler.controller.parts import Parts
from reconciler.state import Contact, MachineFacts, NodeName, NodeObservation, Observed
from reconciler.status.series import FAMILIES, View
from reconciler.store import EventFilter
from reconciler.wire import answers
from reconciler.wire.admin import ShowMetrics
from reconciler.wire.node import NodeReport, RankReport

from .bodies import iso, lasting

POINTS_MAX = 1440
MARKS = {"GroupProven": "group", "IncidentOpened": "incident"}
"""Marks in plots, by the reasons of their events."""
MARKS_MAX = 200
"""Most marks, the newest ones."""


def metrics(parts: Parts, message: ShowMetrics) -> answers.Metrics:
    """Answer ``wire.admin.ShowMetrics``: figures of the last hours, and what happened meanwhile."""
    now = parts.clock()
    points = min(max(1, message.points), POINTS_MAX)
    found = parts.figures.series.read(
        message.seconds, now, points, lambda key: message.object in ("", key.object)
    )
    kind, _, name = message.object.partition("/")
    wanted = EventFilter(
        limit=MARKS_MAX, since=found.begins, reasons=tuple(MARKS), name=name if kind else None
    )
    return {
        "begins": iso(found.begins),
        "seconds": found.seconds,
        "count": found.count,
        "series": [
            {"object": key.object, "name": key.name, "values": list(map(number, values))}
            for key, values in sorted(found.values.items())
        ],
        "marks": [
            {
                "time": iso(event.at),
                "object": str(event.object),
                "kind": MARKS[event.reason],
                "text": event.message,
            }
            for _, event in parts.store.events(wanted)
            if message.object in ("", str(event.object))
        ],
    }


def series(parts: Parts, following: Following | None) -> answers.MetricFamilies:
    """Answer ``wire.admin.ShowSeries`` with the newest reports, because not every report causes a pass."""
    last = parts.last
    newest = replace(last, observed=Observed(parts.collector.nodes(), last.observed.gateway))
    view = View(
        newest,
        parts.publisher.statuses,
        parts.publisher.incident_log.open,
        [each.spec.verb for each in lasting(last)],
        *_source(following),
        version=__version__,
    )
    return {
        "families": [
            {"name": each.name, "text": each.text, "labels": list(each.labels), "series": each.series(view)}
            for each in FAMILIES
        ]
    }


def _source(following: Following | None) -> tuple[bool | None, float | None]:
    """Return whether the remote repository answered the last look, and when it last answered."""
    standing = following.standing if following is not None else None
    if following is not None and following.complaint:
        return False, standing.answered_at if standing is not None else None
    if standing is None or not standing.looks:
        return None, None
    return not standing.failures, standing.answered_at


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
