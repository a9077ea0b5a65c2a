"""The ranks of a node: starting them, finding them again, and noticing how each ends.

A directory identifies a rank, and a socket its shim. Only the end of the connection to the socket shows that the shim is
gone; then ``state.json`` says how the rank ended. If it does not, the shim died without a word: the rank is killed, and
reported once it is gone. Only a process that certainly belongs to the directory is killed: a copied directory names a
process of the original.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import signal
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from reconciler.agent.host import Host
from reconciler.agent.system.process import STOPPED
from reconciler.wire.codec import WireError
from reconciler.wire.launch import JOB_PREFIX, Exit, ExitCode, LaunchSpec, Phase, RankId
from reconciler.wire.node import Gone, Load, RankReport, ShimState, Terminate
from reconciler.wire.shortage import explained

from .directory import Owner
from .rank import Rank
from .vitals import LOOK_SECONDS

GONE_CHECK_SECONDS = 0.1
"""Seconds between the first checks whether a killed rank without a shim is gone."""
HELD_CHECK_SECONDS = 1.0
"""The same after the first second."""
STOPPED_SHIM_SECONDS = 2.0
"""Time after the rank's grace until a shim that was stopped again, and so cannot kill, is killed itself."""
LATE_SHIM_SECONDS = 10.0
"""The same for a shim that has not killed for another reason, such as a disk that does not answer."""
MEASURE_SECONDS = 5.0
"""Time between two measurements of the machine and its ranks."""
LEFT_CHECK_SECONDS = 1.0
"""Seconds between checks of a rank's leftovers until they are gone."""
FAILED_CHECK_SECONDS = 10.0
"""The same after a check that failed: `ps` or `netstat` may be slow on this machine."""
STANDBY_SECONDS = 10.0
"""Time after which an unused standby process ends: a group that is formed, or formed again, has its rank here sooner."""
_NEVER_STARTED = 1
_log = logging.getLogger("agent")


class Ranks:
    """All ranks of the node. ``on_change`` is called with whether a change is urgent."""

    def __init__(
        self,
        host: Host,
        on_change: Callable[[bool], None],
        look_seconds: float = LOOK_SECONDS,
        standby_seconds: float = STANDBY_SECONDS,
    ) -> None:
        self._host = host
        self._standby_seconds = standby_seconds
        self._on_change = on_change
        self._ranks: Dict[RankId, Rank] = {}
        self._proving: Dict[RankId, asyncio.Task[None]] = {}
        self.look_seconds = look_seconds
        self.load: Optional[Load] = None
        """The last measurement."""

    def adopt(self) -> None:
        """Find existing ranks, and connect to their shims."""
        for id in self._host.ranks():
            rank = self._ranks[id] = Rank(id, self._host.spec(id), self._host)
            rank.state = self._host.state(id) or rank.state
            rank.pruned = self._host.pruned(id)
            self._watch(rank)

    def reports(self) -> Tuple[RankReport, ...]:
        """Return the report of every rank that has a directory, sorted by id."""
        return tuple(self._ranks[id].report() for id in sorted(self._ranks))

    def get(self, id: RankId) -> Optional[Rank]:
        return self._ranks.get(id)

    def start(self, spec: LaunchSpec) -> bool:
        """Start a shim and its rank; False if the rank is there already. Raises ``OSError``, ``ValueError``.

        An agent that dies before the shim starts leaves a directory without one. The next agent reports it as a rank
        that never started: nobody starts a rank twice.
        """
        if spec.id in self._ranks:
            return False
        self._host.create(spec)
        rank = self._ranks[spec.id] = Rank(spec.id, spec, self._host)
        rank.state = dataclasses.replace(rank.state, started_at=self._host.clock())
        try:
            self._host.start_shim(spec.id)
        except OSError as error:
            rank.obstacle = explained(str(error))
            raise
        finally:
            self._watch(rank)
            self._on_change(True)
        return True

    def stop(self, id: RankId, grace_seconds: float) -> None:
        """Ask the shim to end its rank. A rank that is gone, or is being killed, needs nothing."""
        rank = self._ranks.get(id)
        if rank is None or rank.peer is None:
            return
        if rank.watched:
            self._host.signal_process(rank.state.shim_pid, signal.SIGCONT)  # stopped, it would hear nothing
        rank.peer.send(Terminate(grace_seconds))
        later, grace_seconds = asyncio.get_event_loop().call_later, max(0.0, grace_seconds)
        later(grace_seconds + STOPPED_SHIM_SECONDS, self._kill_stopped_shim, rank)
        later(grace_seconds + LATE_SHIM_SECONDS, self._kill_late_shim, rank)

    def _kill_stopped_shim(self, rank: Rank) -> None:
        if rank.watched and rank.vitals.shim_stopped:
            _log.warning("%s: its shim was stopped repeatedly, killing it", rank.id)
            self._host.signal_process(rank.state.shim_pid, signal.SIGKILL)

    def _kill_late_shim(self, rank: Rank) -> None:
        """Kill a shim that has not killed its rank in time, and the rank, whatever happens to the shim."""
        if not rank.watched or rank.state.killed:
            return
        _log.warning("%s: its shim does not end it, killing both", rank.id)
        self._host.signal_process(rank.state.shim_pid, signal.SIGKILL)
        if rank.state.pid is not None:
            self._kill(rank, rank.state.pid)

    def _kill(self, rank: Rank, pid: int) -> None:
        self._host.signal_group(pid, signal.SIGKILL)
        rank.state = dataclasses.replace(rank.state, killed=True)

    def resume(self, id: RankId) -> None:
        """Continue a rank and its shim; the next look shows whether it helped."""
        rank = self._ranks.get(id)
        if rank is None or not rank.watched:
            return
        self._host.signal_process(rank.state.shim_pid, signal.SIGCONT)
        if rank.state.pid is not None:
            self._host.signal_group(rank.state.pid, signal.SIGCONT)
        rank.vitals.stopped = rank.vitals.shim_stopped = False
        self._on_change(True)

    async def watch(self) -> None:
        """Look at the processes of all ranks now and then, until cancelled."""
        loop = asyncio.get_event_loop()
        before = loop.time()
        measure_at = before
        while True:
            if before >= measure_at:
                await self._measure(before)
                measure_at = before + MEASURE_SECONDS
            await asyncio.sleep(self.look_seconds)
            watched = [rank.state for rank in self._ranks.values() if rank.watched]
            pids = [pid for state in watched for pid in (state.pid, state.shim_pid) if pid]
            found = await self._host.states(pids) if pids else {}
            self._keep_standby()
            now = loop.time()
            self._tick(now - before, [pid for pid, state in found.items() if state == STOPPED])
            before = now

    async def _measure(self, now: float) -> None:
        pids = {rank.state.pid: rank for rank in self._ranks.values() if rank.watched and rank.state.pid}
        measured = await self._host.measure(pids)
        if measured is not None:
            self.load = measured.load
            for pid, usage in measured.processes.items():
                rank = pids[pid]
                rank.usage = rank.usage.next(now, usage, rank.state.progress.tokens)

    def _keep_standby(self) -> None:
        """Start a standby process once a rank has been ready for a while: its program is the likely next one, and the
        first answers of a group do not compete with its imports."""
        ready = (
            r.id
            for r in self._ranks.values()
            if r.spare and r.watched and r.state.progress.phase == Phase.READY and r.vitals.was_ready
        )
        id = next(ready, None)
        if id is not None:
            self._host.prepare(id)
        elif all(r.ended_before(self._standby_seconds) for r in self._ranks.values()):
            self._host.end_standby(self._standby_seconds)

    def _tick(self, seconds: float, stopped: Sequence[int]) -> None:
        changed = False
        for rank in self._ranks.values():
            state = rank.state
            if rank.watched:
                who = (state.pid in stopped, state.shim_pid in stopped)
                changed = rank.vitals.tick(state, seconds, who) or changed
            if rank.asked:
                changed = rank.hearing.tick(seconds) or changed
            else:
                rank.hearing.close()
            if state.killed and state.exit is None:
                changed = rank.vitals.tick_killed(seconds) or changed
        if changed:
            self._on_change(True)

    def forget(self, id: RankId, keep_record: bool = False) -> None:
        """Remove the directory of a rank that has exited. Raises ``OSError``: then it is still known, and can be forgotten.
        ``keep_record``: only its output and working directory. Raises ``ValueError`` too if its spec cannot be read."""
        rank = self._ranks.get(id)
        if rank is None:
            return
        if keep_record:
            try:
                self._host.keep_record(id)
            except WireError as error:
                raise ValueError(str(error)) from None
            rank.pruned = True
            self._on_change(True)
            return
        self._host.remove(id, rank.socket)
        del self._ranks[id]
        rank.hearing.close()
        if rank.peer is not None:
            rank.peer.abort()
        self._on_change(True)

    # --- shims ---

    def _watch(self, rank: Rank) -> None:
        if self._host.owner(rank.id) == Owner.OTHER:  # and so is the shim that would answer
            self._resolve_without_shim(rank)
            return
        try:
            rank.peer = self._host.connect(
                rank.id,
                lambda message: self._on_message(rank, message),
                lambda: self._on_connection_lost(rank),
            )
        except OSError:
            self._resolve_without_shim(rank)

    def _on_message(self, rank: Rank, message: Any) -> None:
        if isinstance(message, ShimState):
            before, rank.state, rank.shown = rank.state, message, message.pid
            self._prove(rank)
            urgent = (before.progress.phase, before.pid, before.exit) != (
                message.progress.phase,
                message.pid,
                message.exit,
            )
            self._on_change(urgent)

    def _on_connection_lost(self, rank: Rank) -> None:
        rank.peer = None
        if rank.state.exit is None and rank.id in self._ranks:
            self._resolve_without_shim(rank)

    def _resolve_without_shim(self, rank: Rank) -> None:
        """Find how a rank without a shim ended, and make sure that it has ended."""
        rank.state = self._host.state(rank.id) or rank.state
        if rank.state.exit is not None:
            self._prove(rank)
            self._on_change(True)
            return
        process = self._host.process(rank.id)
        if process is None:
            why = rank.obstacle or explained(self._host.words(rank.id))
            self._end(rank, _NEVER_STARTED, None, "never started: " + why)
        elif self._host.birth(process[0]) == process[1]:
            if not self._owns(rank, process[0]):
                text = "its process {} may belong to a directory that this is a copy of, and is left alone"
                _log.warning("%s: %s", rank.id, text.format(process[0]))
                self._end(rank, None, signal.SIGKILL, text.format(process[0]))
                return
            if rank.vitals.killed_seconds is None:
                _log.warning("%s: its shim died, killing process %d", rank.id, process[0])
            self._kill(rank, process[0])
            pause = HELD_CHECK_SECONDS if rank.vitals.killed_seconds else GONE_CHECK_SECONDS
            asyncio.get_event_loop().call_later(pause, self._resolve_without_shim, rank)
        elif not process[1].startswith(self._host.boot_id()):
            self._end(rank, None, signal.SIGKILL, "the machine was restarted")
        else:
            self._end(rank, None, signal.SIGKILL, "the shim died; " + self._host.words(rank.id))

    def _owns(self, rank: Rank, pid: int) -> bool:
        """Return whether a process certainly belongs to the rank's directory here."""
        owner = self._host.owner(rank.id)
        return owner == Owner.THIS or (owner == Owner.UNKNOWN and pid == rank.shown)

    def _end(self, rank: Rank, code: Optional[int], number: Optional[int], detail: str) -> None:
        ended = Exit(code, number, self._host.clock(), detail)
        progress = dataclasses.replace(rank.state.progress, phase=Phase.EXITED, demand=0)
        rank.state = dataclasses.replace(rank.state, progress=progress, exit=ended)
        try:
            self._host.write_state(rank.id, rank.state)
        except OSError as error:
            _log.warning("%s: state.json cannot be written: %s", rank.id, error)
        self._prove(rank)
        self._on_change(True)

    # --- leftovers of ranks ---

    def close(self) -> None:
        """Stop all checks."""
        for task in self._proving.values():
            task.cancel()
        for rank in self._ranks.values():
            rank.hearing.close()

    def _prove(self, rank: Rank) -> None:
        """Check for leftovers of an ended rank until there are none."""
        if rank.state.exit is None or rank.ended_at is not None:
            return
        loop = asyncio.get_event_loop()
        rank.ended_at = loop.time()
        if rank.id.deployment.startswith(JOB_PREFIX):
            self._redact(rank.id)
        if rank.own_ports is None:
            return  # its launch spec cannot be read
        rank.gone = Gone.PENDING
        task = loop.create_task(self._find_leftovers(rank), name="look at what {} left".format(rank.id))
        self._proving[rank.id] = task
        task.add_done_callback(lambda _: self._proving.pop(rank.id, None))

    def _redact(self, id: RankId) -> None:
        try:
            self._host.redact(id)
        except (OSError, ValueError, WireError) as error:
            _log.warning("%s: its secrets cannot be removed: %s", id, error)

    async def _find_leftovers(self, rank: Rank) -> None:
        assert rank.state.exit is not None
        foreign = rank.state.exit.code == ExitCode.PORT_IN_USE
        ports = () if foreign or rank.own_ports is None else rank.own_ports
        while rank.id in self._ranks and rank.gone != Gone.YES:
            before = (rank.gone, rank.kept)
            rank.gone, rank.kept = await self._host.leftovers_of(rank.id, ports)
            if before != (rank.gone, rank.kept):
                self._on_change(True)
            if rank.gone != Gone.YES:
                failed = rank.gone == Gone.UNKNOWN
                await asyncio.sleep(FAILED_CHECK_SECONDS if failed else LEFT_CHECK_SECONDS)
