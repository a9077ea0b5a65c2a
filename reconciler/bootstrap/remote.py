"""The tasks that follow the home's remote repository, and show the outcome of its commits at a forge."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.controller.admin.preview import preview
from reconciler.controller.admin.pushes import Pushes
from reconciler.controller.loop import Loop
from reconciler.controller.mirror.following import Following
from reconciler.controller.mirror.reporting import Forge, Reporting
from reconciler.controller.mirror.verdict import verdict
from reconciler.controller.parts import Parts
from reconciler.errors import Deposed
from reconciler.resources.git_repository import GitRepositorySpec
from reconciler.source.git.repository import ClusterRepo
from reconciler.source.mirror.looking import Remote
from reconciler.source.pushed import read_fetched
from reconciler.source.sources import GitSource, Source
from reconciler.source.yaml.beside import packed
from reconciler.wire.admin import Preview

from .home import Home

log = logging.getLogger(__name__)

FAILED_SECONDS = 60.0
"""Wait after an unexpected error."""
VERIFY_SECONDS = 30.0
"""Longest wait of a fetch for the event loop, to ask whether this controller may still write."""


@dataclass(frozen=True, slots=True)
class RemoteTasks:
    """The tasks that run in parallel to the loop, as long as it runs."""

    following: Following
    reporting: Reporting
    loop: Loop

    async def run(self) -> None:
        """Run until cancelled, or until another controller has taken over."""
        reporting = asyncio.create_task(_lasting(self.reporting.run), name="report to the forge")
        try:
            await _lasting(self.following.run)
        except Deposed as error:
            self.loop.deposed(error)
        finally:
            reporting.cancel()


async def _lasting(run: Callable[[], Awaitable[None]]) -> None:
    """Run a task that must not end. Begin it again after an unexpected error."""
    while True:
        try:
            await run()
        except Deposed:
            raise
        except Exception:
            log.exception("unexpected error; it begins again")
        await asyncio.sleep(FAILED_SECONDS)


def remote_of(home: Home, source: Source, loop: Loop, parts: Parts) -> RemoteTasks | None:
    """Return the tasks that follow the home's remote repository, and connect them with source and gateway; None where
    manifests come from a folder."""
    if not isinstance(source, GitSource):
        return None
    running = asyncio.get_running_loop()

    async def verified() -> None:
        parts.store.verify()

    pushes = Pushes(parts, loop)

    def objection(repo: ClusterRepo, old: str | None, new: str) -> str:
        foreseen = pushes.foreseen(read_fetched(repo, old, new))
        body = asyncio.run_coroutine_threadsafe(foreseen, running).result(VERIFY_SECONDS)
        said = [line.removeprefix("reconciler: ") for line in body["lines"]]
        return "" if body["accept"] else "\n".join(said[:-1])  # the last line says that main stays

    remote = Remote(
        ClusterRepo(home.repo),
        objection,
        lambda: asyncio.run_coroutine_threadsafe(verified(), running).result(VERIFY_SECONDS),
        os.environ,
    )
    following = Following(
        home.source,
        remote,
        parts.clock,
        random.random,
        lambda event: parts.publisher.publish_events((event,)),
        loop.look_at_source,
    )
    source.refused = following.refusal
    parts.publisher.hook = following.hook

    async def previewed(files: Mapping[str, bytes]) -> Mapping[str, Any]:
        texts, others = packed(files)
        return await preview(parts, loop, Preview(texts, job_files=others))

    reporting = Reporting(
        following,
        _open_forge,
        lambda: verdict(following.standing, parts.last.desired, parts.publisher.statuses),
        lambda: parts.publisher.news.wait(),
        remote.files,
        previewed,
    )
    return RemoteTasks(following, reporting, loop)


def _open_forge(spec: GitRepositorySpec) -> Forge:
    # Imported here: it takes 0.2 s, and few clusters have a forge.
    from reconciler.outgoing.forges.client import open_forge

    return open_forge(spec, os.environ)
