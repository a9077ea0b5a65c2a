"""A deployment: its replicas with their ranks, the ladder of transports, and its part of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconciler.console.snapshot import Snapshot
from reconciler.wire import objects
from reconciler.wire.launch import Phase

from .details import Details, details
from .history import LastChange, last_change, waiting_change
from .overview import Served, serving, transport_of

COMING_UP = (Phase.STARTING, Phase.RENDEZVOUS, Phase.VERBS, Phase.LOADING, Phase.WARM, Phase.READY)
"""The phases of a group that starts, in their order."""
VERBS_TRANSPORTS = ("jaccl", "jaccl-ring")
"""Transports whose ranks set up RDMA; others do not have that phase."""


@dataclass(frozen=True, slots=True)
class Rank:
    number: int
    node: str
    pid: int | None
    phase: str
    detail: str
    started_at: str | None
    charged_bytes: int | None
    loaded_bytes: int
    total_bytes: int
    """Size of its weights; 0 if not known yet."""


@dataclass(frozen=True, slots=True)
class Step:
    """A phase on the way to serving."""

    phase: str
    state: str
    """``past``, ``now`` or ``to come``."""


@dataclass(frozen=True, slots=True)
class Rung:
    """A transport of the deployment's list."""

    transport: str
    state: str
    """``in use``, ``skipped``, ``not needed``, ``ended`` if its group has ended, or ``to be chosen`` without a group."""
    why: str


@dataclass(frozen=True, slots=True)
class Group:
    of: objects.Group
    transport: str
    ranks: tuple[Rank, ...]
    steps: tuple[Step, ...]
    ladder: tuple[Rung, ...]
    loaded_bytes: int
    total_bytes: int
    """Size of the weights of all its ranks while these load them; else 0."""


@dataclass(frozen=True, slots=True)
class Deployment:
    line: Served
    groups: tuple[Group, ...]
    details: Details
    changed: LastChange | None
    """The commit in force that changed it last; None if it is older than the commits that are kept, or if a change waits: the
    newest commit is then in force for other objects."""
    waits: bool
    """True if a sync window holds a change of it."""


def deployments(snapshot: Snapshot) -> tuple[Deployment, ...]:
    return tuple(_deployment(snapshot, each) for each in snapshot.deployments)


def deployment(snapshot: Snapshot, name: str) -> Deployment | None:
    each = snapshot.deployment(name)
    return None if each is None else _deployment(snapshot, each)


def _deployment(snapshot: Snapshot, each: objects.ModelDeployment) -> Deployment:
    name = each["metadata"]["name"]
    waits = waiting_change(each) is not None
    transports = each["spec"].get("transport", ())
    return Deployment(
        line=serving(snapshot, each),
        groups=tuple(_group(snapshot, name, transports, group) for group in each["status"].get("groups", ())),
        details=details(snapshot, each),
        changed=None if waits else last_change(snapshot, f"modeldeployment/{name}"),
        waits=waits,
    )


def _group(snapshot: Snapshot, name: str, transports: Sequence[str], group: objects.Group) -> Group:
    ranks = tuple(_ranks(snapshot, name, group))
    transport, skipped = transport_of(group)
    loading = group["phase"] == Phase.LOADING
    return Group(
        of=group,
        transport=transport,
        ranks=ranks,
        steps=tuple(_steps(group["phase"], transport)),
        ladder=tuple(_ladder(transports, transport, skipped, group["phase"])) if len(ranks) > 1 else (),
        loaded_bytes=sum(rank.loaded_bytes for rank in ranks) if loading else 0,
        total_bytes=sum(rank.total_bytes for rank in ranks) if loading else 0,
    )


def _ranks(snapshot: Snapshot, name: str, group: objects.Group) -> Iterator[Rank]:
    use = {row["name"]: row for row in snapshot.usage["ranks"]}
    rows = {
        row["rank"]: row
        for row in snapshot.ranks
        if (row["deployment"], row["replica"], row["epoch"]) == (name, group["replica"], group["epoch"])
    }
    for number, node in enumerate(group["nodes"]):
        row, used = rows.get(number), use.get(f"{name}.{group['replica']}.{group['epoch']}.{number}")
        yield Rank(
            number=number,
            node=node,
            pid=row["pid"] if row else None,
            phase=row["phase"] if row else "not there",
            detail=row["detail"] if row else "",
            started_at=row["startedAt"] if row else None,
            charged_bytes=used["chargedBytes"] if used else None,
            loaded_bytes=(used.get("loadedBytes") or 0) if used else 0,
            total_bytes=(used.get("totalBytes") or 0) if used else 0,
        )


def _steps(phase: str, transport: str) -> Iterator[Step]:
    """Return the phases of a group that starts or serves; none for one that ends."""
    way = [each for each in COMING_UP if each != Phase.VERBS or transport in VERBS_TRANSPORTS]
    if phase not in way:
        return
    now = way.index(phase)
    for index, each in enumerate(way):
        past = index < now or phase == Phase.READY
        yield Step(each, "past" if past else "now" if index == now else "to come")


def _ladder(transports: Sequence[str], used: str, skipped: str, phase: str) -> Iterator[Rung]:
    """Return the deployment's transports, the best first. ``skipped``: such as ``jaccl, jaccl-ring: no cable; ring: …``."""
    why: dict[str, str] = {}
    for entry in skipped.split("; "):
        names, found, reason = entry.partition(": ")
        if found and set(names.split(", ")) <= set(transports):
            why.update(dict.fromkeys(names.split(", "), reason))
        elif why:
            last = next(reversed(why.values()))
            why = {name: f"{text}; {entry}" if text == last else text for name, text in why.items()}
    place = transports.index(used) if used in transports else None
    for index, each in enumerate(transports):
        if place is None:
            yield Rung(each, "to be chosen", why.get(each, ""))
        else:
            now = "ended" if phase == Phase.EXITED else "in use"
            state = now if index == place else "skipped" if index < place else "not needed"
            yield Rung(each, state, why.get(each, "") if state == "skipped" else "")
