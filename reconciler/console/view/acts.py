"""The acts that an object has now, and the command that does the same as each. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Set
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from reconciler.resources.verbs import ACTS, KEEPS_OFF, UNDO, VERBS, words_for
from reconciler.wire.objects import JobState, Object

STANDING = frozenset({"InForce", "AgreesWithGit"})
CLUSTER = "cluster/main"


KINDS = {kind.lower(): kind for each in ACTS.values() for kind in each.kinds}
"""Kinds by their words in addresses."""


@dataclass(frozen=True, slots=True)
class Act:
    """A link to the page of an act."""

    verb: str
    label: str
    href: str


def acts_of(each: Object | None) -> tuple[Act, ...]:
    """Return the acts that an object has now."""
    if each is None:
        return ()
    kind, name = each["kind"].lower(), each["metadata"]["name"]
    operations = each["status"].get("operations", ())
    now = {operation["verb"] for operation in operations if operation["standing"] in STANDING}
    return (
        *_numbers(each, name, now),
        *_of_runs(each, name),
        *(act(verb, kind, name) for verb in _verbs(each, now)),
        *(
            act(UNDO, "operation", f"{verb}.{kind}.{name}", label=f"Undo {verb}")
            for verb, spec in VERBS.items()
            if verb in now and spec.ended_by == UNDO
        ),
    )


def act(verb: str, kind: str, name: str, label: str = "", **fields: str) -> Act:
    """Return the link to an act. ``kind`` is in lower case. ``fields``: the fields of its form that are known."""
    typed = {field: value for field, value in fields.items() if value}
    query = f"?{urlencode(typed)}" if typed else ""
    return Act(verb, label or verb.capitalize(), f"/act/{verb}/{kind}/{quote(name, safe='')}{query}")


def replicas_of(each: Object | None) -> int | None:
    """Return the number of replicas of a deployment now; None if it is not known."""
    return each["spec"].get("replicas") if each is not None and each["kind"] == "ModelDeployment" else None


def label(verb: str, replicas: str, present: int | None) -> str:
    """Return the text of a button; with a number of replicas, its effect on a deployment that has ``present`` of them."""
    if ACTS[verb].counts and replicas == "0":
        return "Stop"
    return "Start" if ACTS[verb].counts and replicas and present == 0 else verb.capitalize()


def _numbers(each: Object, name: str, now: Set[str]) -> Iterator[Act]:
    """Yield the acts that change the number of replicas. A deployment that an operation has stopped starts when that ends."""
    if each["kind"] != "ModelDeployment":
        return
    kind, present = each["kind"].lower(), replicas_of(each)
    yield act("scale", kind, name)
    if present:
        yield act("scale", kind, name, label="Stop", replicas="0")
    elif "scale" not in now:
        yield act("scale", kind, name, label="Start", replicas="1")


def _of_runs(each: Object, name: str) -> Iterator[Act]:
    """Yield the acts on the runs of a job. The newest run can be cancelled until it has ended."""
    if each["kind"] != "Job":
        return
    newest = each["status"].get("runs", [])[-1:]
    for run in newest:
        if run["state"] not in JobState.ENDED:
            yield act("cancel", "job", name, label=f"Cancel run {run['run']}", run=str(run["run"]))
    yield act("restart", "job", name, label="Run again" if newest else "")


def _verbs(each: Object, now: Set[str]) -> Iterator[str]:
    if each["kind"] == "Node":
        spec = each["spec"]
        kept_off = not now.isdisjoint(KEEPS_OFF) or spec.get("unschedulable") or spec.get("drain")
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
    **options: str,
) -> str:
    """Return the command that does the same. ``hours``: a duration such as ``2h``; empty for no end. ``options``: values of
    further options, such as ``to_revision``; empty for those that are left out."""
    of = words_for(ACTS[verb].kinds, KINDS[kind], name)
    rolls = (verb == "restart" and kind != "job") or (verb == "undo" and kind != "operation")
    words = ["reconciler", *["rollout"] * rolls, verb, name[:10] if kind == "revision" else of]
    words += [f"--replicas={replicas or 'N'}"] if ACTS[verb].counts else []
    words += [f"--{option.replace('_', '-')}={value}" for option, value in options.items() if value]
    words += ["-m" if rolls and verb == "undo" else "--reason", reason] if reason else []
    words += ["--for", hours] if hours else []
    words += ["--force"] if force else []
    return shlex.join(words)
