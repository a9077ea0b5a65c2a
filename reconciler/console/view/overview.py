"""The first page: the models that are served, the use of each machine, and the troubles with their remedies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from reconciler.console.snapshot import Snapshot
from reconciler.wire import answers, objects
from reconciler.wire.objects import condition

from .machine import Machine, machines, scale
from .operation import words
from .remote import Remote, remote_of
from .state import doing, state_of, worst
from .trouble import Trouble, troubles

TROUBLES_SHOWN = 4
"""Most troubles on the first page, so that its other parts stay on the first screen."""
LATEST_SHOWN = 4
"""Events on the first page."""
MODELS_MAX = 12
"""Most models on the first page: those that need attention come first."""
ROWS_MAX = 24
"""Most machines with a row each on the first page: with more, only those that need attention have one, and all have a tile."""


@dataclass(frozen=True, slots=True)
class Served:
    name: str
    model: str
    state: str
    """``ready``, ``busy`` while something is being done, or ``bad``."""
    ready: int
    replicas: int
    text: str
    """The reason why it is not ready; empty if all is well."""
    tokens_per_second: float
    requests: int
    """Requests that run or wait."""
    nodes: tuple[str, ...]
    transports: tuple[str, ...]
    """Transports of its groups, without the reason why better ones were skipped."""
    standing: str
    """The operations in force on it; empty for none."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The cluster in a few numbers; None if no machine reports one."""

    tokens_per_second: float
    requests: int
    machines_ready: int
    machines: int
    used_bytes: int | None
    memory_bytes: int | None
    watts: float | None


@dataclass(frozen=True, slots=True)
class Overview:
    headline: str
    state: str
    served: tuple[Served, ...]
    more_served: int
    figures: Figures
    machines: tuple[Machine, ...]
    rows: tuple[Machine, ...]
    """The machines that have a row each."""
    watts_scale: int
    troubles: tuple[Trouble, ...]
    more_troubles: int
    latest: tuple[answers.EventEntry, ...]
    """Events, newest first."""
    remote: Remote | None


@dataclass(frozen=True, slots=True)
class Pulse:
    """The state of the cluster, next to each page."""

    state: str
    text: str


def overview(snapshot: Snapshot) -> Overview:
    served, found, wrong = _served(snapshot), machines(snapshot), troubles(snapshot)
    told = {each.about for each in wrong[:TROUBLES_SHOWN]}
    found = tuple(replace(each, text="") if f"node/{each.name}" in told else each for each in found)
    return Overview(
        headline=_headline(snapshot, served),
        state=_state(served, wrong),
        served=tuple(sorted(served, key=lambda each: each.state == "ready"))[:MODELS_MAX],
        more_served=len(served[MODELS_MAX:]),
        figures=_figures(served, found),
        machines=found,
        rows=found if len(found) <= ROWS_MAX else tuple(e for e in found if e.state != "ready")[:ROWS_MAX],
        watts_scale=scale(found),
        troubles=wrong[:TROUBLES_SHOWN],
        more_troubles=len(wrong[TROUBLES_SHOWN:]),
        latest=tuple(reversed(snapshot.events[-LATEST_SHOWN:])),
        remote=remote_of(snapshot),
    )


def pulse(snapshot: Snapshot) -> Pulse:
    served, wrong = _served(snapshot), troubles(snapshot)
    count = len(wrong)
    attention = "1 needs attention" if count == 1 else f"{count} need attention"
    return Pulse(_state(served, wrong), attention if wrong else _headline(snapshot, served))


def serving(snapshot: Snapshot, each: objects.ModelDeployment) -> Served:
    name, status = each["metadata"]["name"], each["status"]
    ranks = {row["name"]: row for row in snapshot.usage["ranks"]}
    groups = status.get("groups", ())
    names = (f"{name}.{group['replica']}.{group['epoch']}.0" for group in groups)
    first = [ranks[rank] for rank in names if rank in ranks]
    ready, busy = condition(each, "Ready"), condition(each, "Reconciling")
    return Served(
        name=name,
        model=each["spec"]["model"],
        state=state_of(each),
        ready=status.get("readyReplicas", 0),
        replicas=each["spec"]["replicas"],
        text="" if ready["status"] == "True" and busy["status"] != "True" else doing(each),
        tokens_per_second=sum(row.get("tokensPerSecond") or 0.0 for row in first),
        requests=sum(row.get("demand") or 0 for row in first),
        nodes=tuple(dict.fromkeys(node for group in groups for node in group["nodes"])),
        transports=tuple(
            dict.fromkeys(group["transportName"] for group in groups if group.get("transportName"))
        ),
        standing=words(each),
    )


def transport_of(group: objects.Group) -> tuple[str, str]:
    """Return a group's transport, and why better ones were skipped."""
    return group.get("transportName", ""), group.get("transportWhy", "")


def _served(snapshot: Snapshot) -> tuple[Served, ...]:
    return tuple(serving(snapshot, each) for each in snapshot.deployments)


def _figures(served: tuple[Served, ...], found: tuple[Machine, ...]) -> Figures:
    hosts = tuple({each.host: each for each in found}.values())  # nodes of one machine share its memory
    return Figures(
        tokens_per_second=sum(each.tokens_per_second for each in served),
        requests=sum(each.requests for each in served),
        machines_ready=sum(each.state == "ready" for each in found),
        machines=len(found),
        used_bytes=_sum(each.used_bytes for each in hosts),
        memory_bytes=_sum(each.memory_bytes for each in hosts),
        watts=_sum(each.watts for each in hosts),
    )


def _sum(values: Iterable[float | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(sum(known)) if known else None


def _state(served: tuple[Served, ...], wrong: tuple[Trouble, ...]) -> str:
    """Return ``bad`` only if a model is not served and something is wrong. A model that starts is amber, and so is a machine
    that waits for a person while all models are served."""
    if any(not each.ready and each.replicas and (wrong or each.state == "bad") for each in served):
        return "bad"
    return worst(
        [*("ready" if each.state == "ready" else "busy" for each in served), *["busy"] * bool(wrong)]
    )


def _headline(snapshot: Snapshot, served: tuple[Served, ...]) -> str:
    if not snapshot.at:
        return "Waiting for the controller"
    if not served:
        return "No model to serve yet"
    if len(served) == 1:
        return f"{served[0].name} is {'served' if served[0].ready else 'not served'}"
    count = sum(each.ready > 0 for each in served)
    whole = f"All {count}" if count == len(served) else f"{count} of {len(served)}"
    return f"{whole} models are served"
