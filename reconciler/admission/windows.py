"""Decides which changes of manifests wait for a sync window. Pure; the clock is an argument.

The beginning or end of a window changes nothing by itself: the manifest in force is compared with the newest one,
object by object. If they differ and the windows in force do not let the change in, the manifest in force stays. Healing
does not ask here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.resources import Manifest, ModelDeployment
from reconciler.resources.operation import Operation
from reconciler.resources.sync_window import SyncWindow
from reconciler.state.held_changes import HeldChange, HeldChanges
from reconciler.state.identity import ObjectKey

STEPS_MAX = 500
"""Most windows in a row to follow, to find the moment at which a change is let in."""
Manifests = Mapping[ObjectKey, Manifest]


@dataclass(frozen=True, slots=True)
class Admitted:
    """The changes of a revision that sync windows hold."""

    held: HeldChanges | None = None
    kept: Mapping[ObjectKey, Manifest | None] = field(default_factory=dict)
    """The objects that stay as they were; None for a new object that stays out."""
    nothing: bool = False
    """True if nothing in it is new, so that the revision before stays in force."""


def admit(
    revision: str, in_force: Manifests, incoming: Manifests, overridden: Iterable[str], now: float
) -> Admitted:
    """Return what is kept out of ``incoming`` at ``now``, in seconds since the Unix epoch.

    The windows of ``in_force`` decide, so that a commit cannot remove the window that holds it. ``overridden``: names
    of windows that let everything in for now.
    """
    if not any(isinstance(each, SyncWindow) for each in in_force.values()):
        return Admitted()  # without a look at each of a thousand objects
    changed = [key for key in {**in_force, **incoming} if in_force.get(key) != incoming.get(key)]
    gate = _Gate(in_force, frozenset(overridden), now)
    found = {key: held for key in changed if (held := gate.held(key, incoming.get(key))) is not None}
    if not found:
        return Admitted()
    _hold_takers(found, changed, in_force, incoming)
    kept = {key: in_force.get(key) for key in found}
    changes = tuple(sorted(found.values(), key=lambda each: each.object))
    return Admitted(HeldChanges(revision, changes), kept, nothing=len(found) == len(changed))


def refused_operations(
    manifests: Manifests, begun: Iterable[Operation], overridden: Collection[str], now: float
) -> list[str]:
    """Return a sentence for each operation that may not begin at ``now``, because of windows among ``manifests``."""
    windows, found = _windows(manifests), []
    for operation in begun:
        target = operation.spec.target
        object = manifests.get(ObjectKey(target.kind, target.name))
        mine = [
            window
            for window in windows
            if object is not None
            and operation.spec.verb in window.spec.operations
            and window.spec.names(object)
        ]
        answer = closed(mine, frozenset(overridden), now)
        if answer is not None:
            held = HeldChange(ObjectKey(target.kind, target.name), *answer)
            what = f"{operation.spec.verb} of {target} is refused by {held.named}{held.end}"
            found.append(f"{what}; to do it now, first: {held.command}")
    return found


def _windows(manifests: Manifests) -> list[SyncWindow]:
    found = (each for each in manifests.values() if isinstance(each, SyncWindow))
    return sorted(found, key=lambda each: each.metadata.name)


def _hold_takers(
    found: dict[ObjectKey, HeldChange],
    changed: Collection[ObjectKey],
    in_force: Manifests,
    incoming: Manifests,
) -> None:
    """Add the changes that give a deployment a name that another deployment keeps, because its own change is held."""
    owners = {name: change for change in found.values() for name in _served_as(in_force.get(change.object))}
    while True:
        takers = {
            key: owner
            for key in changed
            if key not in found
            for name in _served_as(incoming.get(key))
            if (owner := owners.get(name)) is not None
        }
        if not takers:
            return
        for key, owner in takers.items():
            found[key] = HeldChange(key, owner.windows, owner.until)
            owners |= dict.fromkeys(_served_as(in_force.get(key)), found[key])


def _served_as(manifest: Manifest | None) -> tuple[str, ...]:
    """Return the names by which clients ask for a deployment; none for other kinds."""
    if not isinstance(manifest, ModelDeployment):
        return ()
    return (manifest.metadata.name, *manifest.spec.serving.aliases)


class _Gate:
    """The windows in force at one moment."""

    def __init__(self, in_force: Manifests, overridden: frozenset[str], now: float) -> None:
        self._in_force = in_force
        self._overridden = overridden
        self._now = now
        self._windows = _windows(in_force)
        self._answers: dict[tuple[str, ...], tuple[tuple[str, ...], float | None] | None] = {}
        """Answers of ``closed`` by the names of an object's windows."""

    def held(self, key: ObjectKey, incoming: Manifest | None) -> HeldChange | None:
        """Return the held change of an object; None if it comes into force."""
        about = [each for each in (self._in_force.get(key), incoming) if each is not None]
        if key.kind == "Model":
            about += self._users(key.name)
        mine = [
            window
            for window in self._windows
            if key == ("SyncWindow", window.metadata.name) or any(window.spec.names(each) for each in about)
        ]
        names = tuple(window.metadata.name for window in mine)
        if names not in self._answers:
            self._answers[names] = closed(mine, self._overridden, self._now)
        answer = self._answers[names]
        return None if answer is None else HeldChange(key, *answer)

    def _users(self, model: str) -> list[ModelDeployment]:
        """Return the deployments in force that a change of a Model would change too."""
        deployments = (each for each in self._in_force.values() if isinstance(each, ModelDeployment))
        return [each for each in deployments if each.spec.model == model]


def closed(
    windows: Sequence[SyncWindow], overridden: frozenset[str], now: float
) -> tuple[tuple[str, ...], float | None] | None:
    """Return the windows that keep changes out at ``now``, and when they will let them in by themselves; None if they
    already do. To let changes in now, all these windows must be overridden. The time is None if none is near."""
    names: tuple[str, ...] = ()
    while blocker := _blocker(windows, overridden | {*names}, now):
        names += (blocker[0],)
    moment = now
    for _ in range(STEPS_MAX):
        blocker = _blocker(windows, overridden, moment)
        if blocker is None:
            return (names, moment) if names else None
        moment = blocker[1]
        if math.isinf(moment):
            break
    return names, None


def _blocker(
    windows: Sequence[SyncWindow], overridden: frozenset[str], now: float
) -> tuple[str, float] | None:
    """Return a window that keeps changes out, and the time of the next look; None if there is none."""
    for window in windows:
        end = window.spec.end(now)
        if window.spec.kind == "deny" and window.metadata.name not in overridden and end is not None:
            return window.metadata.name, end
    allowing = [window for window in windows if window.spec.kind == "allow"]
    if any(each.metadata.name in overridden or each.spec.is_open(now) for each in allowing):
        return None
    begins = [(each.spec.next_begin(now), each.metadata.name) for each in allowing]
    return (min(begins)[1], min(begins)[0]) if begins else None
