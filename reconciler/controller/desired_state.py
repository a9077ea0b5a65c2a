"""Keeps the desired state: the newest revision that is valid, and that removes little or was approved."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from reconciler.errors import Conflict, Invalid, InvalidManifests, ReconcilerError, Refused, Unreachable
from reconciler.planning import safety
from reconciler.planning.rollout.costs import foresee
from reconciler.resources import Manifest
from reconciler.source.sources import Revision, Source
from reconciler.state import Desired, Hold, Plan, Rejection
from reconciler.state.desired import Suspended, abbreviated
from reconciler.state.identity import CLUSTER, ObjectKey
from reconciler.state.overlay import Operations, overlay
from reconciler.state.reports.status import Event
from reconciler.state.sync_windows import Admitted, HeldChanges, admit
from reconciler.store import EventFilter, Store

from .operations_layer import OperationsLayer

log = logging.getLogger(__name__)

PROBLEMS_SHOWN_MAX = 20
STATES = ("RevisionApplied", "RevisionHeld", "RevisionRejected", "RevisionSuspended", "ChangesHeld")
"""Reasons of events of which the newest says what is in force, and why no newer revision is."""
LOOKED_AT = 20
"""Newest events about the cluster among which that one is: operations on it have events too."""
PREFIX_CHARACTERS_MIN = 4


class DesiredState:
    """Reads the source on request, and keeps the last good revision and operations, also over restarts.

    ``tell`` publishes an event. ``serving`` returns which of some objects serve now.
    """

    def __init__(
        self,
        source: Source,
        store: Store,
        clock: Callable[[], float],
        tell: Callable[[Event], None],
        serving: Callable[[Collection[ObjectKey]], Collection[ObjectKey]],
    ) -> None:
        self._serving = serving
        self._source = source
        self._store = store
        self._clock = clock
        self._tell = tell
        self._layer = OperationsLayer(source, clock, tell)
        self.desired = Desired(revision="")
        self._wishes: Admitted | None = None
        """The part of the revision that is in force, without operations."""
        self._whole = Desired(revision="")
        """The same revision with what sync windows keep out of it."""
        self._folder = ""
        """Folder of the commit that has its manifests; empty for all of it."""
        self._noted: tuple[str, str, Mapping[ObjectKey, Manifest | None], str] = ("", "", {}, "")

    async def refresh(self, hook_at: float | None) -> None:
        """Read the source again. A rejected or held revision is reported, and the one in force stays."""
        await self._recall()
        try:
            revision = await self._source.read()
        except InvalidManifests as error:
            await self._layer.read()
            await self._reject(_listed(error), None)
        except (Invalid, Unreachable, Conflict, OSError) as error:  # nor can the operations be read
            await self._reject(f"the source cannot be read: {error}", self.desired.hold)
        else:
            await self._layer.read()
            if not (revision.refused and revision.id == self.desired.revision):
                await self._judge(revision, hook_at)
            if revision.refused:
                await self._reject(revision.refused, self.desired.hold)
        self._layer.report(self.desired.effects)

    def expiry(self) -> float | None:
        """Return the time at which an operation stops applying, or a sync window lets a change in, so that the source has
        to be read again."""
        now, held = self._clock(), self.desired.held_changes
        ends = [self._layer.operations.expiry(now), *(each.until for each in (held.changes if held else ()))]
        return min((end for end in ends if end is not None and end > now), default=None)

    def with_operations(self, wishes: Desired, operations: Operations | None = None) -> Desired:
        """Return a desired state with the operations in force, or with others, laid over it."""
        laid = operations or self._layer.operations
        overlaid = overlay(wishes.objects().values(), laid.items, self._clock())
        return replace(
            Desired.of(wishes.revision, overlaid.manifests),
            operations=laid.revision,
            effects=overlaid.effects,
            operations_rejection=self._layer.rejection,
        )

    async def _recall(self) -> None:
        """Recover the revision in force from the source for a new store: else a held revision would come into force."""
        if self._store.objects.revision() is not None:
            return
        try:
            kept = await self._source.last_in_force()
        except (ReconcilerError, OSError) as error:
            log.warning("cannot read which revision was in force: %s", error)
            return
        if kept is not None:
            in_force = _merged(_desired(kept), kept.kept)
            self._store.objects.apply(Desired.of(kept.id, in_force), self._clock(), kept.kept)

    async def record_in_force(self) -> None:
        """Note the revision in force with the source, in case the store is lost; nothing waits for this."""
        kept = self._wishes.kept if self._wishes is not None else {}
        found = self.desired.revision, self.desired.operations, kept, self._folder
        if not found[0] or found == self._noted:
            return
        self._store.verify()
        try:
            await self._source.record_in_force(*found)
        except (ReconcilerError, OSError) as error:
            log.warning("cannot note the revision in force: %s", error)
            return
        self._noted = found

    def approve(self, prefix: str, by: str) -> dict[str, Any]:
        """Approve a held revision. It comes into force at the next read, if the source is still at it.

        Raises ``Refused`` if no held revision begins with ``prefix``, and names the held one.
        """
        hold = self.desired.hold
        known = self._store.objects.approved() | ({hold.revision} if hold else set())
        matching = [name for name in known if name.startswith(prefix)]
        if len(prefix) < PREFIX_CHARACTERS_MIN or len(matching) != 1:
            raise Refused("NotHeld", _not_held(prefix, hold, len(matching)))
        (revision,) = matching
        held = hold is not None and hold.revision == revision
        again = revision in self._store.objects.approved()
        if not again:
            self._store.objects.approve(revision, self._clock(), by)
            self._publish_once("RevisionApproved", f"{abbreviated(revision)} was approved by {by}")
        removes = [str(key) for key in hold.removes] if hold and held else []
        return {"revision": revision, "removes": removes, "again": again}

    async def _judge(self, revision: Revision, hook_at: float | None) -> None:
        before, wishes = await self._in_force(), _desired(revision)
        newer = before is None or (revision.id, revision.folder) != (before.revision, self._folder)
        suspended = self.suspended(revision.id) if before is not None else None
        if newer and before is not None and suspended is not None:
            self._suspend(before, suspended, self._admit(self._whole, before).held)
            return
        hold = await self._held(self.with_operations(wishes)) if newer else None
        if hold is not None:
            await self._hold(hold)
            return
        admitted = self._admit(wishes, before)
        held = admitted.held
        if before is not None and suspended is not None and _lets_in(admitted, before):
            self._suspend(before, suspended, held)
        elif admitted.nothing:
            self._put(before, held=held)
        else:
            was = self.desired
            kept_out = was.rejection or was.hold or was.suspended or was.held_changes
            self._whole, self._folder = wishes, revision.folder
            self._put(admitted, held=held)
            if newer or (held is None and (kept_out or not was.revision)):
                self._publish_in_force(hook_at)
        if held is not None:
            self._publish_once(
                "ChangesHeld", held.text, beside="RevisionSuspended" if self.desired.suspended else ""
            )

    def _admit(
        self, wishes: Desired, before: Admitted | None, operations: Operations | None = None
    ) -> Admitted:
        """Return what comes into force of a revision after ``before``, as the sync windows have it now."""
        if before is None:
            return Admitted(wishes.revision, tuple(wishes.objects().values()))
        now, in_force = self._clock(), Desired.of(before.revision, before.manifests).objects()
        overridden = (operations or self._layer.operations).overridden(now)
        return admit(wishes.revision, in_force, wishes.objects(), overridden, now)

    @property
    def operations(self) -> Operations:
        """Return the newest valid operations."""
        return self._layer.operations

    async def still(self, operations: Operations) -> Desired:
        """Return what would be in force with other operations, and the manifests that are in force."""
        admitted = await self._still_in_force(operations)
        if admitted is None:
            return Desired(revision="")
        found = self.with_operations(Desired.of(admitted.revision, admitted.manifests), operations)
        return replace(found, held_changes=admitted.held)

    async def foreseen(self, wishes: Desired, operations: Operations | None = None) -> Desired:
        """Return what would be in force with other manifests, and with other operations where these are given."""
        admitted = self._admit(wishes, await self._in_force(), operations)
        found = self.with_operations(Desired.of(wishes.revision, admitted.manifests), operations)
        return replace(found, held_changes=admitted.held)

    def suspended(self, revision: str, operations: Operations | None = None) -> Suspended | None:
        """Return the operation that keeps a revision out for now, or what sync windows have held of the one in force, if
        there is one."""
        suspension = (operations or self._layer.operations).suspension(self._clock())
        rest = self._wishes is not None and self._wishes.revision == revision
        return None if suspension is None else Suspended(revision, suspension, rest)

    def removal(self, incoming: Desired, said: Collection[str] | None) -> safety.Removal:
        """Judge what a revision removes, with the operations in force laid over it. ``said``: ``safety.removal``."""
        keys = self._store.objects.keys()
        return safety.removal(keys, incoming.objects(), self._serving(keys), said)

    def hold(self, revision: str, removal: safety.Removal) -> Hold | None:
        """Return why a newer revision is held; None if it is not."""
        over = self._store.objects.revision()
        approved = self._store.objects.approved() | self._layer.operations.approved(over, self._clock())
        return safety.hold(revision, removal, approved, over or "")

    async def said(self, revision: str) -> Collection[str]:
        """Return what the commits between the revision in force and another one allow to remove."""
        over = self._store.objects.revision()
        return await self._source.removals_allowed(over, revision) if over else ()

    async def _held(self, incoming: Desired) -> Hold | None:
        removal = self.removal(incoming, ())
        if removal.unsaid:
            removal = self.removal(incoming, await self.said(incoming.revision))
        return self.hold(incoming.revision, removal)

    async def _in_force(self) -> Admitted | None:
        """Return the revision in force without operations; after a start, from the source, else as the store has it."""
        revision = self._store.objects.revision()
        if self._wishes is None and revision is not None:
            try:
                read = await self._source.at(revision)
            except (ReconcilerError, OSError) as error:
                log.warning("cannot read the revision in force: %s", error)
                read = None
            whole = _desired(read) if read is not None else self._store.objects.in_force()
            if whole is not None:
                kept = self._store.objects.kept()
                self._wishes = Admitted(revision, _merged(whole, kept), None, kept)
                self._whole, self._folder = whole, read.folder if read is not None else ""
        return self._wishes

    async def _still_in_force(self, operations: Operations | None = None) -> Admitted | None:
        """Return the revision in force, with what sync windows let in of it by now; nothing while the cluster is
        suspended. ``operations``: those that decide in place of the present ones."""
        before = await self._in_force()
        if before is None:
            return None
        admitted = self._admit(self._whole, before, operations)
        if self.suspended(before.revision, operations) is not None and _lets_in(admitted, before):
            return replace(before, held=admitted.held)
        return admitted

    def _put(
        self,
        wishes: Admitted | None,
        rejection: Rejection | None = None,
        hold: Hold | None = None,
        suspended: Suspended | None = None,
        held: HeldChanges | None = None,
    ) -> Desired:
        """Let a revision be in force, with the operations; return what was in force before."""
        before = self.desired
        self._wishes = wishes
        found = before
        if wishes is not None:
            found = self.with_operations(Desired.of(wishes.revision, wishes.manifests))
            same = found.revision == before.revision and found.objects() == before.objects()
            known = same and wishes.kept == self._store.objects.kept()
            applied = before if known else self._store.objects.apply(found, self._clock(), wishes.kept)
            found = replace(
                applied,
                operations=found.operations,
                effects=found.effects,
            )
        found = replace(
            found,
            rejection=rejection,
            hold=hold,
            suspended=suspended,
            held_changes=held,
            operations_rejection=self._layer.rejection,
        )
        if found != before:
            self._tell_changes(before, found)
            self.desired = found
        return before

    def _tell_changes(self, before: Desired, after: Desired) -> None:
        """Publish of each deployment what a change is: in place, a restart, new weights."""
        if not before.revision:
            return
        for cost in foresee(before, after, self._store.groups(), Plan()):
            key = ObjectKey("ModelDeployment", cost.deployment)
            self._tell(Event(self._clock(), key, False, "DeploymentChanged", cost.what))

    def _suspend(self, wishes: Admitted, suspended: Suspended, held: HeldChanges | None = None) -> None:
        before = self._put(wishes, suspended=suspended, held=held)
        if before.suspended != suspended:
            self._publish_once("RevisionSuspended", suspended.text, beside="ChangesHeld" if held else "")

    async def _hold(self, hold: Hold) -> None:
        wishes = await self._still_in_force()
        before = self._put(wishes, hold=hold, held=wishes.held if wishes else None)
        if before.hold != hold:
            self._publish_once(
                "RevisionHeld", f"{hold.text} (the previous revision stays in force)", warning=True
            )

    async def _reject(self, text: str, hold: Hold | None) -> None:
        rejection = Rejection(text)
        wishes = await self._still_in_force()
        before = self._put(wishes, rejection, hold, held=wishes.held if wishes else None)
        if before.rejection != rejection:
            self._publish_once(
                "RevisionRejected", f"{rejection.line} (the previous revision stays in force)", warning=True
            )

    def _publish_in_force(self, hook_at: float | None) -> None:
        text = f"{self._source.describe()} is at {abbreviated(self.desired.revision)}"
        self._publish_once("RevisionApplied", text, hook_at=hook_at)

    def _publish_once(
        self,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        hook_at: float | None = None,
        beside: str = "",
    ) -> None:
        """Publish an event about the manifests once; a restart does not repeat it.

        ``beside``: the reason of another event that says what is in force together with this one.
        """
        latest = self._store.events(EventFilter(limit=LOOKED_AT, kind=CLUSTER.kind, name=CLUSTER.name))
        said = [
            (event.reason, event.message)
            for _, event in latest
            if event.reason in STATES and event.reason != beside
        ]
        if said[-1:] == [(reason, message)]:
            return
        revision = "" if warning else self.desired.revision
        self._tell(Event(self._clock(), CLUSTER, warning, reason, message, "", revision, hook_at))


def _desired(revision: Revision) -> Desired:
    return Desired.of(revision.id, (document.manifest for document in revision.documents))


def _merged(whole: Desired, kept: Mapping[ObjectKey, Manifest | None]) -> tuple[Manifest, ...]:
    """Return the manifests of a revision, with what stays as it was before it."""
    return tuple(each for each in {**whole.objects(), **kept}.values() if each is not None)


def _lets_in(admitted: Admitted, before: Admitted) -> bool:
    """Return whether a change comes into force that sync windows have kept out of the same revision."""
    return bool(before.kept) and not admitted.nothing


def _listed(error: InvalidManifests) -> str:
    """Return the first problems; the command line lists all."""
    lines = [str(problem) for problem in error.problems[:PROBLEMS_SHOWN_MAX]]
    hidden = len(error.problems) - len(lines)
    if hidden:
        lines.append(f"and {hidden} more problems; list all with: reconciler validate")
    return "\n".join(lines)


def _not_held(prefix: str, hold: Hold | None, matching: int) -> str:
    if hold is None:
        return f"no revision is held, and no approved revision in force begins with {prefix!r}"
    if matching > 1:
        return f"{prefix!r} matches more than one revision; for the held one: {hold.command}"
    return (
        f"expected the held revision, with at least {PREFIX_CHARACTERS_MIN} characters, "
        f"got {prefix!r}: {hold.command}"
    )
