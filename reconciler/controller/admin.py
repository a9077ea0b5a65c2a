"""Answers the command line on ``controller.sock``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler import __version__
from reconciler.errors import Invalid, Refused
from reconciler.state import NodeName
from reconciler.store import EventFilter, IncidentFilter
from reconciler.transport.rpc import RpcServer
from reconciler.wire import node
from reconciler.wire.admin import (
    CONTROLLER_HEARS_OF_CLI,
    Accept,
    Answer,
    Approve,
    Doctor,
    Foresee,
    Get,
    ListEvents,
    ListIncidents,
    Look,
    ReadRankLog,
    ShowPlaces,
    ShowPlan,
    ShowStatus,
    ShowUsage,
    Stop,
    Verify,
)

from . import answers, foresight, verification
from .acceptance import Acceptances
from .consultation import Consultations
from .loop import Loop
from .reconcile import Parts
from .usage import usage
from .versions import Versions

LOG_SECONDS_MAX = 15.0
WAIT_SECONDS_MAX = 60.0
READ_SECONDS = 10.0
"""How long a controller that has just started lets questions about objects wait for the manifests."""


@dataclass(slots=True)
class Admin:
    """The administrator's interface: whoever can open the socket is one."""

    parts: Parts
    loop: Loop
    source: str
    """What the manifests are read from, for people."""
    versions: Versions = field(init=False)
    consultations: Consultations = field(init=False)
    acceptances: Acceptances = field(init=False)

    def __post_init__(self) -> None:
        self.versions = Versions(self.parts.entropy()[:12])
        self.consultations = Consultations(self.parts)
        self.acceptances = Acceptances(self.parts)

    async def listen(self, path: Path) -> RpcServer:
        """Serve on a Unix socket of mode 0600; one that a dead controller left behind is replaced."""
        server = RpcServer(path, CONTROLLER_HEARS_OF_CLI, self._answer)
        try:
            await server.start()
        except (OSError, ValueError) as error:
            raise Invalid(
                f"{path}: cannot listen there: {error}; choose a shorter RECONCILER_HOME"
            ) from error
        return server

    async def _answer(self, message: Any) -> Answer:
        match message:
            case Get():
                return Answer(await self._get(message))
            case ShowPlan() | Foresee():
                return Answer(self._plan(message))
            case ShowPlaces():
                return Answer({"items": answers.places(self.parts.last, message.name)})
            case ListEvents():
                return Answer(await self._events(message))
            case ListIncidents():
                return Answer(await self._incidents(message))
            case ReadRankLog():
                return Answer(await self._log(message))
            case ShowStatus() | ShowUsage():
                return Answer(self._status() if isinstance(message, ShowStatus) else self._usage())
            case Verify() | Doctor() | Accept():
                return Answer(await self._thorough(message))
            case Approve() | Look() | Stop():
                return Answer(self._change(message))
            case _:
                raise Refused("Unknown", "this controller does not know that request")

    async def _thorough(self, message: Verify | Doctor | Accept) -> dict[str, Any]:
        """What takes its time."""
        if isinstance(message, Accept):
            return await self.acceptances.answer(message)
        if isinstance(message, Doctor):
            return await self.consultations.answer(message)
        return await self._verify(message)

    def _usage(self) -> dict[str, Any]:
        return usage(self.parts.collector.nodes())

    def _change(self, message: Approve | Look | Stop) -> dict[str, Any]:
        match message:
            case Approve():
                body = self.parts.intent.approve(message.revision, message.by)
                self.loop.look_at_source()
                return body
            case Look():
                self.loop.look_at_source(message.at)
            case Stop():
                self.loop.stop_everything()
        return {}

    async def _get(self, message: Get) -> dict[str, Any]:
        """Not before the manifests were read: what one has not looked for yet is not to be told as absent."""
        seconds = message.wait_seconds if message.seen else 0.0
        async for last in self._looks(seconds if self._knows() else max(seconds, READ_SECONDS)):
            body = self._ranks(message) if message.kind == "Rank" else self._objects(message)
            if last or (self._knows() and body["version"] != message.seen):
                break
        return body

    def _knows(self) -> bool:
        desired = self.parts.last.desired
        return bool(desired.revision or desired.rejection or desired.hold)

    def _objects(self, message: Get) -> dict[str, Any]:
        snapshots, statuses = self.parts.last, self.parts.publisher.statuses
        version = self.versions.of_objects(snapshots, statuses)
        if version == message.seen:
            unchanged = answers.kept_out(snapshots.desired)
            return {"version": version, "revision": snapshots.desired.revision, **unchanged, "items": []}
        return {"version": version, **answers.objects(snapshots, statuses, message.kind, message.name)}

    def _ranks(self, message: Get) -> dict[str, Any]:
        every = answers.ranks(self.parts.last, None, ended=True)
        version = self.versions.of_ranks(every["items"])
        return {"version": version, **answers.ranks(self.parts.last, message.name, message.ended)}

    def _plan(self, message: ShowPlan | Foresee) -> dict[str, Any]:
        if isinstance(message, Foresee):
            return foresight.foresee(self.parts, self.loop, message.files)
        return answers.plan_body(self.loop.foresee())

    async def _events(self, message: ListEvents) -> dict[str, Any]:
        wanted = EventFilter(
            message.after, message.limit, message.kind, message.name, message.warning, message.since
        )
        async for last in self._looks(message.wait_seconds):
            found = self.parts.store.events(wanted)
            if last or found:
                break
        return answers.events(found, message.after)

    async def _incidents(self, message: ListIncidents) -> dict[str, Any]:
        wanted = IncidentFilter(
            message.id, message.kind, message.name, message.open, message.since, message.limit
        )
        async for last in self._looks(message.wait_seconds if message.seen else 0.0):
            version = self.versions.of_incidents(self.parts.publisher.chronicle.changes)
            if last or version != message.seen:
                break
        now = self.parts.clock()
        found = [answers.incident(each, now) for each in self.parts.store.incidents.find(wanted)]
        return {"version": version, "items": found}

    async def _looks(self, seconds: float) -> AsyncIterator[bool]:
        """Whenever there may be something new, until the time is over: then once more, as the last one."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + min(seconds, WAIT_SECONDS_MAX)
        while (left := deadline - clock()) > 0:
            yield False
            try:
                async with asyncio.timeout(left), self.parts.publisher.news:
                    await self.parts.publisher.news.wait()
            except TimeoutError:
                break
        yield True

    async def _log(self, message: ReadRankLog) -> dict[str, Any]:
        for rank in self.parts.last.observed.ranks():
            if rank.report.id == message.id:
                return await self._read_log(rank.node, message)
        raise Refused("NotFound", f"no node knows a rank {message.id}; see: reconciler get ranks")

    async def _read_log(self, name: NodeName, message: ReadRankLog) -> dict[str, Any]:
        link, _ = self.parts.collector.link(name)
        request = node.ReadLog(message.id, message.bytes_max, message.offset)
        log = await link.request(request, timeout=LOG_SECONDS_MAX)
        return {"text": log.text, "offset": log.offset, "node": name}

    async def _verify(self, message: Verify) -> dict[str, Any]:
        if not message.run:
            return {"run": await verification.begin(self.parts, message.model)}
        async for last in self._looks(message.wait_seconds):
            body = verification.stands(self.parts, message.model, message.run)
            if last or body["done"]:
                break
        return body

    def _status(self) -> dict[str, Any]:
        gateway = self.parts.last.observed.gateway
        return {
            "version": __version__,
            "pid": os.getpid(),
            "revision": self.parts.last.desired.revision,
            "source": self.source,
            "endpoint": gateway.endpoint if gateway else None,
            "settled": self.loop.plan.settled and bool(self.parts.last.desired.revision),
            **answers.kept_out(self.parts.last.desired),
        }
