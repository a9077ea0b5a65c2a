"""Answers the command line on ``controller.sock``."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler import __version__
from reconciler.errors import Invalid, Refused
from reconciler.state import NodeName
from reconciler.store import EventFilter
from reconciler.transport.rpc import RpcServer
from reconciler.wire import node
from reconciler.wire.admin import (
    CONTROLLER_HEARS_OF_CLI,
    Answer,
    Approve,
    Get,
    ListEvents,
    Look,
    ReadRankLog,
    ShowPlan,
    ShowStatus,
    Stop,
)

from . import answers
from .loop import Loop
from .reconcile import Parts

LOG_SECONDS_MAX = 15.0
WAIT_SECONDS_MAX = 60.0


@dataclass(slots=True)
class Admin:
    """The administrator's interface: whoever can open the socket is one."""

    parts: Parts
    loop: Loop
    source: str
    """What the manifests are read from, for people."""

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
        snapshots = self.parts.last
        match message:
            case Get(kind="Rank"):
                return Answer(answers.ranks(snapshots, message.name))
            case Get():
                statuses = self.parts.publisher.statuses
                return Answer(answers.objects(snapshots, statuses, message.kind, message.name))
            case ShowPlan():
                return Answer(answers.plan_body(self.loop.foresee()))
            case ListEvents():
                return Answer(await self._events(message))
            case ReadRankLog():
                return Answer(await self._log(message))
            case ShowStatus():
                return Answer(self._status())
            case Approve():
                body = self.parts.intent.approve(message.revision, message.by)
                self.loop.look_at_source()
                return Answer(body)
            case Look():
                self.loop.look_at_source(message.at)
                return Answer({})
            case Stop():
                self.loop.stop_everything()
                return Answer({})
            case _:
                raise Refused("Unknown", "this controller does not know that request")

    async def _events(self, message: ListEvents) -> dict[str, Any]:
        wanted = EventFilter(message.after, message.limit, message.kind, message.name)
        deadline = asyncio.get_running_loop().time() + min(message.wait_seconds, WAIT_SECONDS_MAX)
        while True:
            found = self.parts.store.events(wanted)
            left = deadline - asyncio.get_running_loop().time()
            if found or left <= 0:
                return answers.events(found, message.after)
            try:
                async with asyncio.timeout(left), self.parts.publisher.news:
                    await self.parts.publisher.news.wait()
            except TimeoutError:
                continue

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
