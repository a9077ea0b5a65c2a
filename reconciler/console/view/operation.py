"""The operations in force on an object: their effect, author, beginning, end and reason. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.console.snapshot import Snapshot
from reconciler.resources.verbs import VERBS
from reconciler.wire.objects import Object, StandingOperation

from .acts import CLUSTER, STANDING


@dataclass(frozen=True, slots=True)
class Standing:
    word: str
    """The state of the object, such as ``cordoned``."""
    by: str
    at: str | None
    until: str | None
    """None if it does not end by itself."""
    reason: str


def standing(each: Object) -> tuple[Standing, ...]:
    """Return the effects that the manifest of an object declares itself, then its operations in force."""
    return tuple(_standing(each))


def words(each: Object) -> str:
    """Return the same in few words, for a row; empty if no operation is in force."""
    return ", ".join(dict.fromkeys(found.word for found in standing(each)))


def commits_wait(snapshot: Snapshot) -> bool:
    """Return whether new commits are suspended, even if none waits yet."""
    return any(
        found["spec"]["verb"] == "suspend"
        and "{kind}/{name}".format(**found["spec"]["target"]).lower() == CLUSTER
        and found["status"]["standing"] in STANDING
        for found in snapshot.operations
    )


def _standing(each: Object) -> Iterator[Standing]:
    spec = each["spec"]
    if each["kind"] == "Node":
        for field, verb in (("drain", "drain"), ("unschedulable", "cordon")):
            if spec.get(field):
                yield Standing(VERBS[verb].word, "the manifest", None, None, "")
    for found in each["status"].get("operations", ()):
        if found["standing"] in STANDING and (word := _word(found)):
            yield Standing(word, found["by"], found.get("at"), found.get("until"), found.get("reason", ""))


def _word(found: StandingOperation) -> str:
    if found["verb"] == "scale":
        return f"scaled to {found['replicas']}" if found["replicas"] else VERBS["stop"].word
    spec = VERBS.get(found["verb"])
    return spec.word if spec is not None else ""
