"""Answers ``reconciler doctor``: has the machines probed again, then examines them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler import incidents
from reconciler.controller.pace import in_slices
from reconciler.controller.parts import Parts
from reconciler.controller.reconcile import decide
from reconciler.doctor import (
    Finding,
    HomeFinding,
    Up,
    examine,
    examine_home,
    examine_repository,
    examine_up,
)
from reconciler.errors import Refused, listing
from reconciler.state import Contact, NodeName
from reconciler.state.identity import CLUSTER
from reconciler.state.reports.incident import Incident
from reconciler.status import Snapshots
from reconciler.store import IncidentFilter
from reconciler.wire import answers
from reconciler.wire.admin import Doctor

from . import bodies

WAIT_SECONDS_MAX = 60.0
RUNS_MAX = 16
"""Most doctor sessions at a time; a further one replaces the oldest."""
HEALED_SECONDS = 3600.0
"""Seconds for which closed incidents are still listed."""
HEALED_MAX = 20


@dataclass(slots=True)
class _Run:
    nodes: tuple[NodeName, ...]
    """The requested nodes; empty means all."""
    asking: dict[NodeName, asyncio.Task[bool]]


@dataclass(slots=True)
class DoctorSessions:
    parts: Parts
    _runs: dict[str, _Run] = field(default_factory=dict)

    async def answer(self, message: Doctor) -> answers.DoctorAnswer:
        """Answer ``wire.admin.Doctor``. Raises ``Refused`` for unknown nodes, and for an expired session."""
        if not message.run:
            return self._begin(tuple(NodeName(name) for name in message.nodes))
        run = self._runs.get(message.run)
        if run is None:
            raise Refused("NotFound", "that doctor session has expired; start it again")
        waiting = [task for task in run.asking.values() if not task.done()]
        if waiting and message.wait_seconds:
            await asyncio.wait(waiting, timeout=min(message.wait_seconds, WAIT_SECONDS_MAX))
        asking: list[str] = [name for name, task in run.asking.items() if not task.done()]
        if asking:
            return {"run": message.run, "asking": asking}
        self._runs.pop(message.run, None)
        return {"run": message.run, "asking": [], **(await self._findings(run))}

    def _begin(self, names: tuple[NodeName, ...]) -> answers.DoctorAnswer:
        unknown = [name for name in names if name not in self.parts.last.desired.nodes]
        if unknown:
            raise Refused("NotFound", f'there is no node "{unknown[0]}"; {listing("nodes")}')
        seen = self.parts.collector.nodes()
        wanted = names or tuple(sorted(self.parts.last.desired.nodes))
        reached = [name for name in wanted if name in seen and seen[name].contact is Contact.REACHED]
        asking = {
            name: asyncio.create_task(self.parts.collector.examine(name), name=f"examine {name}")
            for name in reached
        }
        while len(self._runs) >= RUNS_MAX:
            for task in self._runs.pop(next(iter(self._runs))).asking.values():
                task.cancel()
        number = self.parts.entropy()[:12]
        self._runs[number] = _Run(names, asking)
        return {"run": number, "asking": list(asking)}

    async def _findings(self, run: _Run) -> answers.Findings:
        snapshots, _ = await in_slices(decide(self.parts))
        known = self._followed(snapshots)
        found = examine(snapshots, run.nodes, known.values())
        late = [
            name
            for name, task in run.asking.items()
            if (task.cancelled() or not task.result()) and _reached(snapshots, name)
        ]
        home = [] if run.nodes else await self._home_findings(snapshots)
        unknown: list[answers.NotKnown] = [
            {"node": each.node, "what": each.what, "why": each.why} for each in found.unknown
        ]
        unknown += [
            {"node": name, "what": "its newest facts", "why": "its probes did not finish in time"}
            for name in late
        ]
        return {
            "nodes": list(found.nodes),
            "findings": [*map(_home_finding, home), *map(_finding, found.findings)],
            "notKnown": unknown,
            "healed": self._healed(known, snapshots.now) if not run.nodes else [],
        }

    async def _home_findings(self, snapshots: Snapshots) -> list[HomeFinding]:
        around, repo = self.parts.around, self.parts.around.source.repository()
        place = str(repo.path) if repo is not None else ""
        up = Up(around.supervision(), await asyncio.to_thread(around.stopped_up), around.console())
        return [
            *examine_repository(place, await self.parts.care.damage_now()),
            *examine_home(snapshots.memory, self.parts.store.damaged()),
            *examine_up(up, snapshots.now),
        ]

    def _followed(self, snapshots: Snapshots) -> dict[int, Incident]:
        """Return the incidents after this examination, which the loop's next pass will write."""
        kept = self.parts.store.incidents
        return incidents.follow(
            kept.unsettled(), kept.last_id(), snapshots, (), self.parts.publisher.statuses
        )

    def _healed(self, known: Mapping[int, Incident], now: float) -> list[answers.HealedIncident]:
        """Return the closed incidents, oldest first."""
        lately = self.parts.store.incidents.find(IncidentFilter(since=now - HEALED_SECONDS, limit=HEALED_MAX))
        latest = [known.get(each.id, each) for each in lately]
        return [bodies.incident_without_entries(each, now) for each in latest if not each.open]


def _reached(snapshots: Snapshots, name: NodeName) -> bool:
    """Return whether a machine answers. A lost one is reported as unknown anyway."""
    seen = snapshots.observed.nodes.get(name)
    return seen is not None and seen.contact is Contact.REACHED


def _finding(finding: Finding) -> answers.Finding:
    return {
        "class": finding.code,
        "title": finding.title,
        "objects": [str(key) for key in finding.objects],
        "nodes": list(finding.nodes),
        "seen": finding.seen,
        "means": finding.means,
        "steps": finding.steps,
        "person": finding.person,
    }


def _home_finding(finding: HomeFinding) -> answers.Finding:
    """Return a finding in the form of those about machines; it has no class, and concerns no node."""
    return {
        "class": "",
        "title": "State directory",
        "objects": [str(CLUSTER)],
        "nodes": [],
        "seen": finding.seen,
        "means": finding.means,
        "steps": finding.steps,
        "person": True,
    }
