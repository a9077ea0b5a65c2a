"""Keeps the desired state: the newest revision that is valid, and that removes little or was approved."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from reconciler.admission.jobs import runnable
from reconciler.admission.judge import Incoming, InForce, Live, Manifests, Verdict, judge, judge_again
from reconciler.admission.overlay import overlay
from reconciler.errors import Conflict, Invalid, InvalidManifests, ReconcilerError, Refused, Unreachable
from reconciler.planning.rollout.costs import foresee
from reconciler.resources import Manifest
from reconciler.source.sources import Revision, Source
from reconciler.state import Desired, Hold, Plan, Rejection
from reconciler.state.desired import abbreviated
from reconciler.state.identity import CLUSTER, ObjectKey
from reconciler.state.operations import Operations
from reconciler.state.reports.status import Event
from reconciler.store import EventFilter, Store

from .operations_layer import OperationsLayer, listed

log = logging.getLogger(__name__)

STATES = ("RevisionApplied", "RevisionHeld", "RevisionRejected", "RevisionSuspended", "ChangesHeld")
"""Reasons of events. The newest of these says which revision is in force, and why no newer one is."""
LOOKED_AT = 20
"""The newest events about the cluster, among them that one: operations on the cluster have events too."""
PREFIX_CHARACTERS_MIN = 4


class DesiredState:
    """Reads the source on request, and keeps the last good revision and operations, also over restarts.

    ``tell`` publishes an event. ``serving`` returns those of some objects that serve now.
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
        self._in_force: InForce | None = None
        self._noted: tuple[str, str, Mapping[ObjectKey, Manifest | None], str] = ("", "", {}, "")

    async def refresh(self, hook_at: float | None) -> None:
        """Read the source again. A rejected or held revision is reported, and the one in force stays."""
        await self._recall()
        try:
            revision = await self._source.read()
        except InvalidManifests as error:
            await self._layer.read()
            text = listed(error, others="; list all with: reconciler validate -f DIR")
            await self._reject(text, None)
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
        """Return the time of the next reading of the source: an operation stops applying then, or a sync window lets a
        change in."""
        now, held = self._clock(), self.desired.held_changes
        ends = [self._layer.operations.expiry(now), *(each.until for each in (held.changes if held else ()))]
        return min((end for end in ends if end is not None and end > now), default=None)

    @property
    def operations(self) -> Operations:
        """Return the newest valid operations."""
        return self._layer.operations

    async def judge(self, incoming: Incoming, operations: Operations | None = None) -> Verdict:
        """Return the verdict on a revision now, or with other operations if these are given."""
        in_force = await self._remembered()
        return judge(in_force, incoming, operations or self.operations, self._live(), self._clock())

    async def judge_again(self, operations: Operations | None = None) -> Verdict:
        """Return the verdict on the revision in force, with the present operations or with others."""
        in_force = await self._remembered()
        return judge_again(in_force, operations or self.operations, self._live(), self._clock())

    def after(self, verdict: Verdict, operations: Operations | None = None) -> Desired:
        """Return the desired state that follows from a verdict, with the operations in force, or with others."""
        found, laid = verdict.in_force, operations or self.operations
        desired = (
            Desired("") if found is None else self.with_operations(found.revision, found.manifests, laid)
        )
        return replace(
            desired,
            hold=verdict.hold,
            suspended=verdict.suspended,
            held_changes=verdict.held,
            operations_rejection=self._layer.rejection,
        )

    def with_operations(self, revision: str, manifests: Manifests, operations: Operations) -> Desired:
        """Return the desired state of manifests with operations laid over them."""
        overlaid = overlay(manifests.values(), operations.items, self._clock())
        desired = Desired.of(revision, overlaid.manifests)
        return replace(desired, operations=operations.revision, effects=overlaid.effects)

    async def allowed(self, revision: str) -> Collection[str]:
        """Return the words by which the commits between the revision in force and another one allow removals and jobs."""
        over = self._store.objects.revision()
        return await self._source.words_allowed(over, revision) if over else ()

    @property
    def runnable(self) -> frozenset[str]:
        """Return marks of the jobs that the revision in force could run, and with it its changes that wait for a window."""
        if self._in_force is None:
            return frozenset()
        return runnable(self._in_force.manifests.values()) | runnable(self._in_force.whole.values())

    def _live(self) -> Live:
        objects = self._store.objects
        keys = objects.keys()
        serving = self._serving(keys)
        return Live(objects.revision() or "", keys, serving, self.runnable, objects.approved())

    async def _recall(self) -> None:
        """Recover the revision in force from the source for a new store: else a held revision would come into force."""
        if self._store.objects.revision() is not None:
            return
        try:
            found = await self._source.last_in_force()
        except (ReconcilerError, OSError) as error:
            log.warning("cannot read which revision was in force: %s", error)
            return
        if found is not None:
            in_force = InForce.of(found.id, _objects(found), found.kept)
            desired = Desired.of(found.id, in_force.manifests.values())
            self._store.objects.apply(desired, self._clock(), found.kept)

    async def record_in_force(self) -> None:
        """Note the revision in force with the source, in case the store is lost; nothing waits for this."""
        kept, folder = (self._in_force.kept, self._in_force.folder) if self._in_force else ({}, "")
        found = self.desired.revision, self.desired.operations, kept, folder
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
        runs = [str(each) for each in hold.runs] if hold and held else []
        return {"revision": revision, "removes": removes, "runs": runs, "again": again}

    async def _judge(self, revision: Revision, hook_at: float | None) -> None:
        """Bring the allowed part of a revision into force, and say so once."""
        incoming = Incoming(revision.id, _objects(revision), revision.folder)
        before, was = await self._remembered(), self.desired
        verdict = await self.judge(incoming)
        if verdict.removal.unsaid or verdict.runs:
            verdict = await self.judge(replace(incoming, allowed=await self.allowed(revision.id)))
        newer = before is None or (revision.id, revision.folder) != (before.revision, before.folder)
        self._put(verdict)
        self._publish_kept_out(was)
        if verdict.kept_out:
            return
        kept_out = was.rejection or was.hold or was.suspended or was.held_changes
        came = verdict.suspended is None and self.desired.revision == revision.id
        if came and (newer or (verdict.held is None and (kept_out or not was.revision))):
            text = f"{self._source.describe()} is at {abbreviated(self.desired.revision)}"
            self._publish_once("RevisionApplied", text, hook_at=hook_at)
        if verdict.held is not None:
            beside = "RevisionSuspended" if verdict.suspended else ""
            self._publish_once("ChangesHeld", verdict.held.text, beside=beside)

    async def _remembered(self) -> InForce | None:
        """Return the revision in force; after a start, from the source, else as the store has it."""
        revision = self._store.objects.revision()
        if self._in_force is None and revision is not None:
            try:
                read = await self._source.at(revision)
            except (ReconcilerError, OSError) as error:
                log.warning("cannot read the revision in force: %s", error)
                read = None
            kept = self._store.objects.kept()
            if read is not None:
                self._in_force = InForce.of(revision, _objects(read), kept, read.folder)
            elif (stored := self._store.objects.in_force()) is not None:
                self._in_force = InForce.of(revision, stored.objects(), kept)
        return self._in_force

    def _put(self, verdict: Verdict, rejection: Rejection | None = None) -> None:
        """Bring a verdict into force, with the operations."""
        before, found = self.desired, self.after(verdict)
        if verdict.in_force is None:
            found = replace(
                before,
                hold=found.hold,
                suspended=None,
                held_changes=None,
                operations_rejection=self._layer.rejection,
            )
        else:
            self._in_force, kept = verdict.in_force, verdict.in_force.kept
            same = found.revision == before.revision and found.objects() == before.objects()
            known = same and kept == self._store.objects.kept()
            applied = before if known else self._store.objects.apply(found, self._clock(), kept)
            found = replace(found, generations=applied.generations, created=applied.created)
        found = replace(found, rejection=rejection)
        if found != before:
            self._tell_changes(before, found)
            self.desired = found

    def _tell_changes(self, before: Desired, after: Desired) -> None:
        """Publish the kind of change of each deployment: in place, a restart, new weights."""
        if not before.revision:
            return
        for cost in foresee(before, after, self._store.groups(), Plan()):
            key = ObjectKey("ModelDeployment", cost.deployment)
            self._tell(Event(self._clock(), key, False, "DeploymentChanged", cost.what))

    def _publish_kept_out(self, was: Desired) -> None:
        """Publish why a newer revision is not in force, if the reason has changed."""
        now = self.desired
        if now.suspended is not None and was.suspended != now.suspended:
            beside = "ChangesHeld" if now.held_changes else ""
            self._publish_once("RevisionSuspended", now.suspended.text, beside=beside)
        if now.hold is not None and was.hold != now.hold:
            text = f"{now.hold.text} (the previous revision stays in force)"
            self._publish_once("RevisionHeld", text, warning=True)
        if now.rejection is not None and was.rejection != now.rejection:
            text = f"{now.rejection.line} (the previous revision stays in force)"
            self._publish_once("RevisionRejected", text, warning=True)

    async def _reject(self, text: str, hold: Hold | None) -> None:
        was = self.desired
        self._put(replace(await self.judge_again(), hold=hold), Rejection(text))
        self._publish_kept_out(was)

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

        ``beside``: the reason of another event that, together with this one, says what is in force.
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


def _objects(revision: Revision) -> Manifests:
    return Desired.of(revision.id, (document.manifest for document in revision.documents)).objects()


def _not_held(prefix: str, hold: Hold | None, matching: int) -> str:
    if hold is None:
        return f"no revision is held, and no approved revision in force begins with {prefix!r}"
    if matching > 1:
        return f"{prefix!r} matches more than one revision; for the held one: {hold.command}"
    return (
        f"expected the held revision, with at least {PREFIX_CHARACTERS_MIN} characters, "
        f"got {prefix!r}: {hold.command}"
    )
