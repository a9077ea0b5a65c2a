"""Keeps the desired state: the newest revision that is valid, and that removes little or was approved."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reconciler.errors import Conflict, Invalid, InvalidManifests, ReconcilerError, Refused, Unreachable
from reconciler.planning import safety
from reconciler.source.sources import Revision, Source
from reconciler.state import Desired, Hold, Rejection
from reconciler.state.desired import abbreviated
from reconciler.state.identity import CLUSTER
from reconciler.state.reports.status import Event
from reconciler.store import EventFilter, Store

log = logging.getLogger(__name__)

PROBLEMS_SHOWN_MAX = 20
PREFIX_CHARACTERS_MIN = 4


class DesiredState:
    """Reads the source on request, and keeps the last good revision, also over restarts.

    ``tell`` publishes an event.
    """

    def __init__(
        self, source: Source, store: Store, clock: Callable[[], float], tell: Callable[[Event], None]
    ) -> None:
        self._source = source
        self._store = store
        self._clock = clock
        self._tell = tell
        self.desired = Desired(revision="")
        self._kept = ""

    async def refresh(self, hook_at: float | None) -> None:
        """Read the source again. A rejected or held revision is reported, and the one in force stays."""
        await self._recall()
        try:
            revision = await self._source.read()
        except InvalidManifests as error:
            self._reject(_listed(error), None)
        except (Invalid, Unreachable, Conflict, OSError) as error:
            self._reject(f"the source cannot be read: {error}", self.desired.hold)
        else:
            if not (revision.refused and revision.id == self.desired.revision):
                self._judge(revision, hook_at)
            if revision.refused:
                self._reject(revision.refused, self.desired.hold)

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
            self._store.objects.apply(_desired(kept), self._clock())

    async def record_in_force(self) -> None:
        """Note the revision in force with the source, in case the store is lost; nothing waits for this."""
        if self.desired.revision in ("", self._kept):
            return
        self._store.verify()
        try:
            await self._source.record_in_force(self.desired.revision)
        except (ReconcilerError, OSError) as error:
            log.warning("cannot note the revision in force: %s", error)
            return
        self._kept = self.desired.revision

    async def tidy(self) -> None:
        """Remove what killed processes have left in the source, and report it: it may have kept out every push."""
        try:
            removed = await self._source.tidy()
        except (ReconcilerError, OSError) as error:
            log.warning("cannot remove what was left in %s: %s", self._source.describe(), error)
            return
        if removed:
            text = (
                f"removed {', '.join(removed)} from {self._source.describe()}: left by a git that was killed"
            )
            self._tell(Event(self._clock(), CLUSTER, True, "LeftoverRemoved", text))

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

    def _judge(self, revision: Revision, hook_at: float | None) -> None:
        if revision.id == self.desired.revision:
            if self.desired.rejection or self.desired.hold:
                self.desired = replace(self.desired, rejection=None, hold=None)
                self._publish_in_force(hook_at)
            return
        objects = self._store.objects
        incoming = _desired(revision)
        hold = safety.hold(revision.id, objects.keys(), incoming.objects(), objects.approved())
        if hold is not None:
            self._hold(hold)
            return
        self.desired = objects.apply(incoming, self._clock())
        self._publish_in_force(hook_at)

    def _hold(self, hold: Hold) -> None:
        before = self._in_force()
        self.desired = replace(before, rejection=None, hold=hold)
        if before.hold != hold:
            self._publish_once(
                "RevisionHeld", f"{hold.text} (the previous revision stays in force)", warning=True
            )

    def _reject(self, text: str, hold: Hold | None) -> None:
        before = self._in_force()
        rejection = Rejection(text)
        self.desired = replace(before, rejection=rejection, hold=hold)
        if before.rejection != rejection:
            self._publish_once(
                "RevisionRejected", f"{rejection.line} (the previous revision stays in force)", warning=True
            )

    def _in_force(self) -> Desired:
        """Return the desired state in force; after a start, from the store."""
        if self.desired.revision:
            return self.desired
        return self._store.objects.in_force() or self.desired

    def _publish_in_force(self, hook_at: float | None) -> None:
        text = f"{self._source.describe()} is at {abbreviated(self.desired.revision)}"
        self._publish_once("RevisionApplied", text, hook_at=hook_at)

    def _publish_once(
        self, reason: str, message: str, *, warning: bool = False, hook_at: float | None = None
    ) -> None:
        """Publish an event about the manifests once; a restart does not repeat it."""
        latest = self._store.events(EventFilter(limit=1, kind=CLUSTER.kind, name=CLUSTER.name))
        if latest and (latest[0][1].reason, latest[0][1].message) == (reason, message):
            return
        revision = "" if warning else self.desired.revision
        self._tell(Event(self._clock(), CLUSTER, warning, reason, message, "", revision, hook_at))


def _desired(revision: Revision) -> Desired:
    return Desired.of(revision.id, (document.manifest for document in revision.documents))


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
