"""The content of the pages of commits: the author, the changed objects, the state, and the events that followed. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.console.snapshot import Snapshot
from reconciler.wire import answers
from reconciler.wire.objects import Object

from .acts import Act, act, title

DID_MAX = 30
"""Most events to show for a commit."""
OBJECTS_SHOWN = 4
STATES = {
    "InForce": ("ready", "in force"),
    "Held": ("busy", "held"),
    "Suspended": ("busy", "waits: suspended"),
    "Unread": ("busy", "not read yet"),
    "Rejected": ("bad", "refused"),
    "Earlier": ("plain", "earlier"),
}
MARKS = {"+": "added", "-": "removed", "@": "place"}
WHOLE = ("cluster/main",)


@dataclass(frozen=True, slots=True)
class Touched:
    """An object that a commit changed. ``verb``: of an operation on it; empty for a manifest."""

    object: str
    action: str
    verb: str


@dataclass(frozen=True, slots=True)
class Line:
    commit: answers.Commit
    state: str
    """A class of ``parts.state``."""
    state_text: str
    touched: tuple[Touched, ...]
    more: int
    """Number of further objects that it changed."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff: its sign, its text, and the class that colours it."""

    sign: str
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class File:
    path: str
    action: str
    lines: tuple[DiffLine, ...]
    left_out: int
    """Lines that are not shown; -1 for a file that is too large."""


@dataclass(frozen=True, slots=True)
class Commit:
    line: Line
    shown: answers.ShownCommit
    files: tuple[File, ...]
    acts: tuple[Act, ...]
    """The commands of its ``undo`` that can be done here."""
    did: tuple[answers.EventEntry, ...]
    """Events about its objects, from its coming into force until the next commit that changed one of them."""
    did_left_out: int


@dataclass(frozen=True, slots=True)
class Held:
    """A newer revision that is not in force, and why."""

    revision: str
    """Empty if not known."""
    title: str
    text: str
    removes: tuple[str, ...]
    commands: tuple[str, ...]
    """Commands that let it in, or a part of it; none if it must be changed first."""
    act: Act | None = None


@dataclass(frozen=True, slots=True)
class WaitingChange:
    """A newer manifest of one object that a sync window holds."""

    window: str
    until: str | None
    """None if no such time is near."""
    command: str
    """The command that lets it in now."""


@dataclass(frozen=True, slots=True)
class LastChange:
    commit: answers.Commit
    certain: bool
    """False if the commit changed more objects than are listed: the object may be one of them."""


def history(snapshot: Snapshot) -> tuple[Line, ...]:
    """Return the newest commits, newest first."""
    return tuple(map(_line, snapshot.commits["items"]))


def last_change(snapshot: Snapshot, of: str) -> LastChange | None:
    """Return the newest commit of ``main`` in force that changed an object, ``kind/name`` in lower case, or may have; None
    where none of those that are known has."""
    for item in snapshot.commits["items"]:
        if item["branch"] == "main" and item["state"] in ("InForce", "Earlier"):
            certain = any(each["object"] == of for each in item["objects"])
            if certain or item["objectsLeftOut"]:
                return LastChange(item, certain)
    return None


def held(snapshot: Snapshot) -> tuple[Held, ...]:
    """Return the newer revisions that are not in force."""
    return tuple(_held(snapshot.status))


def _held(status: answers.ControllerStatus) -> Iterator[Held]:
    if held_back := status.get("held"):
        removes = tuple(held_back["removes"])
        title = f"A revision is held: it removes {len(removes)} of {held_back['of']} objects"
        let_in = act("approve", "revision", held_back["revision"])
        yield Held(held_back["revision"], title, held_back["text"], removes, (held_back["command"],), let_in)
    if suspended := status.get("suspended"):
        title = "A revision waits: new commits are suspended"
        if suspended["revision"] == status["revision"]:
            title = "Changes wait: the cluster is suspended"
        let_in = act("resume", "cluster", "main")
        yield Held(suspended["revision"], title, suspended["text"], (), ("reconciler resume --all",), let_in)
    if changes := status.get("heldChanges"):
        windows = tuple(dict.fromkeys(change["window"] for change in changes["changes"]))
        title = f"Changes wait for sync window{'s' if len(windows) > 1 else ''} {', '.join(windows)}"
        yield Held(changes["revision"], title, changes["text"], (), tuple(map(_override, windows)))
    if text := status.get("rejection"):
        yield Held("", "The newest revision is refused", text, (), ())
    if text := status.get("operationsRejection"):
        yield Held("", "The newest operations are refused", text, (), ())


def waiting_change(each: Object | None) -> WaitingChange | None:
    """Return the change of an object that waits; None if there is none."""
    found = each["status"].get("heldBy") if each is not None else None
    if not found:
        return None
    window = found["syncWindow"]
    return WaitingChange(window, found.get("until"), _override(window))


def _override(window: str) -> str:
    return f"reconciler override {window} --reason WHY"


def commit(snapshot: Snapshot) -> Commit | str:
    """Return the commit that the controller was asked for; a text with the reason if there is none."""
    body = snapshot.answer
    if isinstance(body, str):
        return body
    known = (each for each in snapshot.commits["items"] if each["revision"] == body["revision"])
    line = _line(next(known, body))  # what has become of it may be newer there
    did = _did(snapshot, body)
    return Commit(
        line,
        body,
        files_of(body),
        tuple(map(_act, body.get("acts", ()))),
        tuple(did[:DID_MAX]),
        max(0, len(did) - DID_MAX),
    )


def _act(way: answers.Act) -> Act:
    kind = way["kind"].lower()
    label = title(way["verb"].capitalize(), kind, way["name"])
    return act(way["verb"], kind, way["name"], label, to=way["to"])


def files_of(body: answers.ShownCommit | answers.Operated) -> tuple[File, ...]:
    return tuple(
        File(each["path"], each["action"], tuple(map(_diff_line, each["lines"])), each["leftOut"])
        for each in body["files"]
    )


def _line(item: answers.Commit) -> Line:
    touched = tuple(map(_touched, item["objects"]))
    more = item["objectsLeftOut"] + max(0, len(touched) - OBJECTS_SHOWN)
    state, text = STATES.get(item["state"], ("plain", item["state"]))
    return Line(item, state, text, touched[:OBJECTS_SHOWN], more)


def _touched(each: answers.TouchedObject) -> Touched:
    kind, _, name = each["object"].partition("/")
    if kind != "operation":
        return Touched(each["object"], each["action"], "")
    verb, _, target = name.partition(".")
    own, _, called = target.partition(".")
    ended = each["action"] == "removed"
    return Touched(f"{own}/{called}", each["action"], f"end of {verb}" if ended else verb)


def _diff_line(line: str) -> DiffLine:
    kind = MARKS.get(line[:1], "same")
    return DiffLine("", line, kind) if kind == "place" else DiffLine(line[:1], line[1:], kind)


def _did(snapshot: Snapshot, body: answers.Commit) -> list[answers.EventEntry]:
    """Return the events about a commit's objects, oldest first, as far as events are kept."""
    objects = {_touched(each).object for each in body["objects"]}
    begins = _begins(snapshot, body)
    if not begins:
        return []
    ends = _ends(snapshot, body, objects)
    return [
        event
        for event in snapshot.events
        if event["time"] >= begins
        and (not ends or event["time"] < ends)
        and (event["object"] in objects or _speaks_of(event, body["revision"]))
    ]


def _speaks_of(event: answers.EventEntry, revision: str) -> bool:
    return event["object"] in WHOLE and (event["revision"] == revision or revision[:10] in event["message"])


def _begins(snapshot: Snapshot, body: answers.Commit) -> str:
    """Return when a commit came into force; empty if it has not, or if its event is no longer kept."""
    if body["branch"] == "main":
        applied = (e["time"] for e in snapshot.events if e["revision"] == body["revision"])
        return next(applied, "")
    return body["time"]


def _ends(snapshot: Snapshot, body: answers.Commit, objects: set[str]) -> str:
    """Return when the next commit changed one of the objects; empty if none has."""
    later: list[answers.Commit] = []
    for item in snapshot.commits["items"]:  # newest first
        if item["revision"] == body["revision"]:
            break
        if objects & {_touched(each).object for each in item["objects"]}:
            later.append(item)
    return later[-1]["time"] if later else ""
