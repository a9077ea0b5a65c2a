"""Answers the command line on ``controller.sock``."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reconciler import __version__
from reconciler.controller.loop import Loop
from reconciler.controller.mirror.following import Following
from reconciler.controller.parts import Parts
from reconciler.errors import Invalid, Refused, listing
from reconciler.hardening import protection
from reconciler.planning.context.world import World
from reconciler.remote.rpc import RpcServer
from reconciler.resources.operation import KIND as OPERATION
from reconciler.state import NodeName, Observed
from reconciler.status import gateway_waits
from reconciler.store import EventFilter, IncidentFilter
from reconciler.wire import answers, node, objects
from reconciler.wire.admin import (
    CONTROLLER_RECEIVES_FROM_CLI,
    Accept,
    Answer,
    Approve,
    Compare,
    Doctor,
    FollowPush,
    Get,
    JudgeOperations,
    JudgePush,
    ListCommits,
    ListEvents,
    ListIncidents,
    Look,
    Operate,
    Preview,
    ReadRankLog,
    ShowCommit,
    ShowFacts,
    ShowMetrics,
    ShowPlaces,
    ShowPlan,
    ShowProtection,
    ShowSeries,
    ShowSource,
    ShowStatus,
    ShowUsage,
    Stop,
    Validate,
    Verify,
)

from . import bodies, metrics, preview, recording, remote, series, verification
from .acceptance import Acceptances
from .doctor_session import DoctorSessions
from .history import History
from .manifests import Reading
from .operating import Operating
from .pushes import Pushes
from .usage import usage
from .versions import Versions

LOG_SECONDS_MAX = 15.0
WAIT_SECONDS_MAX = 60.0
READ_SECONDS = 10.0
"""Longest time for which a controller that has just started delays answers about objects until it has read the manifests."""
OBSERVE_SECONDS = 5.0
"""Longest time after its start for which it delays answers until every node has been observed."""


@dataclass(slots=True)
class Admin:
    """The administrator's interface: a process that can open the socket is an administrator."""

    parts: Parts
    loop: Loop
    source: str
    """The source of the manifests, for people."""
    following: Following | None = None
    """The part that follows the remote repository; None if manifests come from a folder."""
    versions: Versions = field(init=False)
    consultations: DoctorSessions = field(init=False)
    acceptances: Acceptances = field(init=False)
    pushes: Pushes = field(init=False)
    history: History = field(init=False)
    operating: Operating = field(init=False)
    reading: Reading = field(init=False)

    def __post_init__(self) -> None:
        self.versions = Versions(self.parts.entropy()[:12])
        self.consultations = DoctorSessions(self.parts)
        self.acceptances = Acceptances(self.parts)
        self.pushes = Pushes(self.parts, self.loop)
        self.history = History(self.parts)
        self.operating = Operating(self.parts, self.loop)
        self.reading = Reading(self.parts.around.source)

    async def listen(self, path: Path) -> RpcServer:
        """Serve on a Unix socket of mode 0600, and replace the socket of a dead controller."""
        server = RpcServer(path, CONTROLLER_RECEIVES_FROM_CLI, self._answer)
        try:
            await server.start()
        except (OSError, ValueError) as error:
            raise Invalid(f"cannot listen on {path}: {error}; choose a shorter RECONCILER_HOME") from error
        return server

    async def _answer(self, message: Any) -> Answer:
        return Answer(await self._body(message))

    async def _body(self, message: Any) -> Mapping[str, object]:
        match message:
            case Get():
                return await self._get(message)
            case ShowPlan():
                return bodies.plan_body(self.loop.plan if message.last else await self.loop.preview())
            case Preview() | Validate() | Compare():
                return await self._proposed(message)
            case ShowFacts():
                return answers.RecordedFacts(
                    facts=recording.facts(self.parts), settled=self.loop.plan.settled
                )
            case ShowPlaces():
                return answers.Placements(items=bodies.places(self.parts.last, message.name))
            case ListEvents() | ListIncidents() | ListCommits() | ShowCommit():
                return await self._past(message)
            case ReadRankLog():
                return await self._log(message)
            case ShowStatus():
                return self._status()
            case ShowUsage() | ShowMetrics() | ShowSeries():
                return await self._measured(message)
            case (
                Verify() | Doctor() | Accept() | ShowSource() | JudgePush() | JudgeOperations() | FollowPush()
            ):
                return await self._tried(message)
            case ShowProtection():
                return self._protection(message)
            case Operate():
                return await self.operating.operate(message)
            case Approve():
                body = self.parts.desired_state.approve(message.revision, message.by)
                self.loop.look_at_source()
                return body
            case Look():
                self._look(message)
            case Stop():
                self.loop.stop_everything()
            case _:
                raise Refused("Unknown", "this controller does not support that request")
        return {}

    async def _proposed(self, message: Preview | Validate | Compare) -> Mapping[str, object]:
        """Answer requests about manifests that are not committed."""
        if isinstance(message, Preview):
            return await preview.preview(self.parts, self.loop, message)
        return await self.reading.answer(message)

    async def _measured(self, message: ShowUsage | ShowMetrics | ShowSeries) -> Mapping[str, object]:
        """Answer what nodes and deployments do, now or over the last hours."""
        if isinstance(message, ShowMetrics):
            return metrics.body(self.parts, message)
        if isinstance(message, ShowSeries):
            return series.body(self.parts, self.following)
        await self._first_observation()
        return {**usage(self.parts.collector.nodes()), "unobserved": self._unobserved()}

    async def _past(
        self, message: ListEvents | ListIncidents | ListCommits | ShowCommit
    ) -> Mapping[str, object]:
        """Answer what has happened."""
        match message:
            case ListEvents():
                return await self._events(message)
            case ListIncidents():
                return await self._incidents(message)
            case ListCommits():
                return await self._commits(message)
            case ShowCommit():
                return await self.history.commit(message.revision)

    async def _tried(
        self,
        message: Verify | Doctor | Accept | ShowSource | JudgePush | JudgeOperations | FollowPush,
    ) -> Mapping[str, object]:
        """Answer what takes a while, and is asked again until it is done."""
        match message:
            case JudgePush():
                return await self.pushes.judge(message)
            case JudgeOperations():
                return await self.pushes.judge_operations(message)
            case FollowPush():
                return await self._followed(message)
            case Verify():
                return await self._verify(message)
            case Doctor():
                return await self.consultations.answer(message)
            case Accept():
                return await self.acceptances.answer(message)
            case ShowSource():
                return await self._remote(message)

    def _look(self, message: Look) -> None:
        if message.name != "remote":
            self.loop.look_at_source(message.at)
        elif self.following is not None:
            self.following.look_now(message.at)

    async def _get(self, message: Get[Any]) -> Mapping[str, object]:
        """Answer once the manifests have been read: until then, objects are not missing but unknown."""
        seconds = message.wait_seconds if message.seen else 0.0
        await self._first_observation()
        async for last in self._looks(seconds if self._knows() else max(seconds, READ_SECONDS)):
            body = (
                self._ranks(message)
                if message.kind == "Rank"
                else self._operations(message)
                if message.kind == OPERATION
                else self._objects(message)
            )
            if last or (self._knows() and body["version"] != message.seen):
                break
        return body

    def _knows(self) -> bool:
        desired = self.parts.last.desired
        return bool(desired.revision or desired.rejection or desired.hold)

    async def _first_observation(self) -> None:
        """Wait until the manifests were read and every node was observed; for a short time after the start only, because
        a node may not answer."""
        async for last in self._looks(self.parts.started_at + OBSERVE_SECONDS - self.parts.clock()):
            if last or (self._knows() and not self._unobserved()):
                return

    def _unobserved(self) -> list[str]:
        """Return the nodes that have not reported since the controller started: their ranks are not known."""
        seen = self.parts.last.observed.nodes
        wanted = sorted({*self.parts.last.desired.nodes, *seen})
        return [name for name in wanted if name not in seen or seen[name].report is None]

    def _objects(self, message: Get[Any]) -> objects.ObjectList:
        snapshots, statuses = self.parts.last, self.parts.publisher.statuses
        version, desired = self.versions.of_objects(snapshots, statuses), snapshots.desired
        new = version != message.seen
        return {
            "version": version,
            "revision": desired.revision,
            "unobserved": self._unobserved(),
            **bodies.kept_out(desired),
            "items": bodies.objects(snapshots, statuses, message.kind, message.name) if new else [],
        }

    def _ranks(self, message: Get[Any]) -> objects.RankList:
        last = self.parts.last  # with the newest reports, because the progress of ranks causes no pass
        newest = replace(last, observed=Observed(self.parts.collector.nodes(), last.observed.gateway))
        return {
            "version": self.versions.of_ranks(bodies.ranks(newest, None, ended=True)),
            "revision": last.desired.revision,
            "unobserved": self._unobserved(),
            "items": bodies.ranks(newest, message.name, message.ended),
        }

    def _operations(self, message: Get[Any]) -> objects.OperationList:
        desired, items = self.parts.last.desired, bodies.operations(self.parts.last, message.name)
        return {
            "version": self.versions.of_operations(items),
            "revision": desired.operations,
            "unobserved": self._unobserved(),
            **bodies.kept_out(desired),
            "items": items,
        }

    async def _events(self, message: ListEvents) -> answers.Events:
        # Beyond the last one is who followed the events of a store that was lost or replaced since: it begins anew.
        after = message.after if message.after <= self.parts.store.last_event() else 0
        wanted = EventFilter(after, message.limit, message.kind, message.name, message.warning, message.since)
        async for last in self._looks(message.wait_seconds):
            found = self.parts.store.events(wanted)
            if last or found:
                break
        return bodies.events(found, after)

    async def _incidents(self, message: ListIncidents) -> answers.Incidents:
        wanted = IncidentFilter(
            message.id, message.kind, message.name, message.open, message.since, message.limit
        )
        async for last in self._looks(message.wait_seconds if message.seen else 0.0):
            version = self.versions.of_incidents(self.parts.publisher.incident_log.changes)
            if last or version != message.seen:
                break
        now = self.parts.clock()
        found = [bodies.incident(each, now) for each in self.parts.store.incidents.find(wanted)]
        return {"version": version, "items": found}

    async def _commits(self, message: ListCommits) -> answers.Commits:
        async for last in self._looks(message.wait_seconds if message.seen else 0.0):
            version = self.versions.of_commits(self.parts.last.desired)
            if last or version != message.seen:
                break
        if version == message.seen:
            return {"version": version, "items": [], "problem": None}
        return {"version": version, **await self.history.commits(message.limit)}

    async def _looks(self, seconds: float) -> AsyncIterator[bool]:
        """Yield False whenever there may be something new, and True at last when the time is over."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + min(seconds, WAIT_SECONDS_MAX)
        while (left := deadline - clock()) > 0:
            news = self.parts.publisher.news  # news that come while the reader looks count too
            yield False
            try:
                async with asyncio.timeout(left):
                    await news.wait()
            except TimeoutError:
                break
        yield True

    async def _followed(self, message: FollowPush) -> answers.FollowedPush:
        async for last in self._looks(message.wait_seconds):
            body = self.pushes.standing(message)
            if last or body["done"] or body["version"] != message.seen:
                break
        return body

    async def _log(self, message: ReadRankLog) -> answers.LogPiece:
        for rank in self.parts.last.observed.ranks():
            if rank.report.id == message.id:
                return await self._read_log(rank.node, message)
        raise Refused("NotFound", f"no node knows a rank {message.id}; {listing('ranks')}")

    async def _read_log(self, name: NodeName, message: ReadRankLog) -> answers.LogPiece:
        link, _ = self.parts.collector.link(name)
        request = node.ReadLog(message.id, message.bytes_max, message.offset)
        log = await link.request(request, timeout=LOG_SECONDS_MAX)
        return {
            "text": log.text,
            "offset": log.offset,
            "node": name,
            "begin": log.begin,
            "restBytes": log.rest_bytes,
        }

    async def _verify(self, message: Verify) -> answers.Verification:
        if not message.run:
            return {"run": await verification.begin(self.parts, message.model)}
        async for last in self._looks(message.wait_seconds):
            body = verification.stands(self.parts, message.model, message.run)
            if last or body["done"]:
                break
        return body

    async def _remote(self, message: ShowSource) -> answers.SourceState:
        if self.following is None:
            return {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(message.wait_seconds, WAIT_SECONDS_MAX)):
                while (standing := self.following.standing) is not None and standing.looks <= message.looks:
                    await self.following.news.wait()
        return remote.body(self.following)

    def _protection(self, message: ShowProtection) -> answers.Protection:
        last, name = self.parts.last, NodeName(message.node)
        if name not in last.desired.nodes:
            raise Refused("NotFound", f'there is no node "{name}"; {listing("nodes")}')
        newest = Observed(self.parts.collector.nodes(), last.observed.gateway)
        world = World(last.desired, newest, last.memory, last.now, entropy="")
        if world.node(name).report is None:
            raise Refused(
                "NotSeen", f"{name} was not seen yet: {world.node(name).problem or 'wait until it is'}"
            )
        try:
            return protection.body(world, name, message.own_user)
        except ValueError as error:
            raise Refused("Invalid", str(error)) from None

    def _status(self) -> answers.ControllerStatus:
        gateway = self.parts.last.observed.gateway
        return {
            "version": __version__,
            "pid": os.getpid(),
            "revision": self.parts.last.desired.revision,
            **bodies.layer(self.parts.last),
            "source": self.source,
            "endpoint": gateway.endpoint if gateway else None,
            "localEndpoint": gateway.local_endpoint if gateway else None,
            "gatewayWaits": gateway_waits(self.parts.publisher.statuses, self.parts.last),
            "settled": self.loop.plan.settled and bool(self.parts.last.desired.revision),
            "keysBehind": bodies.keys_behind(self.parts.last),
            **bodies.kept_out(self.parts.last.desired),
        }
