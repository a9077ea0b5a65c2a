"""The agent: answers controllers, and reports changes on the node.

It decides nothing. Its durable state is on disk: the ranks' directories and the highest fencing token, which is written
before the request that brought it is carried out.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import logging
import os
import signal
import socket
from typing import Any, Awaitable, Callable, Dict, Optional, Sequence, Set, Union

from reconciler.wire.codec import Refused
from reconciler.wire.file_identity import FileIdentity, wait_until_replaced
from reconciler.wire.node import (
    AGENT_RECEIVES,
    Changed,
    ContinueRank,
    Done,
    FetchWeights,
    ForgetRank,
    GiveWeights,
    HeldBy,
    ListArtifacts,
    Load,
    NodeReport,
    Observe,
    ReadArtifact,
    ReadLog,
    RemoveWeights,
    Shutdown,
    StartRank,
    StopRank,
)
from reconciler.wire.repair import ConfirmRepair, Repair
from reconciler.wire.shortage import explained
from reconciler.wire.tools import RunTool

from .host import Connection, Host
from .ranks import artifacts, directory
from .ranks.ranks import STANDBY_SECONDS, Ranks
from .ranks.vitals import LOOK_SECONDS
from .repairs.requests import RepairRequests
from .system.connection import Peer

PUSH_SECONDS = 2.0
"""Shortest time between reports of steps, demand and the like, which change no plan. Phases, silences and ends are reported
at once."""
CONTROLLERS_MAX = 32
TOOLS_MAX = 16
"""Most running and waiting tools: controllers ask for one at a time."""
DENIED_MAX = 2
"""Requests in a row that lack a descriptor before the agent ends: a single one may lack it for a moment only."""
_FAREWELL_SECONDS = 1.0
_log = logging.getLogger("agent")


class Fence:
    """The highest token seen: a controller with a lower one has been replaced."""

    def __init__(self, host: Host) -> None:
        """Raises ``OSError`` or ``ValueError`` if the stored token cannot be read."""
        self._host = host
        self.token = self._kept = host.token()

    def admits(self, token: int) -> bool:
        """Return whether a controller with this token may change something. Raises ``OSError`` if the token cannot be
        stored; earlier controllers are replaced even then."""
        self.token = max(self.token, token)
        if token == self.token and token != self._kept:
            self._host.save_token(token)
            self._kept = token
        return token == self.token


class Agent:
    """One node's agent; ``run`` serves until a controller or a signal ends it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        host: Host,
        look_seconds: float = LOOK_SECONDS,
        standby_seconds: float = STANDBY_SECONDS,
    ) -> None:
        """Raises ``OSError`` or ``ValueError`` as ``Fence`` does. The periods are those of ``Ranks``."""
        self._loop = loop
        self._host = host
        self._fence = Fence(host)
        self.ranks = Ranks(host, self._changed, look_seconds, standby_seconds)
        self._peers: Dict[Connection, None] = {}
        self._behind: Set[Connection] = set()
        self._push: Optional[asyncio.TimerHandle] = None
        self._sequence = 1
        self.ending = asyncio.Event()
        """Set when the agent is to end."""
        self._denied = 0
        """Requests in a row that lacked a descriptor; a rank that was started ends the row."""
        self._alone = asyncio.Event()
        self._identity = host.identity()
        self._running: Set[asyncio.Task[None]] = set()
        self._repairing = RepairRequests(loop, host, lambda: set(self._peers), self._push_change)
        self._answers: Dict[type, Callable[[Any], Any]] = {
            Observe: self._observe,
            StartRank: self._start,
            StopRank: self._stop,
            ContinueRank: self._continue,
            ForgetRank: self._forget,
            ReadLog: self._read_log,
            FetchWeights: lambda message: self._attempt(lambda: host.fetch(message), news=True),
            GiveWeights: lambda message: self._attempt(lambda: host.serve_weights(message.path)),
            RemoveWeights: lambda message: self._attempt(lambda: host.discard(message.path), news=True),
            Shutdown: self._shutdown,
        }

    async def run(
        self, listener: socket.socket, identities: Sequence[FileIdentity], on_ready: Callable[[], None]
    ) -> None:
        """Adopt existing ranks, serve, and leave shims and ranks alone at the end.

        Ends when one of ``identities`` is replaced: then nobody can reach the agent, and another may be in its place.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.ending.set)
        self._loop.add_signal_handler(signal.SIGCHLD, self._host.reap)
        looking = self.adopt_ranks()
        standing = self._loop.create_task(self._watch_identity(identities))
        server = await self._loop.create_unix_server(self._accept, sock=listener)
        on_ready()
        self.inquire()
        _log.info("serving as process %d", os.getpid())
        await self.ending.wait()
        looking.cancel()
        self.ranks.close()
        standing.cancel()
        server.close()
        self._host.end()
        for peer in self._peers:
            peer.close()
        if self._peers:
            await asyncio.wait([asyncio.ensure_future(self._alone.wait())], timeout=_FAREWELL_SECONDS)
        _log.info("ended")

    def adopt_ranks(self) -> asyncio.Task[None]:
        """Adopt existing ranks. Return the task that watches their processes from now on."""
        self.ranks.adopt()
        self._repairing.watch()
        return self._loop.create_task(self.ranks.watch(), name="look at the ranks")

    def inquire(self) -> None:
        """Examine the runtime in the background."""
        self._host.begin(self._changed)

    async def _watch_identity(self, identities: Sequence[FileIdentity]) -> None:
        lost = await wait_until_replaced(*identities)
        _log.error("%s was removed: the agent ends", lost.path)
        self.ending.set()

    def end_with_session(self) -> None:
        """Handle the end of the session that held this agent."""
        self._identity = dataclasses.replace(self._identity, held_by=HeldBy.LEFT)
        self._changed(True)

    # --- connections ---

    def _accept(self) -> Peer:
        peer = Peer("agent", AGENT_RECEIVES, self.on_message, self.on_connected, self.leave)
        peer.on_drained = self.catch_up
        return peer

    def on_connected(self, peer: Connection) -> None:
        if len(self._peers) >= CONTROLLERS_MAX:
            _log.warning("refusing a connection: there are already %d", CONTROLLERS_MAX)
            peer.abort()
            return
        self._peers[peer] = None

    def leave(self, peer: Connection) -> None:
        self._peers.pop(peer, None)
        self._behind.discard(peer)
        self._repairing.leave(peer)
        if not self._peers:
            self._alone.set()

    def on_message(self, peer: Connection, message: Any, request: Optional[int]) -> None:
        if isinstance(message, RunTool) and request is not None:
            self._run_tool(peer, message, request)
            return
        if isinstance(message, (ListArtifacts, ReadArtifact)) and request is not None:
            self._read_artifacts(peer, message, request)
            return
        if request is None or type(message) not in (*self._answers, Repair, ConfirmRepair):
            _log.warning("ignoring a %s that is not a request", type(message).__name__)
            return
        token = None if isinstance(message, Observe) else getattr(message, "token", None)
        try:
            if token is not None and not self._fence.admits(token):
                text = "token {} is older than {}: another controller has taken over"
                peer.reply(request, Refused("Fenced", text.format(token, self._fence.token)))
                return
            if isinstance(message, Repair):
                self._repairing.begin(peer, message, request)
            elif isinstance(message, ConfirmRepair):
                self._repairing.confirm(peer, message, request)
            else:
                peer.reply(request, self._answers[type(message)](message))
                if isinstance(message, StartRank):
                    self._denied = 0
        except OSError as error:
            _log.exception("%s failed", type(message).__name__)
            peer.reply(request, Refused("Failed", explained(str(error))))
            self._make_room(error)

    def _make_room(self, error: OSError) -> None:
        """End if descriptors are lacking again and again: ranks need none of the agent's, and the next agent has its own."""
        self._denied += error.errno == errno.EMFILE
        if self._denied >= DENIED_MAX:
            _log.error("no descriptors are left: the agent ends, so that another takes its place")
            self._loop.call_soon(self.ending.set)

    # --- requests ---

    def _observe(self, message: Observe) -> NodeReport:
        asked_with = 0
        try:
            if self._fence.admits(message.token):
                asked_with = message.token
        except OSError as error:  # a full disk should not hide the node
            _log.warning("cannot store the token: %s", error)
        free, total = self._host.room()
        return dataclasses.replace(
            self._identity,
            load=self._load(),
            models_free_bytes=free,
            models_total_bytes=total,
            kept=self._host.stored_weights(message.models),
            sequence=self._sequence,
            runtime=self._host.runtime(),
            token=self._fence.token,
            repair=self._host.repair_report(),
            ranks=self.ranks.reports(),
            models=tuple(self._host.model(path) for path in message.models),
            asked_with=asked_with,
        )

    def _load(self) -> Optional[Load]:
        """Return the last measurement, with the current time."""
        load = self.ranks.load
        return None if load is None else dataclasses.replace(load, clock=round(self._host.clock(), 3))

    def _attempt(self, act: Callable[[], object], news: bool = False) -> Any:
        """Carry out a request that may be invalid. ``news``: it changes the report."""
        try:
            act()
        except ValueError as error:
            return Refused("Invalid", str(error))
        if news:
            self._changed(True)
        return Done(self._sequence)

    def _start(self, message: StartRank) -> Any:
        spec = message.spec

        def start() -> None:
            directory.check_id(spec.id)
            if not spec.argv or spec.config.id != spec.id:
                raise ValueError("{}: expected a program and a config of the same id".format(spec.id))
            self.ranks.start(spec)

        return self._attempt(start)

    def _stop(self, message: StopRank) -> Any:
        self.ranks.stop(message.id, message.grace_seconds)
        return Done(self._sequence)

    def _continue(self, message: ContinueRank) -> Any:
        self.ranks.resume(message.id)
        return Done(self._sequence)

    def _forget(self, message: ForgetRank) -> Any:
        rank = self.ranks.get(message.id)
        if rank is not None and rank.state.exit is None:
            return Refused("Alive", "{} has not exited: stop it first".format(message.id))
        return self._attempt(lambda: self.ranks.forget(message.id, message.keep_record))

    def _read_log(self, message: ReadLog) -> Any:
        rank = self.ranks.get(message.id)
        if rank is None:
            return Refused("NotFound", "there is no rank {} on this node".format(message.id))
        return self._host.read_log(message.id, message.bytes_max, message.offset)

    def _run_tool(self, peer: Connection, message: RunTool, request: int) -> None:
        """Run a tool in the background, and answer when it has ended."""
        if len(self._running) >= TOOLS_MAX:
            peer.reply(request, Refused("Busy", "{} tools are already waiting".format(TOOLS_MAX)))
            return

        self._answer_later(peer, request, self._host.run_tool(message))

    def _read_artifacts(
        self, peer: Connection, message: Union[ListArtifacts, ReadArtifact], request: int
    ) -> None:
        """Read artifacts in the background, and answer then."""
        if self.ranks.get(message.id) is None:
            peer.reply(request, artifacts.unknown(message.id))
        elif len(self._running) >= TOOLS_MAX:
            peer.reply(request, Refused("Busy", "{} requests are already waiting".format(TOOLS_MAX)))
        else:
            self._answer_later(peer, request, self._host.artifacts(message))

    def _answer_later(self, peer: Connection, request: int, answer: Awaitable[Any]) -> None:
        async def run() -> None:
            peer.reply(request, await answer)

        task = self._loop.create_task(run(), name="answer request {}".format(request))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _shutdown(self, message: Shutdown) -> Any:
        self._loop.call_soon(self.ending.set)
        return Done(self._sequence)

    # --- pushes ---

    def _push_change(self) -> int:
        """Report an urgent change. Return the sequence number that includes it."""
        self._changed(True)
        return self._sequence

    def _changed(self, urgent: bool) -> None:
        self._sequence += 1
        if urgent:
            self._push_changed()
        elif self._push is None:
            self._push = self._loop.call_later(PUSH_SECONDS, self._push_changed)

    def _push_changed(self) -> None:
        if self._push is not None:
            self._push.cancel()
            self._push = None
        for peer in self._peers:
            if peer.congested:
                self._behind.add(peer)
            elif peer.greeted:
                peer.send(Changed(self._sequence))

    def catch_up(self, peer: Connection) -> None:
        """Send a slow peer that has now received everything the news that it has missed."""
        if peer in self._behind:
            self._behind.discard(peer)
            peer.send(Changed(self._sequence))
