"""The state of the newest commit of the remote, in the words of a forge. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.errors import few_names
from reconciler.outgoing.forges.interface import State
from reconciler.state import Desired, ObjectKey
from reconciler.state.held_changes import HeldChanges
from reconciler.state.reports.status import Condition, ObjectStatus

from .standing import Standing


@dataclass(frozen=True, slots=True)
class Verdict:
    commit: str
    state: State
    text: str


def verdict(
    standing: Standing | None, desired: Desired, statuses: Mapping[ObjectKey, ObjectStatus]
) -> Verdict | None:
    """Return the status to show for the newest commit; None if none was seen yet. ``statuses`` are of the same pass as
    ``desired``."""
    if standing is None or standing.last is None:
        return None
    commit = standing.last.revision
    if standing.refusal:
        return Verdict(commit, "failure", f"refused: {_line(standing.last.refusal)}")
    hold = desired.hold
    if hold is not None and hold.revision == commit:
        serves = ", and what serves" * bool(hold.unsaid)
        removes = (
            [f"it would remove {len(hold.removes)} of {hold.of} objects{serves}"] if hold.removes else []
        )
        runs = [f"it would run {few_names([f'job/{each.name}' for each in hold.runs])}"] if hold.runs else []
        return Verdict(commit, "failure", f"held: {'; '.join((*removes, *runs))}; {hold.command}")
    if desired.suspended is not None and desired.suspended.revision == commit:
        what = (
            "changes that a sync window has held are suspended"
            if desired.suspended.rest
            else "seen, and suspended"
        )
        return Verdict(commit, "pending", what)
    held = desired.held_changes
    if held is not None and held.revision == commit:
        return _held(commit, held)
    if desired.revision != commit:
        return Verdict(commit, "pending", "seen")
    return _served(commit, desired, statuses)


def _held(commit: str, held: HeldChanges) -> Verdict:
    """Say that changes wait for a sync window: which one, and how long."""
    first, count = held.changes[0], len(held.changes)
    what = "a change is" if count == 1 else f"{count} changes are"
    return Verdict(commit, "pending", f"{what} held by {first.named}{first.end}")


def _served(commit: str, desired: Desired, statuses: Mapping[ObjectKey, ObjectStatus]) -> Verdict:
    waiting = []
    for name in sorted(desired.deployments):
        key = ObjectKey("ModelDeployment", name)
        status = statuses.get(key)
        conditions = {each.type: each for each in status.conditions} if status is not None else {}
        current = status is not None and status.generation == desired.generations.get(key, 1)
        if not current or not _on(conditions.get("Ready")) or _on(conditions.get("Reconciling")):
            waiting.append(name)
        if current and _on(conditions.get("Stalled")):
            return Verdict(
                commit, "failure", f"in force, but {name} is stalled: {_line(conditions['Stalled'].told)}"
            )
    if waiting:
        return Verdict(commit, "pending", "in force, and not ready yet")
    count = len(desired.deployments)
    return Verdict(commit, "success", f"in force, and ready: {count} deployment{'' if count == 1 else 's'}")


def _on(condition: Condition | None) -> bool:
    return condition is not None and condition.status


def _line(text: str) -> str:
    return " ".join(text.split())
