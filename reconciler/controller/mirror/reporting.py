"""Shows the state of commits at the forge, and comments open pull requests with the plan.

Nothing waits for it. A failed report is tried again a minute later; a forge that is away is logged once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from reconciler.errors import InvalidManifests, ReconcilerError, Refused
from reconciler.outgoing.forges.interface import PullRequest, State
from reconciler.resources.git_repository import GitRepositorySpec

from . import comment
from .following import Following
from .verdict import Verdict

log = logging.getLogger(__name__)

REQUESTS_SECONDS = 60.0
"""Seconds between looks at open pull requests; there is also one after each requested look at the remote."""
SHOWN_SECONDS_MIN = 0.5
"""Seconds between two statuses: a state that is over at once need not be shown."""


class Forge(Protocol):
    """A forge, as ``outgoing.forges.client.Forge``."""

    async def show(self, commit: str, state: State, text: str) -> None: ...

    async def open(self, branch: str) -> tuple[PullRequest, ...]: ...

    async def comment(self, number: int, text: str) -> None: ...

    async def close(self) -> None: ...


class Reporting:
    """Reports to the forge of the remote, if it has one.

    ``open_forge`` returns it, and may block. ``verdict`` returns the state of the newest commit, and ``news`` waits until
    that may have changed. ``files`` fetches the manifests of a branch of the remote, ``preview`` returns their plan.
    """

    def __init__(
        self,
        following: Following,
        open_forge: Callable[[GitRepositorySpec], Forge],
        verdict: Callable[[], Verdict | None],
        news: Callable[[], Awaitable[Any]],
        files: Callable[[GitRepositorySpec, str, str], Mapping[str, bytes]],
        preview: Callable[[Mapping[str, bytes]], Awaitable[Mapping[str, Any]]],
    ) -> None:
        self._following = following
        self._open = open_forge
        self._verdict = verdict
        self._news = news
        self._files = files
        self._preview = preview
        self._forge: tuple[GitRepositorySpec, Forge] | None = None
        self._shown: Verdict | None = None
        self._commented: dict[int, tuple[str, str | None]] = {}
        """The commit of each pull request that has its comment, and the revision in force then."""
        self._complaint = ""

    async def run(self) -> None:
        try:
            await asyncio.gather(self._show(), self._comment())
        finally:
            if self._forge is not None:
                await self._forge[1].close()

    async def _show(self) -> None:
        while True:
            found, forge = self._verdict(), await self._current()
            if forge is not None and found is not None and self._differs(found):
                shown = await self._guarded(forge.show(found.commit, found.state, found.text))
                self._shown = found if shown else None
            await asyncio.sleep(SHOWN_SECONDS_MIN)
            if self._verdict() == found:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(REQUESTS_SECONDS):
                        await self._news()

    def _differs(self, found: Verdict) -> bool:
        shown = self._shown
        return shown is None or (found.commit, found.state) != (shown.commit, shown.state)

    async def _comment(self) -> None:
        while True:
            forge = await self._current()
            if forge is not None:
                await self._guarded(self._comment_all(forge))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REQUESTS_SECONDS):
                    await self._following.said.wait()

    async def _comment_all(self, forge: Forge) -> None:
        standing = self._following.standing
        if standing is None or standing.spec.forge is None or not standing.spec.forge.comment:
            return
        requests = await forge.open(standing.spec.ref.branch)
        revision = standing.last.revision if standing.last else None
        still = {each.number for each in requests}
        self._commented = {number: known for number, known in self._commented.items() if number in still}
        for each in requests:
            if not each.fork and self._commented.get(each.number) != (each.commit, revision):
                await forge.comment(each.number, await self._text(standing.spec, each))
                self._commented[each.number] = each.commit, revision

    async def _text(self, spec: GitRepositorySpec, request: PullRequest) -> str:
        try:
            files = await asyncio.to_thread(self._files, spec, request.branch, request.commit)
            return comment.planned(request.commit, await self._preview(files))
        except (InvalidManifests, Refused) as error:
            return comment.invalid(request.commit, str(error))

    async def _current(self) -> Forge | None:
        """Return the forge of the present settings; None if there is none, or it is not known."""
        spec = self._following.standing.spec if self._following.standing is not None else None
        if self._forge is not None and self._forge[0] != spec:
            await self._forge[1].close()
            self._forge = None
        if spec is None or spec.forge is None:
            return None
        if self._forge is None:
            try:
                self._forge = spec, await asyncio.to_thread(self._open, spec)
            except (ReconcilerError, OSError) as error:
                self._complain(str(error))
                return None
            self._shown = None
            self._commented.clear()
        return self._forge[1]

    async def _guarded(self, work: Awaitable[None]) -> bool:
        """Return whether it succeeded."""
        try:
            await work
        except (ReconcilerError, OSError) as error:
            self._complain(str(error))
            return False
        self._complain("")
        return True

    def _complain(self, problem: str) -> None:
        if problem and problem != self._complaint:
            log.warning("the forge does not show it: %s", problem)
        self._complaint = problem
