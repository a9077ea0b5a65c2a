"""A deployment: its replicas with their ranks, and what the plan says about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reconciler.console.snapshot import Body, Snapshot

from .overview import Served, serving


@dataclass(frozen=True, slots=True)
class Rank:
    """A rank, in one line."""

    number: int
    node: str
    pid: int | None
    phase: str
    detail: str
    started_at: str | None
    charged_bytes: int | None


@dataclass(frozen=True, slots=True)
class Group:
    """A replica's group."""

    replica: int
    epoch: int
    phase: str
    ready: bool
    transport: str
    strategy: str
    context: int | None
    since: str | None
    failed: str
    ranks: tuple[Rank, ...]


@dataclass(frozen=True, slots=True)
class Deployment:
    """The page of a deployment."""

    line: Served
    groups: tuple[Group, ...]
    planned: tuple[Body, ...]
    """What the plan waits for and refuses: ``reason``, ``text``, and ``until`` where it is known."""
    conditions: tuple[Body, ...]
    events: tuple[Body, ...]
    """Newest first."""
    spec: Any


EVENTS_SHOWN = 20


def deployments(snapshot: Snapshot) -> tuple[Deployment, ...]:
    """Return all deployments."""
    return tuple(_deployment(snapshot, each) for each in snapshot.of_kind("ModelDeployment"))


def deployment(snapshot: Snapshot, name: str) -> Deployment | None:
    """Return a deployment; None where there is none of this name."""
    each = snapshot.named("ModelDeployment", name)
    return None if each is None else _deployment(snapshot, each)


def _deployment(snapshot: Snapshot, each: Body) -> Deployment:
    name = each["metadata"]["name"]
    of = f"modeldeployment/{name}"
    return Deployment(
        line=serving(snapshot, each),
        groups=tuple(_group(snapshot, name, group) for group in each["status"].get("groups", ())),
        planned=tuple(snapshot.planned(of)),
        conditions=tuple(each["status"]["conditions"]),
        events=tuple(event for event in reversed(snapshot.events) if event["object"] == of)[:EVENTS_SHOWN],
        spec=each["spec"],
    )


def _group(snapshot: Snapshot, name: str, group: Body) -> Group:
    use = {row["name"]: row for row in snapshot.usage.get("ranks", ())}
    rows = {
        row["rank"]: row
        for row in snapshot.ranks
        if (row["deployment"], row["replica"], row["epoch"]) == (name, group["replica"], group["epoch"])
    }
    ranks = []
    for number, node in enumerate(group["nodes"]):
        row = rows.get(number, {})
        charged = use.get(f"{name}.{group['replica']}.{group['epoch']}.{number}", {}).get("chargedBytes")
        phase, detail = row.get("phase", "not there"), row.get("detail", "")
        ranks.append(Rank(number, node, row.get("pid"), phase, detail, row.get("startedAt"), charged))
    failed = group.get("failed") or {}
    return Group(
        replica=group["replica"],
        epoch=group["epoch"],
        phase=group["phase"],
        ready=group["ready"],
        transport=group.get("transport") or "",
        strategy=group.get("strategy") or "",
        context=group.get("context"),
        since=group.get("since"),
        failed=failed.get("text", ""),
        ranks=tuple(ranks),
    )
