"""Looks at the remote regularly, and at once when somebody says that there is something new.

Settings are read before each look: a changed file counts from the next look on. No pass waits for any of this.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from reconciler.errors import Conflict, Deposed, Invalid, ReconcilerError, Refused
from reconciler.resources.git_repository import GitRepositorySpec
from reconciler.source.mirror.looking import Look
from reconciler.source.mirror.settings import load_settings
from reconciler.state.reports.status import Event
from reconciler.wire.gateway import HookSecret

from . import standing as stands
from .standing import Standing

log = logging.getLogger(__name__)

SETTINGS_SECONDS = 5.0
"""Seconds between checks for a remote, as long as none is set."""


class Looking(Protocol):
    """The remote, as ``source.mirror.looking.Remote``. Calls block."""

    def look(self, spec: GitRepositorySpec, known: Look | None, at_once: bool) -> Look: ...

    def configure(self, spec: GitRepositorySpec | None) -> None: ...


class Following:
    """Follows the remote of ``settings``, if there is one.

    ``moved`` is called when ``main`` has moved or when something is refused, with the time at which somebody said that
    there is something new. ``random`` returns a number from 0 to 1.
    """

    def __init__(
        self,
        settings: Path,
        remote: Looking,
        clock: Callable[[], float],
        random: Callable[[], float],
        tell: Callable[[Event], None],
        moved: Callable[[float | None], None],
    ) -> None:
        self._settings = settings
        self._remote = remote
        self._clock = clock
        self._random = random
        self._tell = tell
        self._moved = moved
        self._hurry = asyncio.Event()
        self._said_at: float | None = None
        self._begun = False
        """True if the home's repository agrees with the settings."""
        self.complaint = ""
        """Why the settings cannot be used; empty if they can."""
        self.standing: Standing | None = None
        """The standing of the remote; None if there is none."""
        self.news = asyncio.Event()
        """Set after the next look; then another event takes its place."""
        self.said = asyncio.Event()
        """The same for requested looks."""

    def look_now(self, said_at: float | None = None) -> None:
        """Look at once: somebody says that there is something new."""
        self._said_at = said_at if said_at is not None else self._said_at
        self._hurry.set()

    def refusal(self) -> str:
        """Return why the newest commit of the remote is not in ``main``; empty if it is."""
        return self.standing.refusal if self.standing is not None else ""

    def hook(self) -> HookSecret | None:
        """Return the place of the webhook's secret; None if there is no webhook."""
        receiver = self.standing.spec.receiver if self.standing is not None else None
        if receiver is None:
            return None
        file = str(Path(receiver.secret.file).expanduser()) if receiver.secret.file else ""
        return HookSecret(file, receiver.secret.env or "")

    async def run(self) -> None:
        while True:
            hurried, said_at = self._hurry.is_set(), self._said_at
            self._hurry.clear()
            self._said_at = None
            try:
                seconds = await self._round(hurried, said_at)
            except Deposed:
                raise
            except (ReconcilerError, OSError) as error:
                self._complain(str(error))
                seconds = SETTINGS_SECONDS
            self.news.set()
            self.news = asyncio.Event()
            if hurried:
                self.said.set()
                self.said = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._hurry.wait()

    async def _round(self, hurried: bool, said_at: float | None) -> float:
        """Look once. Return the seconds until the next look."""
        spec = await asyncio.to_thread(load_settings, self._settings)
        self._complain("")
        if not self._begun or spec != (self.standing.spec if self.standing is not None else None):
            await asyncio.to_thread(self._remote.configure, spec)
            self.standing = None if spec is None else Standing(spec, self._clock())
            self._begun = True
            self._moved(None)
            if await asyncio.to_thread(load_settings, self._settings) != spec:
                return 0.0  # somebody has changed them since they were read, and was overwritten
        if self.standing is None:
            return SETTINGS_SECONDS
        before = self.standing.refusal
        after = await self._looked(self.standing, hurried)
        self.standing = after
        if after.failures == 0 and ((after.last is not None and after.last.moved) or after.refusal != before):
            self._moved(said_at)
        return stands.pause(after, hurried, self._random())

    async def _looked(self, before: Standing, hurried: bool) -> Standing:
        first = before.last is None
        try:
            look = await asyncio.to_thread(self._remote.look, before.spec, before.last, hurried or first)
        except Deposed:
            raise
        except Conflict:
            return before  # somebody has moved main, as the next look will see
        except (ReconcilerError, OSError) as error:
            person = isinstance(error, Invalid | Refused)
            after, events = stands.failed(before, str(error), person, self._clock())
        else:
            after, events = stands.answered(before, look, self._clock())
        for event in events:
            log.log(logging.WARNING if event.warning else logging.INFO, "%s", event.message)
            self._tell(event)
        return after

    def _complain(self, problem: str) -> None:
        """Keep why the settings cannot be used, and log it once."""
        if problem and problem != self.complaint:
            log.error("%s", problem)
        self.complaint = problem
