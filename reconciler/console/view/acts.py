"""Which acts an object has now, and the command that does the same. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from reconciler.console.snapshot import Body

KEEP_OFF = frozenset({"cordon", "drain"})
STANDING = frozenset({"InForce", "AgreesWithGit"})
CLUSTER = "cluster/main"


@dataclass(frozen=True, slots=True)
class Verb:
    """What may be done at once."""

    label: str
    """On the button."""
    means: str
    """What it does, in a sentence."""
    ends: bool = False
    """Whether it may end by itself after a time."""


VERBS = {
    "approve": Verb("Approve", "The held revision comes into force, and what it removes ends."),
    "cordon": Verb("Cordon", "No new rank is placed there. Running ranks go on.", ends=True),
    "uncordon": Verb("Uncordon", "The machine is used again."),
    "drain": Verb("Drain", "All ranks move to other machines, or end where there are none.", ends=True),
    "suspend": Verb(
        "Suspend", "Changes of the manifest wait. What runs is observed and healed as it is.", ends=True
    ),
    "resume": Verb("Resume", "Changes of the manifest apply again."),
    "restart": Verb("Restart", "Every group is formed anew, as the strategy of the deployment allows."),
}
KINDS = {each.lower(): each for each in ("Node", "ModelDeployment", "Model", "Cluster", "Revision")}
"""Kinds by their words in addresses."""


@dataclass(frozen=True, slots=True)
class Act:
    """A link to the page of an act."""

    verb: str
    label: str
    href: str


def acts_of(each: Body | None) -> tuple[Act, ...]:
    """Return what can be done with an object now."""
    if each is None:
        return ()
    kind, name = each["kind"].lower(), each["metadata"]["name"]
    return tuple(act(verb, kind, name) for verb in _verbs(each))


def act(verb: str, kind: str, name: str) -> Act:
    """Return the link to an act. ``kind`` in lower case."""
    return Act(verb, VERBS[verb].label, f"/act/{verb}/{kind}/{quote(name, safe='')}")


def _verbs(each: Body) -> Iterator[str]:
    operations = each["status"].get("operations", ())
    now = {operation["verb"] for operation in operations if operation["standing"] in STANDING}
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


def title(verb: str, kind: str, name: str) -> str:
    """Return what is asked: such as ``Cordon node/a``."""
    of = f"{kind}/{name}"
    if of == CLUSTER:
        return f"{VERBS[verb].label} all new commits"
    return f"{VERBS[verb].label} {f'revision {name[:10]}' if kind == 'revision' else of}"


def command(verb: str, kind: str, name: str, reason: str, hours: str, force: bool) -> str:
    """Return the command that does the same. ``hours``: a duration such as ``2h``; empty for no end."""
    of = {
        "approve": (name[:10],),
        "cordon": (name,),
        "uncordon": (name,),
        "drain": (name,),
    }.get(verb, (f"{kind}/{name}",) if f"{kind}/{name}" != CLUSTER else ("--all",))
    words = ["reconciler", *(("rollout",) if verb == "restart" else ()), verb, *of]
    words += ["--reason", reason] if reason else []
    words += ["--for", hours] if hours else []
    words += ["--force"] if force else []
    return shlex.join(words)
