"""The verbs of operations. Each has one row, which command line, console, controller and admission read. To add a verb, add
a row here and a command.

Does not import pydantic, so that shell completion stays fast.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

NODE, DEPLOYMENT, JOB, CLUSTER_KIND, REVISION_KIND = "Node", "ModelDeployment", "Job", "Cluster", "Revision"
UNDO = "undo"
"""The command that ends operations by their names."""

Sets = Callable[[Any, Any], Mapping[str, Any]]
"""From the spec of an object and that of an operation to other values of the object's fields."""


@dataclass(frozen=True, slots=True)
class VerbSpec:
    """One verb."""

    kinds: tuple[str, ...]
    """The kinds of objects that it applies to."""
    value: str | None = None
    """The field of ``OperationSpec`` that this verb needs, and no other may have."""
    explained: bool = False
    """True if it needs a reason and an end."""
    sets: Sets | None = None
    """The fields of its object that it lays over the manifest; None if it is laid over no single object."""
    ended_by: str = UNDO
    """The command that ends it; empty for a momentary effect, which nobody has to end."""
    word: str = ""
    """The state of its object while it is in force, such as ``cordoned``; empty if the console does not show it."""
    windowed: bool = False
    """True if sync windows may refuse it."""
    means: str = ""
    """Its effect, in a sentence; empty if the console does not offer it."""


def _restarted(wish: Any, asked: Any) -> Mapping[str, Any]:
    return {"restarted_at": _later(wish.restarted_at, asked)}


def _later(wish: str | None, asked: Any) -> str:
    """Return a value of `restartedAt` that changes when the wish or the operation changes."""
    written: str = asked.written_at
    if wish is None:
        return written
    try:
        wished = datetime.fromisoformat(wish).timestamp()
    except ValueError:  # people may write any text
        return f"{written} {hashlib.sha256(wish.encode()).hexdigest()[:12]}"
    return wish if wished >= asked.at else written


def _cancelled(wish: Any, asked: Any) -> Mapping[str, Any]:
    return {"cancelled_run": max(asked.run, wish.cancelled_run or 0)}


def _resumed(wish: Any, asked: Any) -> Mapping[str, Any]:
    """Return the fields by which changes go on; canaries from before the operation need not serve any longer."""
    strategy, canary = wish.strategy, wish.strategy.canary
    if canary is not None and (
        not canary.resumed_at or datetime.fromisoformat(canary.resumed_at).timestamp() < asked.at
    ):
        resumed = canary.model_copy(update={"resumed_at": asked.written_at})
        strategy = strategy.model_copy(update={"canary": resumed})
    return {"paused": False, "strategy": strategy}


VERBS: Mapping[str, VerbSpec] = {
    "suspend": VerbSpec(
        (CLUSTER_KIND, DEPLOYMENT, "Model", NODE, JOB),
        "manifest",
        ended_by="resume",
        word="suspended",
        means="Changes of the manifest wait. Running groups are still observed and healed.",
    ),
    "stop": VerbSpec((CLUSTER_KIND,), ended_by="start", word="stopped"),
    "cordon": VerbSpec(
        (NODE,),
        sets=lambda *_: {"unschedulable": True},
        ended_by="uncordon",
        word="cordoned",
        windowed=True,
        means="No new rank is placed there. Running ranks continue.",
    ),
    "drain": VerbSpec(
        (NODE,),
        sets=lambda *_: {"unschedulable": True, "drain": True},
        ended_by="uncordon",
        word="drained",
        windowed=True,
        means="All ranks move to other machines, or end where there are none.",
    ),
    "reboot": VerbSpec(
        (NODE,),
        "boot",
        sets=lambda _, asked: {"reboot_from": asked.boot},
        word="to be rebooted",
        windowed=True,
    ),
    "restart": VerbSpec(
        (DEPLOYMENT, JOB),
        sets=_restarted,
        ended_by="",
        windowed=True,
        means="Every group of a deployment is formed again, as its strategy allows. A job runs once more.",
    ),
    "cancel": VerbSpec(
        (JOB,),
        "run",
        sets=_cancelled,
        ended_by="",
        means="The run ends, and does not begin again. A schedule goes on.",
    ),
    "scale": VerbSpec(
        (DEPLOYMENT,),
        "replicas",
        sets=lambda _, asked: {"replicas": asked.replicas},
        windowed=True,
        means="The deployment gets this number of replicas; with 0 it is stopped, and its manifest stays.",
    ),
    "pause": VerbSpec((DEPLOYMENT,), sets=lambda *_: {"paused": True}, word="rollout paused"),
    "resume": VerbSpec((DEPLOYMENT,), sets=_resumed),
    "approve": VerbSpec(
        (REVISION_KIND,),
        "over",
        ended_by="",
        means="The held revision comes into force, and what it removes ends.",
    ),
    "override": VerbSpec(("SyncWindow",), explained=True),
}
"""Every verb, in the order in which operations are laid over the manifests."""
KEEPS_OFF = tuple(verb for verb, spec in VERBS.items() if spec.ended_by == "uncordon")
"""Verbs that keep new ranks off a node."""
WINDOWED = tuple(verb for verb, spec in VERBS.items() if spec.windowed)


@dataclass(frozen=True, slots=True)
class Act:
    """A request to the controller that begins an operation, or ends one."""

    kinds: tuple[str, ...]
    """The kinds of objects that it may have."""
    means: str
    """Its effect, in a sentence."""
    ends: bool = False
    """True if it may end by itself after a time."""
    counts: bool = False
    """True if it takes a number of replicas."""


ACTS: Mapping[str, Act] = {
    **{
        verb: Act(spec.kinds, spec.means, bool(spec.ended_by), spec.value == "replicas")
        for verb, spec in VERBS.items()
        if spec.means
    },
    "uncordon": Act((NODE,), "The machine is used again."),
    "resume": Act(VERBS["suspend"].kinds, "Changes of the manifest apply again."),
    UNDO: Act(("Operation", DEPLOYMENT, "Model", NODE, "Fabric"), "A new commit takes the change back."),
}
"""The requests by their verbs. The right to operate must not grant other rights: only the command brings back earlier keys
and earlier settings of a Gateway."""


def words_for(kinds: tuple[str, ...], kind: str, name: str) -> str:
    """Return the words for an object in a command for ``kinds``; empty for a command for the whole cluster alone."""
    if kind == CLUSTER_KIND:
        return "" if kinds == (CLUSTER_KIND,) else "--all"
    return name if kinds == (NODE,) or kind == "Operation" else f"{kind.lower()}/{name}"
