"""The acts that an object has now, and the command that does the same as each. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Set
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from reconciler.console.snapshot import Body

KEEP_OFF = frozenset({"cordon", "drain"})
STANDING = frozenset({"InForce", "AgreesWithGit"})
UNDONE = ("scale", "pause", "resume", "reboot", "override")
"""Verbs of operations that only ``undo`` ends."""
CLUSTER = "cluster/main"


@dataclass(frozen=True, slots=True)
class Verb:
    """An act without its object."""

    label: str
    """On the button."""
    means: str
    """Its effect, in a sentence."""
    ends: bool = False
    """True if it may end by itself after a time."""
    counts: bool = False
    """True if it takes a number of replicas."""


VERBS = {
    "approve": Verb("Approve", "The held revision comes into force, and what it removes ends."),
    "cordon": Verb("Cordon", "No new rank is placed there. Running ranks continue.", ends=True),
    "uncordon": Verb("Uncordon", "The machine is used again."),
    "drain": Verb("Drain", "All ranks move to other machines, or end where there are none.", ends=True),
    "suspend": Verb(
        "Suspend", "Changes of the manifest wait. Running groups are still observed and healed.", ends=True
    ),
    "resume": Verb("Resume", "Changes of the manifest apply again."),
    "restart": Verb("Restart", "Every group is formed again, as the strategy of the deployment allows."),
    "scale": Verb(
        "Scale",
        "The deployment gets this number of replicas; with 0 it is stopped, and its manifest stays.",
        ends=True,
        counts=True,
    ),
    "undo": Verb("Undo", "A new commit takes the change back."),
}
KINDS = {
    each.lower(): each
    for each in ("Node", "ModelDeployment", "Model", "Fabric", "Cluster", "Revision", "Operation")
}
"""Kinds by their words in addresses."""


@dataclass(frozen=True, slots=True)
class Act:
    """A link to the page of an act."""

    verb: str
    label: str
    href: str


def acts_of(each: Body | None) -> tuple[Act, ...]:
    """Return the acts that an object has now."""
    if each is None:
        return ()
    kind, name = each["kind"].lower(), each["metadata"]["name"]
    operations = each["status"].get("operations", ())
    now = {operation["verb"] for operation in operations if operation["standing"] in STANDING}
    return (
        *_numbers(each, name, now),
        *(act(verb, kind, name) for verb in _verbs(each, now)),
        *(
            act("undo", "operation", f"{verb}.{kind}.{name}", label=f"Undo {verb}")
            for verb in UNDONE
            if verb in now
        ),
    )


def act(verb: str, kind: str, name: str, label: str = "", **fields: str) -> Act:
    """Return the link to an act. ``kind`` is in lower case. ``fields``: the fields of its form that are known."""
    typed = {field: value for field, value in fields.items() if value}
    query = f"?{urlencode(typed)}" if typed else ""
    return Act(verb, label or VERBS[verb].label, f"/act/{verb}/{kind}/{quote(name, safe='')}{query}")


def replicas_of(each: Body | None) -> int | None:
    """Return the number of replicas of a deployment now; None if it is not known."""
    return None if each is None else each["spec"].get("replicas")


def label(verb: str, replicas: str, present: int | None) -> str:
    """Return the text of a button; with a number of replicas, its effect on a deployment that has ``present`` of them."""
    if not VERBS[verb].counts or not replicas:
        return VERBS[verb].label
    if replicas == "0":
        return "Stop"
    return "Start" if present == 0 else VERBS[verb].label


def _numbers(each: Body, name: str, now: Set[str]) -> Iterator[Act]:
    """Yield the acts that change the number of replicas. A deployment that an operation has stopped starts when that ends."""
    if each["kind"] != "ModelDeployment":
        return
    kind, present = each["kind"].lower(), replicas_of(each)
    yield act("scale", kind, name)
    if present:
        yield act("scale", kind, name, label="Stop", replicas="0")
    elif "scale" not in now:
        yield act("scale", kind, name, label="Start", replicas="1")


def _verbs(each: Body, now: Set[str]) -> Iterator[str]:
    if each["kind"] == "Node":
        spec = each["spec"]
        kept_off = now & KEEP_OFF or spec.get("unschedulable") or spec.get("drain")
        if not kept_off:
            yield "cordon"
        if "drain" not in now:
            yield "drain"
        if kept_off:
            yield "uncordon"
    if each["kind"] == "ModelDeployment":
        yield "restart"
    if each["kind"] in ("Node", "ModelDeployment", "Model"):
        yield "resume" if "suspend" in now else "suspend"


def title(label: str, kind: str, name: str) -> str:
    """Return the title of an act, such as ``Cordon node/a``."""
    of = f"{kind}/{name}"
    if of == CLUSTER:
        return f"{label} all new commits"
    if kind == "operation":
        verb, _, target = name.partition(".")
        return f"{label} the {verb} of {target.replace('.', '/', 1)}"
    return f"{label} {f'revision {name[:10]}' if kind == 'revision' else of}"


def command(
    verb: str,
    kind: str,
    name: str,
    reason: str,
    hours: str,
    force: bool,
    replicas: str = "",
    to: str = "",
) -> str:
    """Return the command that does the same. ``hours``: a duration such as ``2h``; empty for no end. ``to``: the commit to
    return to; empty for the one before the last change."""
    alone = verb in ("cordon", "uncordon", "drain") or kind == "operation"
    of = "--all" if f"{kind}/{name}" == CLUSTER else name if alone else f"{kind}/{name}"
    rolls = verb == "restart" or (verb == "undo" and kind != "operation")
    words = ["reconciler", *["rollout"] * rolls, verb, name[:10] if kind == "revision" else of]
    words += [f"--replicas={replicas or 'N'}"] if VERBS[verb].counts else []
    words += [f"--to-revision={to}"] if to else []
    words += ["-m" if rolls and verb == "undo" else "--reason", reason] if reason else []
    words += ["--for", hours] if hours else []
    words += ["--force"] if force else []
    return shlex.join(words)
