"""Keeps the cluster repository in order: removes leftovers of killed processes, sets its hooks, and finds damage."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence

from reconciler.errors import ReconcilerError
from reconciler.source.sources import Source
from reconciler.state.identity import CLUSTER
from reconciler.state.reports.status import Event

log = logging.getLogger(__name__)

EXAMINE_SECONDS = 6 * 3600.0
"""Time between two examinations of the repository for damage: each reads all of it."""
ASKED_SECONDS = 20.0
"""Longest examination that a person waits for."""


class RepositoryCare:
    """Looks at the repository once a minute. ``tell`` publishes an event; ``clock`` returns seconds."""

    def __init__(self, source: Source, clock: Callable[[], float], tell: Callable[[Event], None]) -> None:
        self._source = source
        self._clock = clock
        self._tell = tell
        self._examined_at = -math.inf
        self.damage = ""
        """The damage of the repository, for people; empty if none is known."""

    async def look(self) -> None:
        """Write lost files again, remove leftovers, correct the hooks, and, when it is due, examine the repository.
        Report what was done."""
        place = self._source.describe()
        if restored := await self._done(self._source.restore, "restore what is lost of"):
            self._publish(
                "RepositoryRestored", f"wrote {', '.join(restored)} of {place} again: lost or damaged"
            )
        if removed := await self._done(self._source.tidy, "remove what was left in"):
            text = f"removed {', '.join(removed)} from {place}: left by a git that was killed"
            self._publish("LeftoverRemoved", text)
        if mended := await self._done(self._source.mend, "look at the hooks of"):
            text = (
                f"set right {', '.join(mended)} of {place}: git had left the hook out, so that pushes were taken without an"
                " answer; the loop has judged them all the same"
            )
            self._publish("HooksRepaired", text)
        if abs(self._clock() - self._examined_at) >= EXAMINE_SECONDS or self.damage:
            await self._examine(place)

    async def damage_now(self) -> str:
        """Examine the repository for a person who asks. Return its damage; the last known if the repository is too large for
        that."""
        try:
            async with asyncio.timeout(ASKED_SECONDS):
                await self._examine(self._source.describe())
        except TimeoutError:
            log.warning("the examination of %s takes more than %g s", self._source.describe(), ASKED_SECONDS)
        return self.damage

    async def _done(self, act: Callable[[], Awaitable[Sequence[str]]], what: str) -> Sequence[str]:
        try:
            return await act()
        except (ReconcilerError, OSError) as error:
            log.warning("cannot %s %s: %s", what, self._source.describe(), error)
            return ()

    async def _examine(self, place: str) -> None:
        try:
            found = await self._source.examine()
        except (ReconcilerError, OSError) as error:
            log.warning("cannot examine %s: %s", place, error)
            return
        self._examined_at = self._clock()
        before, self.damage = self.damage, found
        if found and found != before:
            text = f"{place} is damaged: {found}; the revision in force stays; what to do: reconciler doctor"
            self._publish("RepositoryDamaged", text)
        elif before and not found:
            self._publish("RepositoryRepaired", f"{place} is not damaged any more", warning=False)

    def _publish(self, reason: str, text: str, warning: bool = True) -> None:
        self._tell(Event(self._clock(), CLUSTER, warning, reason, text))
