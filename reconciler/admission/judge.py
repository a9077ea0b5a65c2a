"""Judges revisions, in this order.

1. While the cluster is suspended, no newer revision comes into force, and no change that sync windows have kept out of
   the revision in force.
2. A newer revision that removes much, or a serving object whose removal no commit names, or that could run a job that no
   commit names, is held until it is approved.
3. Sync windows keep changes of single objects out.

A push refuses a deployment that is too large for all nodes, and a preview shows it (``controller/admin/preview.py``,
``beyond_all``). That check needs the facts of machines, which are not known here.

The revision in force is judged like a newer one: windows that have closed or opened, and operations that have ended,
count for it too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from reconciler.resources import Manifest
from reconciler.state import Hold, ObjectKey
from reconciler.state.desired import JobToRun, Suspended
from reconciler.state.held_changes import HeldChanges
from reconciler.state.operations import Operations

from .jobs import new_jobs
from .overlay import overlay
from .removals import Removal, hold, removal
from .windows import admit

Manifests = Mapping[ObjectKey, Manifest]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A revision that may come into force."""

    revision: str
    manifests: Manifests
    folder: str = ""
    """Folder of the commit that has its manifests; empty for the whole commit."""
    allowed: Collection[str] = ()
    """Names of serving objects that it may remove (``removals.removal``), and of jobs that it may run
    (``jobs.new_jobs``)."""
    approved: bool = False
    """Judge it as if somebody had approved it."""


@dataclass(frozen=True, slots=True)
class InForce:
    """A revision in force, without operations."""

    revision: str
    manifests: Manifests
    whole: Manifests
    """The same revision with the changes that sync windows keep out of it."""
    kept: Mapping[ObjectKey, Manifest | None] = field(default_factory=dict)
    """The objects that stay as they were before it; None for a new object that stays out."""
    folder: str = ""

    @classmethod
    def of(
        cls,
        revision: str,
        whole: Manifests,
        kept: Mapping[ObjectKey, Manifest | None],
        folder: str = "",
    ) -> InForce:
        """Return a revision with the objects that sync windows have kept as they were."""
        merged = {key: each for key, each in {**whole, **kept}.items() if each is not None}
        return cls(revision, merged, whole, kept, folder)


@dataclass(frozen=True, slots=True)
class Live:
    """The facts of the running cluster that decide."""

    revision: str = ""
    """The revision in force, even if its manifests are unknown; empty before the first."""
    objects: Collection[ObjectKey] = ()
    """The objects in force, with operations."""
    serving: Collection[ObjectKey] = ()
    """The objects that serve now."""
    runnable: Collection[str] = ()
    """Marks of the jobs that the revision in force could run (``jobs.runnable``)."""
    approved: Collection[str] = ()
    """Approved revisions, in addition to those that operations approve."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The revision that comes into force, and the reasons why its other changes do not."""

    in_force: InForce | None
    """The revision that is then in force: the incoming one, or the one before. None before the first revision."""
    removal: Removal
    suspended: Suspended | None = None
    hold: Hold | None = None
    held: HeldChanges | None = None
    """Changes that sync windows keep out: of the incoming revision, or of the one before if that stays."""
    runs: tuple[JobToRun, ...] = ()
    """Jobs that the incoming revision could run, and that nobody has named. The first revision may run any."""

    @property
    def kept_out(self) -> bool:
        """Return whether the incoming revision stays out as a whole, until somebody approves it or resumes."""
        return self.hold is not None or (self.suspended is not None and not self.suspended.rest)


def judge(
    in_force: InForce | None, incoming: Incoming, operations: Operations, live: Live, now: float
) -> Verdict:
    """Return the verdict on a revision at ``now``, in seconds since the Unix epoch."""
    if in_force is not None and (incoming.revision, incoming.folder) == (in_force.revision, in_force.folder):
        return _let_in(in_force, incoming, operations, Removal((), len(live.objects), (), False), now)
    removes = _removal(incoming, operations, live, now)
    runs = new_jobs(live.runnable, incoming.manifests.values(), incoming.allowed) if live.revision else ()
    return replace(_judge_newer(in_force, incoming, operations, live, now, removes, runs), runs=runs)


def _judge_newer(
    in_force: InForce | None,
    incoming: Incoming,
    operations: Operations,
    live: Live,
    now: float,
    removes: Removal,
    runs: tuple[JobToRun, ...],
) -> Verdict:
    suspension = operations.suspension(now)
    if in_force is not None and suspension is not None:
        stays = _let_in(in_force, _again(in_force), operations, removes, now)
        return replace(stays, suspended=Suspended(incoming.revision, suspension))
    approved = {*live.approved, *operations.approved(live.revision, now)}
    holds = hold(incoming.revision, removes, approved, live.revision, runs)
    if holds is None or incoming.approved:
        return _let_in(in_force, incoming, operations, removes, now)
    if in_force is None:
        return Verdict(None, removes, hold=holds)
    return replace(_let_in(in_force, _again(in_force), operations, removes, now), hold=holds)


def judge_again(in_force: InForce | None, operations: Operations, live: Live, now: float) -> Verdict:
    """Return the verdict on the revision in force, while there is no newer one."""
    if in_force is None:
        return Verdict(None, Removal((), len(live.objects), (), False))
    return judge(in_force, _again(in_force), operations, live, now)


def _again(in_force: InForce) -> Incoming:
    return Incoming(in_force.revision, in_force.whole, in_force.folder)


def _removal(incoming: Incoming, operations: Operations, live: Live, now: float) -> Removal:
    laid = overlay(incoming.manifests.values(), operations.items, now).manifests
    keys = [ObjectKey.of(each) for each in laid]
    return removal(live.objects, keys, live.serving, incoming.allowed)


def _let_in(
    before: InForce | None, incoming: Incoming, operations: Operations, removes: Removal, now: float
) -> Verdict:
    """Return the verdict of the sync windows, and of a suspension that began after the changes that they hold now."""
    if before is None:
        return Verdict(InForce.of(incoming.revision, incoming.manifests, {}, incoming.folder), removes)
    admitted = admit(incoming.revision, before.manifests, incoming.manifests, operations.overridden(now), now)
    suspension = operations.suspension(now)
    if suspension is not None and before.kept and not admitted.nothing:
        rest = Suspended(before.revision, suspension, rest=True)
        return Verdict(before, removes, rest, held=admitted.held)
    if admitted.nothing:
        return Verdict(before, removes, held=admitted.held)
    found = InForce.of(incoming.revision, incoming.manifests, admitted.kept, incoming.folder)
    return Verdict(found, removes, held=admitted.held)
