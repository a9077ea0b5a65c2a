"""Keeps a ``Snapshot`` up to date with long polls: the controller answers them when something has changed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from reconciler.errors import ReconcilerError, Unreachable
from reconciler.remote.rpc import RpcClient
from reconciler.wire.admin import (
    CLI_RECEIVES,
    Get,
    ListCommits,
    ListEvents,
    ListIncidents,
    ShowMetrics,
    ShowPlan,
    ShowSource,
    ShowStatus,
    ShowUsage,
)
from reconciler.wire.answers import Asks, Commits, ControllerStatus, EventEntry, Incidents
from reconciler.wire.objects import ObjectList

from .snapshot import Snapshot
from .view.metrics import RANGES

log = logging.getLogger(__name__)

WAIT_SECONDS = 25.0
"""Longest time that the controller may delay an answer while nothing changes."""
ANSWER_SECONDS = 15.0
A = TypeVar("A")
V = TypeVar("V", ObjectList, Incidents, Commits)
EVENTS_AT_ONCE = 1000
EVENTS_MAX = 500
"""Events kept for the pages; `reconciler events` shows all."""
INCIDENTS_MAX = 100
COMMITS_MAX = 100
USAGE_SECONDS = 2.0
"""Time between two requests for the use of machines, while a page is open."""
RANKS_SECONDS = 1.0
"""Time between two requests for ranks, while a page is open: their progress alone ends no long poll."""
METRICS_SECONDS = 5.0
REMOTE_SECONDS = 10.0
"""Time between two questions whether there is a remote repository, where there was none."""
POINTS = 90
"""Intervals of each plot: more would not be easier to read, and all plots of a page should stay small."""
PACE_SECONDS = 0.2
"""Shortest time between two questions of one kind: a cluster that forms a group changes many times a second."""
IDLE_PACE_SECONDS = 2.0
"""The same while no page is open."""
OPEN_SECONDS = 15.0
"""Time for which a page counts as open after it was loaded. Without scripts, it reloads before that."""
RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Beat:
    """Finds out that a controller hangs, with a question that it must answer at once: long polls cannot show it."""

    seconds: float = 2.0
    """Time between two such questions."""
    answer_seconds: float = 4.0
    """Time to answer one, or to greet."""


class Feed:
    """The snapshot of one cluster. ``clock`` returns seconds since the Unix epoch."""

    def __init__(self, socket: Path, clock: Callable[[], float], beat: Beat | None = None) -> None:
        self._socket = socket
        self._clock = clock
        self._rhythm = beat or Beat()
        self._news = asyncio.Event()
        self._watched = asyncio.Event()
        self._watchers = 0
        self._open_until = 0.0
        self._heard_at = 0.0
        """Time of the controller's last answer of any kind."""
        self._client: RpcClient | None = None
        self.snapshot = Snapshot()

    async def run(self) -> None:
        """Follow the controller for ever, across its restarts."""
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
        """Note that a page is open, for the length of the block: only then are questions as frequent as people can read."""
        self._watchers += 1
        self.touch()
        try:
            yield
        finally:
            self._watchers -= 1

    def touch(self) -> None:
        """Note that somebody loads a page."""
        self._open_until = asyncio.get_running_loop().time() + OPEN_SECONDS
        self._watched.set()

    async def changed(self, seen: int) -> Snapshot:
        """Wait for a snapshot whose number is not ``seen``."""
        while self.snapshot.number == seen:
            await self._news.wait()
        return self.snapshot

    async def _follow(self) -> None:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        client = await RpcClient(reader, writer, CLI_RECEIVES).open("console", self._rhythm.answer_seconds)
        self._client = client
        try:
            async with asyncio.TaskGroup() as group:
                for follower in (
                    self._beat,
                    self._objects,
                    self._operations,
                    self._ranks,
                    self._incidents,
                    self._events,
                    self._usage,
                    self._metrics,
                    self._commits,
                    self._remote,
                ):
                    group.create_task(follower(client), name=f"follow {follower.__name__}")
        finally:
            self._client = None
            await client.close()

    async def _beat(self, client: RpcClient) -> None:
        while True:
            status = (await client.request(ShowStatus(), timeout=self._rhythm.answer_seconds)).body
            self._heard_at = self._clock()
            if self.snapshot.lost:
                self._update()
            # Never before the objects: they say who needs a key.
            if self.snapshot.status and status != self.snapshot.status:
                self._update(status=status)
            await asyncio.sleep(self._rhythm.seconds)

    @property
    def answers(self) -> bool:
        """Return whether there is a connection to the controller."""
        return self._client is not None

    async def ask(self, message: Asks[A]) -> A:
        """Return the body of the controller's answer to a question of one page. Raises ``Refused`` and ``Unreachable``."""
        if self._client is None:
            raise Unreachable(self.snapshot.lost or "the controller has not answered yet")
        return await _ask(self._client, message)

    async def _newer(self, client: RpcClient, question: Callable[[str], Asks[V]]) -> AsyncIterator[V]:
        """Yield the answer to a question about the version that was seen last, each time that it has another version."""
        seen = ""
        while True:
            answer = await _ask(client, question(seen))
            if answer["version"] != seen:
                seen = answer["version"]
                yield answer
            await self._pause()

    async def _objects(self, client: RpcClient) -> None:
        async for objects in self._newer(client, lambda seen: Get(seen=seen, wait_seconds=WAIT_SECONDS)):
            status, ranks = await _ask(client, ShowStatus()), await _ask(client, Get("Rank"))
            self._update(
                objects=tuple(objects["items"]),
                ranks=tuple(ranks["items"]),
                plan=await _ask(client, ShowPlan(last=True)),
                status=status,
            )

    async def _operations(self, client: RpcClient) -> None:
        """Read the operations each time that the status says that others are in force."""
        number, layer = -1, None
        while True:
            now = await self.changed(number)
            number = now.number
            if now.status and layer != (layer := _layer(now.status)):
                operations = tuple((await _ask(client, Get("Operation")))["items"])
                if operations != self.snapshot.operations:
                    self._update(operations=operations)

    async def _ranks(self, client: RpcClient) -> None:
        while True:
            await self._open()
            ranks = tuple((await _ask(client, Get("Rank")))["items"])
            if self.snapshot.status and ranks != self.snapshot.ranks:
                self._update(ranks=ranks)
            await asyncio.sleep(RANKS_SECONDS)

    async def _incidents(self, client: RpcClient) -> None:
        question = partial(ListIncidents, limit=INCIDENTS_MAX, wait_seconds=WAIT_SECONDS)
        async for answer in self._newer(client, lambda seen: question(seen=seen)):
            # A controller of an earlier version has no ``seen``.
            self._update(incidents=tuple({"seen": each["summary"], **each} for each in answer["items"]))

    async def _events(self, client: RpcClient) -> None:
        last = 0
        kept: tuple[EventEntry, ...] = ()
        while True:
            answer = await _ask(
                client, ListEvents(last, EVENTS_AT_ONCE, wait_seconds=WAIT_SECONDS * bool(last))
            )
            last = answer["last"]
            if answer["items"]:
                kept = (*kept, *answer["items"])[-EVENTS_MAX:]
                self._update(events=kept)
            if len(answer["items"]) < EVENTS_AT_ONCE:
                await self._pause()

    async def _commits(self, client: RpcClient) -> None:
        question = partial(ListCommits, limit=COMMITS_MAX, wait_seconds=WAIT_SECONDS)
        async for answer in self._newer(client, lambda seen: question(seen=seen)):
            self._update(commits=answer)

    async def _remote(self, client: RpcClient) -> None:
        """Follow the controller's looks at the remote repository, if there is one."""
        while True:
            looks = self.snapshot.remote.get("looks", -1)
            answer = await _ask(client, ShowSource(looks, WAIT_SECONDS))
            if answer != self.snapshot.remote:
                self._update(remote=answer)
            if "looks" in answer:
                await self._pause()
            else:
                await asyncio.sleep(REMOTE_SECONDS)

    async def _usage(self, client: RpcClient) -> None:
        while True:
            await self._open()
            usage = await _ask(client, ShowUsage())
            if usage != self.snapshot.usage:
                self._update(usage=usage)
            await asyncio.sleep(USAGE_SECONDS)

    async def _metrics(self, client: RpcClient) -> None:
        """Ask for the figures of each range as often as it has new ones."""
        clock, asked = asyncio.get_running_loop().time, dict[str, float]()
        while True:
            found = {}
            for name, seconds in RANGES:
                if clock() - asked.get(name, -seconds) >= seconds / POINTS:
                    asked[name] = clock()
                    found[name] = await _ask(client, ShowMetrics(seconds, POINTS))
            if any(self.snapshot.metrics.get(name) != body for name, body in found.items()):
                self._update(metrics={**self.snapshot.metrics, **found})
            await asyncio.sleep(METRICS_SECONDS)
            await self._open()

    async def _open(self) -> None:
        """Wait until a page is open."""
        if not self._watchers and asyncio.get_running_loop().time() >= self._open_until:
            self._watched.clear()
        await self._watched.wait()

    async def _pause(self) -> None:
        """Wait for the time between two questions, which becomes shorter as soon as a page opens."""
        await asyncio.sleep(PACE_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDLE_PACE_SECONDS - PACE_SECONDS):
                await self._open()

    def _update(self, **fields: Any) -> None:
        self._heard_at = self._clock()
        self._publish(replace(self.snapshot, lost="", at=self._heard_at, **fields))

    def _lose(self, text: str) -> None:
        if not self.snapshot.lost:
            log.warning("%s", text)
            at = self._heard_at if self.snapshot.at else 0.0
            self._publish(replace(self.snapshot, lost=text, at=at))

    def _publish(self, snapshot: Snapshot) -> None:
        self.snapshot = replace(snapshot, number=snapshot.number + 1)
        self._news.set()
        self._news = asyncio.Event()


async def _ask(client: RpcClient, message: Asks[A]) -> A:
    """Return the body of an answer. Raises ``Unreachable`` and ``Refused``."""
    answer = await client.request(message, timeout=WAIT_SECONDS + ANSWER_SECONDS)
    body: A = answer.body
    return body


def _layer(status: ControllerStatus) -> tuple[str | None, int | None]:
    """Return what is different when operations come into force or end."""
    return status.get("operations"), status.get("operationsInForce")


def _first(errors: BaseExceptionGroup[Any]) -> str:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)


@contextlib.asynccontextmanager
async def following(feed: Feed) -> AsyncIterator[None]:
    """Run a feed for the length of the block."""
    task = asyncio.create_task(feed.run(), name="follow the controller")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
