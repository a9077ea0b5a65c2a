"""Limits the objects that a revision may remove by itself.

An emptied folder, a branch pushed from the wrong place and a failed merge are all valid manifests, but would stop
models that people use.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from reconciler.resources import PLURALS, SHORT_NAMES
from reconciler.state import Hold, ObjectKey
from reconciler.state.desired import JobToRun
from reconciler.state.identity import WorkloadId

ALL = "*"
"""The word that allows all removals."""
PERCENT_MAX = 30
"""The share of the objects in force that a revision may remove without approval. It may always remove one."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The objects in force that a revision removes, and those whose removal needs permission."""

    removes: tuple[ObjectKey, ...]
    """The removed objects, in the order of kinds and names."""
    of: int
    """Number of objects in force."""
    unsaid: tuple[ObjectKey, ...]
    """Removed objects that serve now, and whose removal nobody has named."""
    much: bool
    """It removes all objects, or more than ``PERCENT_MAX``: it needs an approval, even where all are named."""


def removal(
    in_force: Collection[ObjectKey],
    incoming: Collection[ObjectKey],
    serving: Collection[ObjectKey],
    said: Collection[str],
) -> Removal:
    """Judge the removals if ``incoming`` follows ``in_force``, alike for a push, the loop and a preview.

    ``said``: the names whose removal a commit or its pusher allows, such as ``tiny``, or ``model/tiny`` for one kind
    only; ``ALL`` for all. With nothing in force, nothing can be removed: the first revision of a cluster is never
    held.
    """
    removes = tuple(sorted(set(in_force) - set(incoming)))
    much = bool(removes) and (not incoming or 100 * len(removes) > max(100, PERCENT_MAX * len(in_force)))
    unsaid = tuple(key for key in removes if key in serving and ALL not in said and not _named(key, said))
    return Removal(removes, len(in_force), unsaid, much)


def _named(key: ObjectKey, said: Collection[str]) -> bool:
    words = (word.rpartition("/") for word in said)
    kinds = ("", PLURALS[key.kind], *SHORT_NAMES[key.kind])
    return any(name == key.name and kind.lower() in kinds for kind, _, name in words)


def serving(
    keys: Collection[ObjectKey], workloads: Collection[WorkloadId], gateway: bool
) -> frozenset[ObjectKey]:
    """Return the objects that serve now: deployments with one of these workloads, and a running gateway."""
    served = {workload.key for workload in workloads}
    return frozenset(key for key in keys if key in served or (key.kind == "Gateway" and gateway))


def hold(
    revision: str,
    found: Removal,
    approved: Collection[str],
    over: str = "",
    runs: tuple[JobToRun, ...] = (),
) -> Hold | None:
    """Return why ``revision`` must not replace ``over`` yet; None if it may. ``runs``: the jobs that it would run, and that
    nobody has named."""
    if revision in approved or not (found.unsaid or found.much or runs):
        return None
    removes = found.removes if found.unsaid or found.much else ()
    return Hold(revision, removes, found.of, over, () if found.much else found.unsaid, runs)
