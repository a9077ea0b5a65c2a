"""What was done at once to an object and still stands: who keeps it from what, since when, until when and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.console.snapshot import Body, Snapshot

from .acts import CLUSTER, STANDING

WORDS = {
    "cordon": "cordoned",
    "drain": "drained",
    "suspend": "suspended",
    "pause": "rollout paused",
    "reboot": "to be rebooted",
    "stop": "stopped",
}
"""Of verbs that last. The effect of others is over when it has come."""


@dataclass(frozen=True, slots=True)
class Standing:
    """An operation that is in force."""

    word: str
    """What became of the object: such as ``cordoned``."""
    by: str
    at: str | None
    until: str | None
    """None where it does not end by itself."""
    reason: str


def standing(each: Body) -> tuple[Standing, ...]:
    """Return what stands of what was done to an object; first of all what its manifest says itself."""
    return tuple(_standing(each))


def words(each: Body) -> str:
    """Return the same in as few words as a row has room for; empty where nothing stands."""
    return ", ".join(dict.fromkeys(found.word for found in standing(each)))


def commits_wait(snapshot: Snapshot) -> bool:
    """Return whether new commits are suspended, also where there is none yet that waits."""
    return any(
        found["spec"]["verb"] == "suspend"
        and "{kind}/{name}".format(**found["spec"]["target"]).lower() == CLUSTER
        and found["status"]["standing"] in STANDING
        for found in snapshot.operations
    )


def _standing(each: Body) -> Iterator[Standing]:
    spec = each["spec"]
    if each["kind"] == "Node":
        for field, verb in (("drain", "drain"), ("unschedulable", "cordon")):
            if spec.get(field):
                yield Standing(WORDS[verb], "the manifest", None, None, "")
    for found in each["status"].get("operations", ()):
        if found["standing"] in STANDING and (word := _word(found)):
            yield Standing(word, found["by"], found.get("at"), found.get("until"), found.get("reason", ""))


def _word(found: Body) -> str:
    if found["verb"] == "scale":
        return f"scaled to {found['replicas']}" if found["replicas"] else WORDS["stop"]
    return WORDS.get(found["verb"], "")
