"""One rank as its agent knows it, and the report of it for controllers."""

from __future__ import annotations

import asyncio
from typing import Optional, Sequence, Tuple

from reconciler.agent.host import Connection, Host
from reconciler.agent.system.usage import RankUsage
from reconciler.wire.launch import LaunchSpec, Phase, Progress, RankId
from reconciler.wire.node import Gone, RankReport, ShimState

from .hearing import Hearing
from .vitals import Vitals

ENDED_SECONDS_STEP = 5.0
"""Resolution of the reported time, because every change is news to controllers."""
ENDED_SECONDS_MAX = 120.0
"""Longest reported time since an end: later changes are no news."""


class Rank:
    """One rank as far as this agent knows. Without ``peer`` its shim is gone."""

    def __init__(self, id: RankId, spec: Optional[LaunchSpec], host: Host) -> None:
        self.id = id
        self.group = spec.group if spec else ""
        self.socket = spec.config.socket if spec else ""
        self.size = spec.config.size if spec else 0
        self.port = _first_port(spec.config.addresses) if spec else 0
        self.memory_bytes = spec.memory_bytes if spec else 0
        self.transport = spec.transport if spec else ""
        self.formed_for = spec.formed_for if spec else ""
        self.context = spec.config.context if spec else 0
        self.peer: Optional[Connection] = None
        self.state = ShimState(None, 0, 0.0, Progress(Phase.STARTING))
        self.vitals = Vitals()
        self.hearing = Hearing(lambda: host.ask_rank(self.socket))
        self.pruned = False
        """True if only its record is left."""
        self.own_ports = _own_ports(spec) if spec else None
        self.spare = spec is not None and spec.spare
        self.gone = Gone.UNKNOWN
        self.kept = ""
        self.obstacle = ""
        """Why this agent could not start its shim."""
        self.shown: Optional[int] = None
        """The pid that its shim has reported to this agent: this process is the rank's own."""
        self.usage = RankUsage()
        self.ended_at: Optional[float] = None
        """Time at which this agent noticed its end, by the loop's clock."""

    @property
    def watched(self) -> bool:
        """Return whether its shim runs: until that ends, its pids are not reused."""
        return self.peer is not None and self.state.exit is None and self.state.shim_pid > 0

    @property
    def asked(self) -> bool:
        """Return whether it should answer requests now."""
        ready = self.watched and self.state.progress.phase == Phase.READY
        stopped = self.vitals.stopped or self.state.killed
        return ready and not stopped and bool(self.socket) and self.id.rank == 0

    def ended_before(self, seconds: float) -> bool:
        """Return whether it ended longer ago than ``seconds``, or before this agent began."""
        ended = self.state.exit is not None
        return ended and (self.ended_at is None or asyncio.get_event_loop().time() - self.ended_at >= seconds)

    def report(self) -> RankReport:
        state, progress = self.state, self.state.progress
        return RankReport(
            id=self.id,
            group=self.group,
            socket=self.socket,
            pid=state.pid,
            shim_pid=state.shim_pid or None,
            phase=Phase.EXITED if state.exit is not None else progress.phase,
            steps=progress.steps,
            demand=progress.demand,
            loaded_bytes=progress.loaded_bytes,
            total_bytes=progress.total_bytes,
            detail=progress.detail,
            started_at=state.started_at,
            exit=state.exit,
            stopped=self.watched and (self.vitals.stopped or self.vitals.shim_stopped),
            silent_seconds=round(self.vitals.silent_seconds, 1) if self.watched else 0.0,
            idle_seconds=round(self.vitals.idle_seconds, 1) if self.watched else 0.0,
            age_seconds=round(self.vitals.age_seconds, 1),
            pruned=self.pruned,
            deaf_seconds=round(self.hearing.deaf_seconds, 1),
            step_tokens=progress.step_tokens,
            verbs=progress.verbs,
            size=self.size,
            port=self.port,
            memory_bytes=self.memory_bytes,
            transport=self.transport,
            formed_for=self.formed_for,
            context=self.context,
            gone=self.gone,
            kept=self.kept,
            ended_seconds=self._ended_seconds(),
            cores=self.usage.cores if self.watched else 0.0,
            resident_bytes=self.usage.resident_bytes if self.watched else 0,
            tokens_per_second=self.usage.tokens_per_second if self.watched else 0.0,
            killed_seconds=self.vitals.killed_step if state.exit is None else None,
            proof=progress.proof,
        )

    def _ended_seconds(self) -> float:
        if self.ended_at is None:
            return 0.0
        since = min(asyncio.get_event_loop().time() - self.ended_at, ENDED_SECONDS_MAX)
        return since // ENDED_SECONDS_STEP * ENDED_SECONDS_STEP


def _own_ports(spec: LaunchSpec) -> Tuple[int, ...]:
    """Return the ports drawn for it on which a rank itself listens: the control channel's, and only for rank 0."""
    port = spec.config.control.rpartition(":")[2]
    return (int(port),) if spec.id.rank == 0 and port.isdecimal() else ()


def _first_port(addresses: Sequence[str]) -> int:
    """Return the port of rank 0's address, ``ip:port``; 0 without addresses."""
    text = addresses[0].rpartition(":")[2] if addresses else ""
    return int(text) if text.isdecimal() else 0
