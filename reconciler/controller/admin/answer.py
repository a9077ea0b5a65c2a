"""Answers the command line on ``controller.sock``."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from reconciler import __version__
from reconciler.controller.loop import Loop
from reconciler.controller.mirror.following import Following
from reconciler.controller.parts import Parts
from reconciler.controller.reconcile import remember
from reconciler.errors import Invalid, Refused, listing
from reconciler.facts.recorded import facts_of, written
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

from . import bodies, measured, preview, remote, verification
from .acceptance import Acceptances
from .doctor_session import DoctorSessions
from .history import History
from .manifests import Reading
from .operating import Operating
from .pushes import Pushes
from .versions import Versions

LOG_SECONDS_MAX = 15.0
WAIT_SECONDS_MAX = 60.0
READ_SECONDS = 10.0
"""Longest time for which a controller that has just started delays answers about objects until it has read the manifests."""
OBSERVE_SECONDS = 5.0
"""Longest time after its start for which it delays answers until every node has been observed."""
T = TypeVar("T")


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
    pushes: Pushes = field(init=False)
    history: History = field(init=False)
    handlers: Mapping[type, Callable[[Any], Any]] = field(init=False)
    """Functions that return the body of the answer to a message, or an awaitable of it."""

    def __post_init__(self) -> None:
        parts, loop = self.parts, self.loop
        self.versions = Versions(parts.entropy()[:12])
        self.pushes = Pushes(parts, loop)
        self.history = History(parts)
        reading = Reading(parts.around.source)
        self.handlers = {
            Accept: Acceptances(parts).answer,
            Approve: self._approve,
            Compare: reading.answer,
            Doctor: DoctorSessions(parts).answer,
            FollowPush: self._followed,
            Get: self._get,
            JudgeOperations: self.pushes.judge_operations,
            JudgePush: self.pushes.judge,
            ListCommits: self._commits,
            ListEvents: self._events,
            ListIncidents: self._incidents,
            Look: self._look,
            Operate: Operating(parts, loop).operate,
            Preview: lambda message: preview.preview(parts, loop, message),
            ReadRankLog: self._log,
            ShowCommit: lambda message: self.history.commit(message.revision),
            ShowFacts: lambda _: self._facts(),
            ShowMetrics: lambda message: measured.metrics(parts, message),
            ShowPlaces: lambda message: {"items": bodies.places(parts.last, message.name)},
            ShowPlan: self._plan,
            ShowProtection: self._protection,
            ShowSeries: lambda _: measured.series(parts, self.following),
            ShowSource: self._remote,
            ShowStatus: lambda _: self._status(),
            ShowUsage: lambda _: self._usage(),
            Stop: lambda _: loop.stop_everything(),
            Validate: reading.answer,
            Verify: self._verify,
        }

    async def listen(self, path: Path) -> RpcServer:
        """Serve on a Unix socket of mode 0600, and replace the socket of a dead controller."""
        server = RpcServer(path, CONTROLLER_RECEIVES_FROM_CLI, self._answer)
        try:
            await server.start()
        except (OSError, ValueError) as error:
            raise Invalid(f"cannot listen on {path}: {error}; choose a shorter RECONCILER_HOME") from error
        return server

    async def _answer(self, message: Any) -> Answer:
        handler = self.handlers.get(type(message))
        if handler is None:
            raise Refused("Unknown", "this controller does not support that request")
        body = handler(message)
        return Answer((await body if inspect.isawaitable(body) else body) or {})

    def _approve(self, message: Approve) -> Mapping[str, object]:
        body = self.parts.desired_state.approve(message.revision, message.by)
        self.loop.look_at_source()
        return body

    async def _plan(self, message: ShowPlan) -> answers.Planned:
        return bodies.plan_body(self.loop.plan if message.last else await self.loop.preview())

    def _facts(self) -> answers.RecordedFacts:
        """Return the facts that the next pass would plan with, for a file that may leave the cluster."""
        parts, desired = self.parts, self.parts.desired_state.desired
        observed = Observed(parts.collector.nodes(), parts.around.gateway())
        in_force = tuple(sorted(parts.store.objects.keys()))
        operations = tuple(effect.operation for effect in desired.effects)
        runnable = parts.desired_state.runnable
        found = facts_of(
            desired, observed, remember(parts), parts.clock(), in_force, operations, runnable=runnable
        )
        return {"facts": written(found, desired, __version__), "settled": self.loop.plan.settled}

    async def _usage(self) -> answers.Usage:
        await self._first_observation()
        return {**measured.usage(self.parts.collector.nodes()), "unobserved": self._unobserved()}

    def _look(self, message: Look) -> None:
        if message.name != "remote":
            self.loop.look_at_source(message.at)
        elif self.following is not None:
            self.following.look_now(message.at)

    async def _get(self, message: Get[Any]) -> Mapping[str, object]:
        """Answer once the manifests have been read: until then, objects are not missing but unknown."""
        seconds = message.wait_seconds if message.seen else 0.0
        await self._first_observation()
        find: Callable[[Get[Any]], Mapping[str, object]] = {
            "Rank": self._ranks,
            OPERATION: self._operations,
        }.get(message.kind or "", self._objects)
        return await self._until(
            seconds if self._knows() else max(seconds, READ_SECONDS),
            lambda: find(message),
            lambda body: self._knows() and body["version"] != message.seen,
        )

    def _knows(self) -> bool:
        desired = self.parts.last.desired
        return bool(desired.revision or desired.rejection or desired.hold)

    async def _first_observation(self) -> None:
        """Wait until the manifests were read and every node was observed; for a short time after the start only, because
        a node may not answer."""
        seconds = self.parts.started_at + OBSERVE_SECONDS - self.parts.clock()
        await self._until(seconds, self._unobserved, lambda missing: self._knows() and not missing)

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
        # A client that is ahead of the last event followed a store that is lost or replaced since: it starts at the first.
        after = message.after if message.after <= self.parts.store.last_event() else 0
        wanted = EventFilter(after, message.limit, message.kind, message.name, message.warning, message.since)
        found = await self._until(message.wait_seconds, lambda: self.parts.store.events(wanted), bool)
        return bodies.events(found, after)

    async def _incidents(self, message: ListIncidents) -> answers.Incidents:
        wanted = IncidentFilter(
            message.id, message.kind, message.name, message.open, message.since, message.limit
        )
        log = self.parts.publisher.incident_log
        version = await self._newer(message, lambda: self.versions.of_incidents(log.changes))
        now = self.parts.clock()
        found = [bodies.incident(each, now) for each in self.parts.store.incidents.find(wanted)]
        return {"version": version, "items": found}

    async def _commits(self, message: ListCommits) -> answers.Commits:
        version = await self._newer(message, lambda: self.versions.of_commits(self.parts.last.desired))
        if version == message.seen:
            return {"version": version, "items": [], "problem": None}
        return {"version": version, **await self.history.commits(message.limit)}

    async def _newer(self, message: ListIncidents | ListCommits, version: Callable[[], str]) -> str:
        """Return the version once it is not the one that was seen, or when the time is over."""
        seconds = message.wait_seconds if message.seen else 0.0
        return await self._until(seconds, version, lambda found: found != message.seen)

    async def _until(self, seconds: float, look: Callable[[], T], enough: Callable[[T], bool]) -> T:
        """Return what ``look`` finds as soon as it is enough, or at last when the time is over."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + min(seconds, WAIT_SECONDS_MAX)
        while True:
            news = self.parts.publisher.news  # news that come during the look count too
            left, found = deadline - clock(), look()
            if left <= 0 or enough(found):
                return found
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await news.wait()

    async def _followed(self, message: FollowPush) -> answers.FollowedPush:
        return await self._until(
            message.wait_seconds,
            lambda: self.pushes.standing(message),
            lambda body: body["done"] or body["version"] != message.seen,
        )

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
        return await self._until(
            message.wait_seconds,
            lambda: verification.stands(self.parts, message.model, message.run),
            lambda body: body["done"],
        )

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
