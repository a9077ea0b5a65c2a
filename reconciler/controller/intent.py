"""Desired, as it is in force: the newest revision that is valid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from reconciler.errors import Conflict, Invalid, Unreachable
from reconciler.source.sources import Source
from reconciler.state import Desired, Rejection
from reconciler.state.identity import CLUSTER
from reconciler.state.report import Event
from reconciler.store import Store


class Intent:
    """Reads the source when told to, and keeps the last good revision."""

    def __init__(self, source: Source, store: Store, clock: Callable[[], float]) -> None:
        self._source = source
        self._store = store
        self._clock = clock
        self.desired = Desired(revision="")

    async def refresh(self, hook_at: float | None) -> None:
        """Read the source again. A wrong revision is reported, and the one in force stays."""
        try:
            revision = await self._source.read()
        except Invalid as error:
            self._reject(str(error))
            return
        except (Unreachable, Conflict, OSError) as error:
            self._reject(f"the source cannot be read: {error}")
            return
        if revision.id == self.desired.revision:
            self.desired = replace(self.desired, rejection=None)
            return
        desired = Desired.of(revision.id, (document.manifest for document in revision.documents))
        generations, created = self._store.generations(desired.objects())
        self.desired = replace(desired, generations=generations, created=created)
        self._tell("RevisionApplied", f"{self._source.describe()} is at {_short(revision.id)}", hook_at)

    def _reject(self, text: str) -> None:
        before = self.desired.rejection
        if before is not None and before.text == text:
            return
        self.desired = replace(self.desired, rejection=Rejection(text))
        self._tell("RevisionRejected", f"{text} (what was in force stays in force)", None)

    def _tell(self, reason: str, message: str, hook_at: float | None) -> None:
        warning = reason == "RevisionRejected"
        event = Event(
            at=self._clock(),
            object=CLUSTER,
            warning=warning,
            reason=reason,
            message=message,
            revision="" if warning else self.desired.revision,
            hook_at=hook_at,
        )
        self._store.add_events((event,))


def _short(revision: str) -> str:
    """As git abbreviates commits; other ids are short already."""
    return revision[:10] if len(revision) == 40 else revision
