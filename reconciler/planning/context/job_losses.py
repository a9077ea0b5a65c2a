"""Nodes that were lost beneath runs of jobs: no deployment is blamed for those."""

from __future__ import annotations

from collections import Counter

from reconciler.state import NodeName, RunId
from reconciler.state.jobs import AttemptEnd

from .world import World

COUNTED_SECONDS = 3600.0
"""A loss counts for this long, like the panics of machines."""


def node_losses(world: World) -> Counter[NodeName]:
    """Count how often each node was lost beneath a run of a job within an hour, those that are not written yet included."""
    found: Counter[NodeName] = Counter()
    for run in world.memory.runs.values():
        for attempt in run.attempts:
            if attempt.end is AttemptEnd.NODE_LOST and world.now - attempt.ended_at < COUNTED_SECONDS:
                found.update({each.node for each in attempt.ranks})
    for workload, record in world.memory.groups.items():
        if isinstance(workload, RunId) and world.observed.group(record):
            boots = dict(zip(record.members, record.boots, strict=False))
            found.update(name for name, boot in boots.items() if world.boot(name) not in ("", boot))
    return found
