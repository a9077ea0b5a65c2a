"""The first page: who serves what, what each machine holds, what is wrong, and what is being done about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.console.snapshot import Body, Snapshot, condition, is_true


@dataclass(frozen=True, slots=True)
class Served:
    """A deployment, in one line."""

    name: str
    model: str
    state: str
    """``ready``, ``busy`` where something is being done, or ``bad``."""
    ready: int
    replicas: int
    text: str
    """What it waits for or lacks; empty where all is well."""
    tokens_per_second: float
    requests: int
    """Requests that are answered or wait."""
    nodes: tuple[str, ...]
    transports: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """A node, in one line."""

    name: str
    state: str
    text: str
    ranks: int
    memory_bytes: int | None
    used_bytes: int | None
    cpus: int | None
    load: float | None
    watts: float | None
    system: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong now: what, since when, what is being done, and what a person has to do."""

    about: str
    text: str
    since: str | None
    doing: str = ""
    person: str = ""
    command: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Overview:
    """The first page."""

    headline: str
    state: str
    served: tuple[Served, ...]
    machines: tuple[Machine, ...]
    troubles: tuple[Trouble, ...]
    endpoint: str
    revision: str
    source: str


def overview(snapshot: Snapshot) -> Overview:
    """Return the first page's content."""
    served = tuple(serving(snapshot, each) for each in snapshot.of_kind("ModelDeployment"))
    troubles = tuple(_troubles(snapshot))
    return Overview(
        headline=_headline(snapshot, served, troubles),
        state=_worst([each.state for each in served] + ["bad"] * bool(troubles)),
        served=served,
        machines=tuple(_machine(snapshot, each) for each in snapshot.of_kind("Node")),
        troubles=troubles,
        endpoint=snapshot.status.get("endpoint") or "",
        revision=snapshot.status.get("revision") or "",
        source=snapshot.status.get("source") or "",
    )


def serving(snapshot: Snapshot, each: Body) -> Served:
    """Return a deployment in one line."""
    name, status = each["metadata"]["name"], each["status"]
    ranks = {row["name"]: row for row in snapshot.usage.get("ranks", ())}
    groups = status.get("groups", ())
    first = [ranks.get(f"{name}.{group['replica']}.{group['epoch']}.0", {}) for group in groups]
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
        transports=tuple(dict.fromkeys(group["transport"] for group in groups if group.get("transport"))),
    )


def state_of(each: Body) -> str:
    """Return ``ready``, ``busy`` or ``bad`` for an object."""
    if is_true(each, "Stalled"):
        return "bad"
    if is_true(each, "Reconciling"):
        return "busy"
    return "ready" if is_true(each, "Ready") else "bad"


def doing(each: Body) -> str:
    """Return what keeps an object from being well: what it needs, what it waits for, or what it lacks."""
    for type, status in (("Stalled", "True"), ("Reconciling", "True"), ("Ready", "False")):
        found = condition(each, type)
        if found["status"] == status and found["message"]:
            return str(found["message"])
    return ""


def _machine(snapshot: Snapshot, each: Body) -> Machine:
    name, status = each["metadata"]["name"], each["status"]
    rows: dict[str, Body] = {row["name"]: row for row in snapshot.usage.get("nodes", ())}
    use = rows.get(name, {})
    return Machine(
        name=name,
        state=state_of(each),
        text=doing(each),
        ranks=status.get("ranks", 0),
        memory_bytes=use.get("memoryBytes") or status.get("memoryBytes"),
        used_bytes=use.get("memoryUsedBytes"),
        cpus=use.get("cpus") or status.get("cpus"),
        load=use.get("load"),
        watts=use.get("gpuWatts"),
        system=_system(status),
    )


def _system(status: Body) -> str:
    mac = status.get("mac")
    return f"{mac['chip']}, macOS {mac['macOS']}" if mac else status.get("system", "")


def _troubles(snapshot: Snapshot) -> Iterator[Trouble]:
    held, rejection = snapshot.status.get("held"), snapshot.status.get("rejection")
    if held:
        yield Trouble("revision " + held["revision"][:10], held["text"], None, command=held["command"])
    if rejection:
        yield Trouble("the newest revision", rejection, None, command="reconciler validate")
    told = set()
    for incident in reversed(snapshot.incidents):
        if incident["open"]:
            told.add(incident["object"])
            yield Trouble(
                incident["object"],
                incident["summary"],
                incident["openedAt"],
                incident["doing"],
                incident["person"],
                link=f"/incidents/{incident['id']}",
            )
    for each in snapshot.objects:
        name = f"{each['kind'].lower()}/{each['metadata']['name']}"
        found = condition(each, "Stalled")
        if found["status"] == "True" and name not in told:
            text, _, person = found["message"].partition("; to do: ")
            yield Trouble(name, text, found["lastTransitionTime"], person=person)


def _headline(snapshot: Snapshot, served: tuple[Served, ...], troubles: tuple[Trouble, ...]) -> str:
    if not snapshot.at:
        return "waiting for the controller"
    if not served:
        return "no model is to be served yet"
    count = sum(each.ready > 0 for each in served)
    text = f"{count} of {len(served)} models served" if len(served) > 1 else ""
    if len(served) == 1:
        text = f"{served[0].name} is served" if count else f"{served[0].name} is not served"
    return text + (f", {len(troubles)} to look at" if troubles else "")


def _worst(states: list[str]) -> str:
    return next((state for state in ("bad", "busy") if state in states), "ready")
