"""Defines the columns of `get`, by kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reconciler.resources import KIND_NAMES, PLURALS
from reconciler.wire import objects
from reconciler.wire.objects import Item, condition, is_true

from .colour import Cell, Colour
from .table_layout import age, size, table

SILENT_SECONDS = 5.0
"""A rank that should make progress and has made none for this long is shown as silent."""


def state(item: Item) -> str:
    """Return a short text: ready, or the reason why not."""
    ready, stalled = condition(item, "Ready"), condition(item, "Stalled")
    if item["metadata"].get("deletionTimestamp"):
        return f"Terminating: {condition(item, 'Reconciling')['message'] or ready['message']}"
    if stalled["status"] == "True":
        return f"Stalled: {stalled['message']}"
    if ready["status"] == "True":
        unexamined = condition(item, "ExaminationFailed")
        return f"Ready, but {unexamined['message']}" if unexamined["status"] == "True" else "Ready"
    busy = condition(item, "Reconciling")
    return busy["message"] if busy["status"] == "True" and busy["message"] else ready["message"] or "Unknown"


def colour(item: Item) -> Colour:
    """Return the colour of an object's state: red if a person or time must help, yellow if it is in progress."""
    if item["kind"] == "Rank":
        ended = item["phase"] == "exited" or item.get("killed")
        return "red" if ended else "green" if _phase(item) == "ready" else "yellow"
    if item["kind"] == "Operation":
        standings: dict[str, Colour] = {"InForce": "yellow", "TargetNotFound": "red"}
        return standings.get(item["status"]["standing"], "green")
    if item["metadata"].get("deletionTimestamp"):
        return "yellow"
    if is_true(item, "Stalled"):
        return "red"
    ready = condition(item, "Ready")["status"]
    if ready == "True":
        unsure = (item["kind"] == "Node" and item["spec"].get("unschedulable")) or is_true(
            item, "ExaminationFailed"
        )
        return "yellow" if unsure else "green"
    busy = is_true(item, "Reconciling") or ready == "Unknown"
    return "yellow" if busy else "red"


_READ_ONLY = {"Rank": "ranks", "Operation": "operations"}
"""Plurals of the kinds that have no manifests."""
COLOURED = ("READY", "STATUS", "PHASE")
"""The columns that show the state."""

_RUNTIME = ("mlx", "mlx-lm")
"""The packages that a table has room for; ``describe`` shows all."""


def _node(item: objects.Node, wide: bool) -> list[str]:
    status = item["status"]
    row = [
        item["metadata"]["name"],
        condition(item, "Ready")["status"],
        str(status.get("ranks", 0)),
        size(status.get("memoryBytes")),
        status.get("system") or "-",
    ]
    versions = status.get("runtime", {})
    runtime = " ".join(f"{name} {versions[name]}" for name in _RUNTIME if name in versions)
    reported = state(item) + _withheld(item["spec"])
    return [*row, _host(item["spec"]), runtime or "-", reported] if wide else [*row, reported]


def _host(spec: objects.NodeSpec) -> str:
    """Return the machine as an argument of ssh."""
    ssh = spec.get("ssh")
    if ssh is None:
        return "(local)"
    return f"{ssh['user']}@{ssh['host']}" + (f":{ssh['port']}" if ssh["port"] != 22 else "")


def _withheld(spec: objects.NodeSpec) -> str:
    """Return the reasons that keep ranks off a node, in the form that kubectl adds to a node's state."""
    if spec.get("drain"):
        return ",SchedulingDisabled,Drained"
    return ",SchedulingDisabled" if spec["unschedulable"] else ""


def _fabric(item: objects.Fabric, wide: bool) -> list[str]:
    row = [
        item["metadata"]["name"],
        condition(item, "Ready")["status"],
        str(len(item["spec"]["links"])),
    ]
    pool = item["spec"]["addressing"].get("pool") or "-"
    return [*row, pool, state(item)] if wide else [*row, state(item)]


def _model(item: objects.Model, wide: bool) -> list[str]:
    status = item["status"]
    row = [
        item["metadata"]["name"],
        condition(item, "Ready")["status"],
        size(status.get("weightsBytes")),
        _source(item["spec"]["source"]),
    ]
    nodes = " ".join(f"{name}={found}" for name, found in status.get("nodes", {}).items())
    return [*row, nodes or "-", state(item)] if wide else [*row, state(item)]


def _source(source: objects.WeightsSource) -> str:
    """Return a path, or a repository with its abbreviated commit."""
    hub = source.get("huggingface")
    return f"{hub['repo']}@{hub['revision'][:10]}" if hub else str(source["path"])


def _deployment(item: objects.ModelDeployment, wide: bool) -> list[str]:
    status = item["status"]
    groups = status.get("groups", [])
    row = [
        item["metadata"]["name"],
        item["spec"]["model"],
        f"{status.get('readyReplicas', 0)}/{status.get('replicas', item['spec']['replicas'])}",
        ",".join(str(group["epoch"]) for group in groups) or "-",
        age(min((group["since"] for group in groups), default=None)),
    ]
    nodes = " ".join("+".join(group["nodes"]) for group in groups)
    return [*row, nodes or "-", state(item)] if wide else [*row, state(item)]


def _gateway(item: objects.Gateway, wide: bool) -> list[str]:
    status = item["status"]
    row = [
        item["metadata"]["name"],
        condition(item, "Ready")["status"],
        status.get("endpoint") or "-",
        item["spec"]["auth"]["mode"],
    ]
    return [*row, str(status.get("pid") or "-"), state(item)] if wide else [*row, state(item)]


def _notifier(item: objects.Notifier, wide: bool) -> list[str]:
    status, webhook = item["status"], item["spec"]["webhook"]
    row = [
        item["metadata"]["name"],
        condition(item, "Ready")["status"],
        age(status.get("sentAt")),
        str(status.get("waiting", 0)),
    ]
    source = {**webhook.get("urlFrom", {}), "url": webhook.get("url")}  # fields that are not set are missing
    place = next((f"{key}: {value}" for key, value in source.items() if value), "-")
    return [*row, ",".join(item["spec"]["tell"]), place, state(item)] if wide else [*row, state(item)]


def _api_key(item: objects.ApiKey, wide: bool) -> list[str]:
    spec = item["spec"]
    row = [
        item["metadata"]["name"],
        condition(item, "Ready")["status"],
        ",".join(spec["models"]) or "all",
        spec.get("expires") or "never",
        age(item["status"].get("lastUsedAt")),
        str(item["status"].get("tokensToday", 0)),
    ]
    limits = ",".join(f"{name}={value}" for name, value in spec["limits"].items() if value is not None)
    return [*row, limits or "none", state(item)] if wide else [*row, state(item)]


def _sync_window(item: objects.SyncWindow, wide: bool) -> list[str]:
    spec, status = item["spec"], item["status"]
    row = [
        item["metadata"]["name"],
        spec["kind"],
        spec["schedule"],
        _hours(spec["duration"]),
        spec["timeZone"],
        str(len(status.get("holds", ()))),
    ]
    scope = [
        *spec["deployments"],
        *spec["nodes"],
        *(f"{key}={value}" for key, value in spec["selector"].items()),
    ]
    told = condition(item, "Ready")["message"] or state(item)
    return [*row, ",".join(scope) or "everything", told] if wide else [*row, told]


def _hours(duration: str) -> str:
    """Return a duration as people write it: manifests are shown with seconds."""
    seconds = float(duration.removesuffix("s"))
    hours, minutes = seconds / 3600, seconds / 60
    return f"{hours:g}h" if hours.is_integer() else f"{minutes:g}m"


def _phase(item: objects.Rank) -> str:
    """Return a rank's phase, and whether it was killed, is stopped or silent."""
    if item.get("killed"):
        return f"{item['phase']} ({'cannot be ended' if item['unkillable'] else 'killed'})"
    if item.get("stopped"):
        return f"{item['phase']} (stopped)"
    silent = item.get("silentSeconds", 0.0)
    return f"{item['phase']} (silent {silent:.0f}s)" if silent >= SILENT_SECONDS else str(item["phase"])


def _rank(item: objects.Rank, wide: bool) -> list[str]:
    name = str(item["metadata"]["name"])
    place = (item["node"], str(item["pid"]), str(item["epoch"]))
    row = [name, _phase(item), *place, age(item["startedAt"])]
    return [*row, str(item.get("demand", 0)), item["detail"] or "-"] if wide else row


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a kind."""

    narrow: tuple[str, ...]
    wide: tuple[str, ...]
    """Further columns of `-o wide`."""
    row: Callable[[Any, bool], list[str]]
    """Return the cells of an object of this kind, wide or not."""


def _operation(item: objects.Operation, wide: bool) -> list[str]:
    spec = item["spec"]
    value = spec.get("replicas", spec.get("boot", "") if wide else "")
    row = [
        f"{spec['target']['kind'].lower()}/{spec['target']['name'][:40]}",
        f"{spec['verb']} {value}".strip(),
        spec["by"] if wide else spec["by"].partition(" <")[0],
        age(spec["at"]),
        spec.get("until") or "-",
        spec["reason"] or "-",
        item["status"]["standing"],
    ]
    return [item["metadata"]["name"], *row] if wide else row


COLUMNS = {
    "Operation": Columns(
        ("TARGET", "OPERATION", "BY", "AGE", "UNTIL", "REASON", "STATUS"),
        ("NAME", "TARGET", "OPERATION", "BY", "AGE", "UNTIL", "REASON", "STATUS"),
        _operation,
    ),
    "Node": Columns(
        ("NAME", "READY", "RANKS", "MEMORY", "SYSTEM", "STATUS"),
        ("NAME", "READY", "RANKS", "MEMORY", "SYSTEM", "HOST", "RUNTIME", "STATUS"),
        _node,
    ),
    "Fabric": Columns(
        ("NAME", "READY", "LINKS", "STATUS"), ("NAME", "READY", "LINKS", "POOL", "STATUS"), _fabric
    ),
    "Model": Columns(
        ("NAME", "READY", "SIZE", "SOURCE", "STATUS"),
        ("NAME", "READY", "SIZE", "SOURCE", "NODES", "STATUS"),
        _model,
    ),
    "ModelDeployment": Columns(
        ("NAME", "MODEL", "READY", "EPOCH", "AGE", "STATUS"),
        ("NAME", "MODEL", "READY", "EPOCH", "AGE", "NODES", "STATUS"),
        _deployment,
    ),
    "Gateway": Columns(
        ("NAME", "READY", "ENDPOINT", "AUTH", "STATUS"),
        ("NAME", "READY", "ENDPOINT", "AUTH", "PID", "STATUS"),
        _gateway,
    ),
    "Notifier": Columns(
        ("NAME", "READY", "SENT", "WAITING", "STATUS"),
        ("NAME", "READY", "SENT", "WAITING", "TELLS", "URL", "STATUS"),
        _notifier,
    ),
    "ApiKey": Columns(
        ("NAME", "READY", "MODELS", "EXPIRES", "USED", "TODAY", "STATUS"),
        ("NAME", "READY", "MODELS", "EXPIRES", "USED", "TODAY", "LIMITS", "STATUS"),
        _api_key,
    ),
    "SyncWindow": Columns(
        ("NAME", "KIND", "SCHEDULE", "DURATION", "ZONE", "HOLDS", "STATUS"),
        ("NAME", "KIND", "SCHEDULE", "DURATION", "ZONE", "HOLDS", "FOR", "STATUS"),
        _sync_window,
    ),
    "Rank": Columns(
        ("NAME", "PHASE", "NODE", "PID", "EPOCH", "AGE"),
        ("NAME", "PHASE", "NODE", "PID", "EPOCH", "AGE", "DEMAND", "DETAIL"),
        _rank,
    ),
}
"""The columns by kind; a new kind needs a row here."""


NONE = "<none>"


def headers(
    kind: str, wide: bool = False, with_labels: bool = False, chosen: Sequence[str] = ()
) -> list[str]:
    """Return the headers of a kind; ``chosen`` are labels with a column each."""
    columns = COLUMNS[kind]
    found = list(columns.wide if wide else columns.narrow)
    return [*found, *(key.rpartition("/")[2].upper() for key in chosen), *(["LABELS"] if with_labels else [])]


def row(item: Item, wide: bool = False, with_labels: bool = False, chosen: Sequence[str] = ()) -> list[str]:
    """Return the cells of an object."""
    shade, own = colour(item), item["metadata"]["labels"]
    found = [
        Cell.of(cell, shade) if header in COLOURED else cell
        for header, cell in zip(
            headers(item["kind"], wide), COLUMNS[item["kind"]].row(item, wide), strict=True
        )
    ]
    return [*found, *(own.get(key, NONE) for key in chosen), *([labels(item)] if with_labels else [])]


def labels(item: Item) -> str:
    """Return labels as kubectl shows them: `pool=studios,tier=test`."""
    return ",".join(f"{key}={value}" for key, value in item["metadata"]["labels"].items()) or NONE


def tables(items: Sequence[Item]) -> str:
    """Return a table for each kind that has objects."""
    parts = []
    for kind in (*KIND_NAMES, *_READ_ONLY):
        rows = [row(item) for item in items if item["kind"] == kind]
        if rows:
            parts.append(f"{title(kind)}\n{table(headers(kind), rows)}")
    return "\n\n".join(parts)


def title(kind: str) -> str:
    """Return the line above the table of a kind, if there are several tables: the word that commands take."""
    return f"{PLURALS.get(kind) or _READ_ONLY[kind]}:"
