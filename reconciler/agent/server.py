"""The agent: answers controllers, and tells them when something on the node has changed.

It decides nothing. What it keeps over its own death is on disk: the ranks' directories and the highest
fencing token, written before the request that brought it is acted upon.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import signal
import socket
import uuid
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Set

from reconciler.wire.codec import Refused
from reconciler.wire.footing import Footing, first_lost
from reconciler.wire.node import (
    AGENT_HEARS,
    Changed,
    ContinueRank,
    Done,
    ForgetRank,
    Log,
    ModelReport,
    NodeReport,
    Observe,
    ReadLog,
    Shutdown,
    StartRank,
    StopRank,
)

from . import directory, machine
from .examination import Examiner
from .files import read_json, write_json
from .peer import Peer
from .rank_log import read_log
from .ranks import Ranks
from .runtime import versions
from .weights import Weights

PUSH_SECONDS = 0.5
"""Steps, demand and the like are told at most this often; phases and ends at once."""
CONTROLLERS_MAX = 32
_FAREWELL_SECONDS = 1.0
_FENCE_BYTES_MAX = 4096
_log = logging.getLogger("agent")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Absolute paths, and the command that is a shim (its own arguments are appended)."""

    node: str
    directory: Path
    models: Path
    run_directory: Path
    python: str
    shim_command: Sequence[str]


class Fence:
    """The highest token seen: a controller with a lower one has been replaced."""

    def __init__(self, path: Path) -> None:
        """Raises ``OSError`` or ``ValueError`` when there is a token that cannot be read."""
        self._path = path
        self.token = 0
        if path.exists():
            content = read_json(path, _FENCE_BYTES_MAX)
            token = content.get("token") if isinstance(content, dict) else None
            if not isinstance(token, int):
                raise ValueError("{}: expected an object with the number 'token'".format(path))
            self.token = token

    def admits(self, token: int) -> bool:
        """Whether a controller with this token may change something. Raises ``OSError``."""
        if token > self.token:
            write_json(self._path, {"version": 1, "token": token})
            self.token = token
        return token == self.token


class Agent:
    """One node's agent; ``run`` serves until a controller or a signal ends it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: Settings) -> None:
        self._loop = loop
        self._settings = settings
        self._fence = Fence(settings.directory / "fence.json")
        self._ranks = Ranks(
            settings.directory / "ranks",
            settings.run_directory,
            settings.shim_command,
            self._changed,
        )
        self._weights = Weights(settings.models)
        self._runtime: Optional[Mapping[str, str]] = None
        self._examiner = Examiner(settings.python, settings.directory, lambda: self._changed(True))
        self._peers: Set[Peer] = set()
        self._behind: Set[Peer] = set()
        self._push: Optional[asyncio.TimerHandle] = None
        self._sequence = 1
        self._ending = asyncio.Event()
        self._alone = asyncio.Event()
        self._identity = _identity(settings)
        self._answers: Dict[type, Callable[[Any], Any]] = {
            Observe: self._observe,
            StartRank: self._start,
            StopRank: self._stop,
            ContinueRank: self._continue,
            ForgetRank: self._forget,
            ReadLog: self._read_log,
            Shutdown: self._shutdown,
        }

    async def run(
        self, listener: socket.socket, footing: Sequence[Footing], on_ready: Callable[[], None]
    ) -> None:
        """Adopt what is there, serve, and leave shims and ranks alone at the end.

        Without its ``footing`` it ends by itself: nobody could reach it, and another may be in its place.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._ending.set)
        self._loop.add_signal_handler(signal.SIGCHLD, self._ranks.reap)
        self._ranks.adopt()
        looking = self._loop.create_task(self._ranks.look())
        standing = self._loop.create_task(self._stand(footing))
        server = await self._loop.create_unix_server(self._accept, sock=listener)
        on_ready()
        asked = versions(self._settings.python, self._know_runtime)
        asked.start()
        _log.info("serving node %s as process %d", self._settings.node, os.getpid())
        await self._ending.wait()
        looking.cancel()
        standing.cancel()
        server.close()
        asked.withdraw()
        self._examiner.close()
        for peer in self._peers:
            peer.close()
        if self._peers:
            await asyncio.wait([asyncio.ensure_future(self._alone.wait())], timeout=_FAREWELL_SECONDS)
        _log.info("ended")

    async def _stand(self, footing: Sequence[Footing]) -> None:
        lost = await first_lost(*footing)
        _log.error("%s was taken away: the agent ends", lost.path)
        self._ending.set()

    # --- connections ---

    def _accept(self) -> Peer:
        peer = Peer("agent", AGENT_HEARS, self._hear, self._welcome, self._leave)
        peer.on_drained = self._catch_up
        return peer

    def _welcome(self, peer: Peer) -> None:
        if len(self._peers) >= CONTROLLERS_MAX:
            _log.warning("refusing a connection: there are %d already", CONTROLLERS_MAX)
            peer.abort()
            return
        self._peers.add(peer)

    def _leave(self, peer: Peer) -> None:
        self._peers.discard(peer)
        self._behind.discard(peer)
        if not self._peers:
            self._alone.set()

    def _hear(self, peer: Peer, message: Any, request: Optional[int]) -> None:
        answer = self._answers.get(type(message))
        if answer is None or request is None:
            _log.warning("ignoring a %s that is no request", type(message).__name__)
            return
        token = getattr(message, "token", None)
        try:
            if token is not None and not self._fence.admits(token):
                text = "token {} is older than {}: another controller has taken over"
                peer.reply(request, Refused("Fenced", text.format(token, self._fence.token)))
                return
            peer.reply(request, answer(message))
        except OSError as error:
            _log.exception("%s failed", type(message).__name__)
            peer.reply(request, Refused("Failed", str(error)))

    # --- requests ---

    def _observe(self, message: Observe) -> NodeReport:
        return dataclasses.replace(
            self._identity,
            sequence=self._sequence,
            runtime=self._runtime,
            token=self._fence.token,
            ranks=self._ranks.reports(),
            models=tuple(self._model(path) for path in message.models),
        )

    def _model(self, path: str) -> ModelReport:
        report = self._weights.report(path)
        if self._runtime is None:  # whom to ask is not known yet
            return dataclasses.replace(report, examining=report.present and not report.problem)
        return self._examiner.complete(report) if "mlx-lm" in self._runtime else report

    def _start(self, message: StartRank) -> Any:
        try:
            directory.check_id(message.spec.id)
            if not message.spec.argv or message.spec.config.id != message.spec.id:
                raise ValueError("{}: expected a program and a config of the same id".format(message.spec.id))
            self._ranks.start(message.spec)
        except ValueError as error:
            return Refused("Invalid", str(error))
        return Done(self._sequence)

    def _stop(self, message: StopRank) -> Any:
        self._ranks.stop(message.id, message.grace_seconds)
        return Done(self._sequence)

    def _continue(self, message: ContinueRank) -> Any:
        self._ranks.resume(message.id)
        return Done(self._sequence)

    def _forget(self, message: ForgetRank) -> Any:
        rank = self._ranks.get(message.id)
        if rank is not None and rank.state.exit is None:
            return Refused("Alive", "{} has not exited: stop it first".format(message.id))
        self._ranks.forget(message.id)
        return Done(self._sequence)

    def _read_log(self, message: ReadLog) -> Any:
        rank = self._ranks.get(message.id)
        if rank is None:
            return Refused("NotFound", "there is no rank {} on this node".format(message.id))
        return Log(*read_log(rank.directory.path, message.bytes_max, message.offset))

    def _shutdown(self, message: Shutdown) -> Any:
        self._loop.call_soon(self._ending.set)
        return Done(self._sequence)

    # --- pushes ---

    def _know_runtime(self, versions: Mapping[str, str]) -> None:
        self._runtime = versions
        self._changed(True)

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
            else:
                peer.send(Changed(self._sequence))

    def _catch_up(self, peer: Peer) -> None:
        if peer in self._behind:
            self._behind.discard(peer)
            peer.send(Changed(self._sequence))


def _identity(settings: Settings) -> NodeReport:
    """What does not change while an agent runs."""
    system = os.uname()
    return NodeReport(
        sequence=0,
        boot_id=machine.boot_id(),
        agent_id=uuid.uuid4().hex,
        system=system.sysname,
        release=system.release,
        machine=system.machine,
        hostname=system.nodename,
        memory_bytes=machine.memory_bytes(),
        cpus=os.cpu_count() or 1,
        host_id=machine.host_id(),
        python=settings.python,
        runtime=None,
        run_directory=str(settings.run_directory),
        token=0,
    )
