"""Keeps a ``Snapshot`` up to date: asks the controller with questions that it answers when something has changed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from reconciler.errors import ReconcilerError, Unreachable
from reconciler.remote.rpc import RpcClient
from reconciler.wire.admin import (
    CLI_RECEIVES,
    Get,
    ListCommits,
    ListEvents,
    ListIncidents,
    ShowPlan,
    ShowStatus,
    ShowUsage,
)

from .snapshot import Snapshot

log = logging.getLogger(__name__)

WAIT_SECONDS = 25.0
"""How long the controller may hold an answer back while nothing changes."""
ANSWER_SECONDS = 15.0
EVENTS_MAX = 500
"""Events that are kept for the pages; `reconciler events` has all."""
INCIDENTS_MAX = 100
COMMITS_MAX = 100
USAGE_SECONDS = 2.0
"""How often machines' use is asked for, while a page is open."""
PACE_SECONDS = 0.2
"""The shortest time between two questions for all objects: a cluster that forms a group changes many times a second."""
RETRY_SECONDS = 0.5


class Feed:
    """The snapshot of one cluster. ``clock`` returns seconds since the Unix epoch."""

    def __init__(self, socket: Path, clock: Callable[[], float]) -> None:
        self._socket = socket
        self._clock = clock
        self._news = asyncio.Event()
        self._watched = asyncio.Event()
        self._watchers = 0
        self._client: RpcClient | None = None
        self.snapshot = Snapshot()

    async def run(self) -> None:
        """Follow the controller for ever, also over its restarts."""
        while True:
            try:
                await self._follow()
            except* ReconcilerError as errors:
                self._lose(_first(errors))
            except* OSError as errors:
                self._lose(f"no controller answers at {self._socket}: {_first(errors)}")
            await asyncio.sleep(RETRY_SECONDS)

    @contextlib.contextmanager
    def watching(self) -> Any:
        """While a page is open: only then are machines asked what they use."""
        self._watchers += 1
        self._watched.set()
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._watched.clear()

    async def changed(self, seen: int) -> Snapshot:
        """Wait for a snapshot whose number is not ``seen``."""
        while self.snapshot.number == seen:
            await self._news.wait()
        return self.snapshot

    async def _follow(self) -> None:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        client = await RpcClient(reader, writer, CLI_RECEIVES).open("console")
        self._client = client
        try:
            async with asyncio.TaskGroup() as group:
                for follower in (self._objects, self._incidents, self._events, self._usage, self._commits):
                    group.create_task(follower(client), name=f"follow {follower.__name__}")
        finally:
            self._client = None
            await client.close()

    async def ask(self, message: Any) -> Any:
        """Return the body of the controller's answer to a question of one page. Raises ``Refused`` and ``Unreachable``."""
        if self._client is None:
            raise Unreachable(self.snapshot.lost or "the controller has not answered yet")
        return await _ask(self._client, message)

    async def answered(self, message: Any) -> Any:
        """Return the answer, or ``{"problem": text}`` where there is none."""
        try:
            return await self.ask(message)
        except ReconcilerError as error:
            return {"problem": str(error)}

    async def _objects(self, client: RpcClient) -> None:
        seen = ""
        while True:
            objects = await _ask(client, Get(seen=seen, wait_seconds=WAIT_SECONDS))
            if objects["version"] != seen or self.snapshot.lost:
                seen = objects["version"]
                status, ranks, plan = [
                    await _ask(client, message) for message in (ShowStatus(), Get("Rank"), ShowPlan())
                ]
                self._update(
                    objects=tuple(objects["items"]), ranks=tuple(ranks["items"]), plan=plan, status=status
                )
            await asyncio.sleep(PACE_SECONDS)

    async def _incidents(self, client: RpcClient) -> None:
        seen = ""
        while True:
            question = ListIncidents(limit=INCIDENTS_MAX, seen=seen, wait_seconds=WAIT_SECONDS)
            answer = await _ask(client, question)
            if answer["version"] != seen:
                seen = answer["version"]
                self._update(incidents=tuple(answer["items"]))

    async def _events(self, client: RpcClient) -> None:
        last = 0
        kept: tuple[Any, ...] = ()
        while True:
            answer = await _ask(client, ListEvents(after=last, wait_seconds=WAIT_SECONDS if last else 0.0))
            last = answer["last"]
            if answer["items"] or not kept:
                kept = (*kept, *answer["items"])[-EVENTS_MAX:]
                self._update(events=kept)
            if not last:
                await asyncio.sleep(USAGE_SECONDS)

    async def _commits(self, client: RpcClient) -> None:
        seen = ""
        while True:
            question = ListCommits(limit=COMMITS_MAX, seen=seen, wait_seconds=WAIT_SECONDS)
            answer = await _ask(client, question)
            if answer["version"] != seen:
                seen = answer["version"]
                self._update(commits=answer)

    async def _usage(self, client: RpcClient) -> None:
        while True:
            await self._watched.wait()
            usage = await _ask(client, ShowUsage())
            if usage != self.snapshot.usage:
                self._update(usage=usage)
            await asyncio.sleep(USAGE_SECONDS)

    def _update(self, **fields: Any) -> None:
        self._publish(replace(self.snapshot, lost="", at=self._clock(), **fields))

    def _lose(self, text: str) -> None:
        if self.snapshot.lost != text:
            log.warning("%s", text)
            self._publish(replace(self.snapshot, lost=text))

    def _publish(self, snapshot: Snapshot) -> None:
        self.snapshot = replace(snapshot, number=snapshot.number + 1)
        self._news.set()
        self._news = asyncio.Event()


async def _ask(client: RpcClient, message: Any) -> Any:
    """Return the body of an answer. Raises ``Unreachable`` and ``Refused``."""
    answer = await client.request(message, timeout=WAIT_SECONDS + ANSWER_SECONDS)
    return answer.body


def _first(errors: BaseExceptionGroup[Any]) -> str:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)


@contextlib.asynccontextmanager
async def following(feed: Feed) -> AsyncIterator[None]:
    """Run a feed as long as the block."""
    task = asyncio.create_task(feed.run(), name="follow the controller")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
