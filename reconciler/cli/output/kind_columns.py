"""Defines the columns of `get`, by kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reconciler.resources import KIND_NAMES, PLURALS
from reconciler.wire import objects
from reconciler.wire.objects import Item, condition, is_true

from .colour import Cell, Colour
from .table_layout import age, ahead, duration, size, table

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
    waits = item["kind"] == "Job" and item["status"].get("state") == objects.JobState.PENDING
    busy = waits or is_true(item, "Reconciling") or ready == "Unknown"
    return "yellow" if busy else "red"


_READ_ONLY = {"Rank": "ranks", "Operation": "operations"}
"""Plurals of the kinds that have no manifests."""
COLOURED = ("READY", "STATE", "STATUS", "PHASE")
"""The columns that show the state."""

_RUNTIME = ("mlx", "mlx-lm")
"""The packages that a table has room for; ``describe`` shows all."""


def _name_and_ready(item: objects.Object) -> list[str]:
    return [item["metadata"]["name"], condition(item, "Ready")["status"]]


def _node(item: objects.Node) -> list[str]:
    status = item["status"]
    versions = status.get("runtime", {})
    return [
        *_name_and_ready(item),
        str(status.get("ranks", 0)),
        size(status.get("memoryBytes")),
        status.get("system") or "-",
        _host(item["spec"]),
        " ".join(f"{name} {versions[name]}" for name in _RUNTIME if name in versions) or "-",
        state(item) + _withheld(item["spec"]),
    ]


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


def _fabric(item: objects.Fabric) -> list[str]:
    pool = item["spec"]["addressing"].get("pool") or "-"
    return [*_name_and_ready(item), str(len(item["spec"]["links"])), pool, state(item)]


def _model(item: objects.Model) -> list[str]:
    status = item["status"]
    return [
        *_name_and_ready(item),
        size(status.get("weightsBytes")),
        _source(item["spec"]["source"]),
        " ".join(f"{name}={found}" for name, found in status.get("nodes", {}).items()) or "-",
        state(item),
    ]


def _source(source: objects.WeightsSource) -> str:
    """Return a path, or a repository with its abbreviated commit."""
    hub = source.get("huggingface")
    return f"{hub['repo']}@{hub['revision'][:10]}" if hub else str(source["path"])


def _deployment(item: objects.ModelDeployment) -> list[str]:
    status = item["status"]
    groups = status.get("groups", [])
    return [
        item["metadata"]["name"],
        item["spec"]["model"],
        f"{status.get('readyReplicas', 0)}/{status.get('replicas', item['spec']['replicas'])}",
        ",".join(str(group["epoch"]) for group in groups) or "-",
        age(min((group["since"] for group in groups), default=None)),
        " ".join("+".join(group["nodes"]) for group in groups) or "-",
        state(item),
    ]


def _gateway(item: objects.Gateway) -> list[str]:
    status = item["status"]
    return [
        *_name_and_ready(item),
        status.get("endpoint") or "-",
        item["spec"]["auth"]["mode"],
        str(status.get("pid") or "-"),
        state(item),
    ]


def _notifier(item: objects.Notifier) -> list[str]:
    status, webhook = item["status"], item["spec"]["webhook"]
    source = {**webhook.get("urlFrom", {}), "url": webhook.get("url")}  # fields that are not set are missing
    return [
        *_name_and_ready(item),
        age(status.get("sentAt")),
        str(status.get("waiting", 0)),
        ",".join(item["spec"]["tell"]),
        next((f"{key}: {value}" for key, value in source.items() if value), "-"),
        state(item),
    ]


def _api_key(item: objects.ApiKey) -> list[str]:
    spec = item["spec"]
    limits = (f"{name}={value}" for name, value in spec["limits"].items() if value is not None)
    return [
        *_name_and_ready(item),
        ",".join(spec["models"]) or "all",
        spec.get("expires") or "never",
        age(item["status"].get("lastUsedAt")),
        str(item["status"].get("tokensToday", 0)),
        ",".join(limits) or "none",
        state(item),
    ]


def _sync_window(item: objects.SyncWindow) -> list[str]:
    spec = item["spec"]
    labels = (f"{key}={value}" for key, value in spec["selector"].items())
    return [
        item["metadata"]["name"],
        spec["kind"],
        spec["schedule"],
        _hours(spec["duration"]),
        spec["timeZone"],
        str(len(item["status"].get("holds", ()))),
        ",".join((*spec["deployments"], *spec["nodes"], *labels)) or "everything",
        condition(item, "Ready")["message"] or state(item),
    ]


def _job(item: objects.Job) -> list[str]:
    status = item["status"]
    return [
        item["metadata"]["name"],
        status.get("state", objects.JobState.PENDING),
        str(status.get("run") or "-"),
        f"{status['attempt']}/{status.get('attemptsMax', 1)}" if status.get("attempt") else "-",
        status.get("exit") or "-",
        age(status.get("startedAt")),
        took(status),
        ahead(status.get("nextSchedule")),
        "+".join(status.get("nodes", ())) or "-",
        condition(item, "Ready")["message"] if state(item) == "Ready" else state(item),
    ]


def took(of: objects.JobStatus | objects.Run) -> str:
    """Return the time from the first start of a run to its end, or to now; ``-`` before it."""
    seconds = of.get("seconds")
    return age(of.get("startedAt")) if seconds is None else duration(seconds)


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


def _rank(item: objects.Rank) -> list[str]:
    return [
        str(item["metadata"]["name"]),
        _phase(item),
        item["node"],
        str(item["pid"]),
        str(item["epoch"]),
        age(item["startedAt"]),
        str(item.get("demand", 0)),
        item["detail"] or "-",
    ]


def _operation(item: objects.Operation) -> list[str]:
    spec = item["spec"]
    return [
        item["metadata"]["name"],
        f"{spec['target']['kind'].lower()}/{spec['target']['name'][:40]}",
        f"{spec['verb']} {spec.get('replicas', '')}".strip(),
        f"{spec['verb']} {spec.get('replicas', spec.get('boot', ''))}".strip(),
        spec["by"].partition(" <")[0],
        spec["by"],
        age(spec["at"]),
        spec.get("until") or "-",
        spec["reason"] or "-",
        item["status"]["standing"],
    ]


@dataclass(frozen=True, slots=True)
class Columns:
    titles: str
    """A title in parentheses is shown by ``-o wide`` alone, one in brackets only without it."""
    cells: Callable[[Any], list[str]]
    """Return all cells of an object of this kind."""

    def shown(self, wide: bool) -> list[tuple[int, str]]:
        """Return the index and the title of each column to show."""
        found = enumerate(self.titles.split())
        return [(at, word.strip("()[]")) for at, word in found if word[0] != ("[" if wide else "(")]


COLUMNS = {
    "Operation": Columns(
        "(NAME) TARGET [OPERATION] (OPERATION) [BY] (BY) AGE UNTIL REASON STATUS", _operation
    ),
    "Node": Columns("NAME READY RANKS MEMORY SYSTEM (HOST) (RUNTIME) STATUS", _node),
    "Fabric": Columns("NAME READY LINKS (POOL) STATUS", _fabric),
    "Model": Columns("NAME READY SIZE SOURCE (NODES) STATUS", _model),
    "ModelDeployment": Columns("NAME MODEL READY EPOCH AGE (NODES) STATUS", _deployment),
    "Gateway": Columns("NAME READY ENDPOINT AUTH (PID) STATUS", _gateway),
    "Notifier": Columns("NAME READY SENT WAITING (TELLS) (URL) STATUS", _notifier),
    "ApiKey": Columns("NAME READY MODELS EXPIRES USED TODAY (LIMITS) STATUS", _api_key),
    "SyncWindow": Columns("NAME KIND SCHEDULE DURATION ZONE HOLDS (FOR) STATUS", _sync_window),
    "Job": Columns("NAME STATE RUN ATTEMPT EXIT STARTED DURATION (NEXT) (NODES) STATUS", _job),
    "Rank": Columns("NAME PHASE NODE PID EPOCH AGE (DEMAND) (DETAIL)", _rank),
}
"""The columns by kind; a new kind needs a row here."""


NONE = "<none>"


def headers(
    kind: str, wide: bool = False, with_labels: bool = False, chosen: Sequence[str] = ()
) -> list[str]:
    """Return the headers of a kind; ``chosen`` are labels with a column each."""
    found = [title for _, title in COLUMNS[kind].shown(wide)]
    return [*found, *(key.rpartition("/")[2].upper() for key in chosen), *(["LABELS"] if with_labels else [])]


def row(item: Item, wide: bool = False, with_labels: bool = False, chosen: Sequence[str] = ()) -> list[str]:
    shade, own = colour(item), item["metadata"]["labels"]
    columns = COLUMNS[item["kind"]]
    cells = columns.cells(item)
    found = [
        Cell.of(cells[at], shade) if title in COLOURED else cells[at] for at, title in columns.shown(wide)
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
