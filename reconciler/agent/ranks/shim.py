"""The shim: parent of one rank, and nothing else.

It outlives its agent, so that the exit status of a rank is never lost, and it is small, so that nothing in
it is likely to fail. It writes the state of the rank to ``state.json``, and sends it to agents over its socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any, List, NamedTuple, Optional, Set

from reconciler.agent.system import machine
from reconciler.agent.system.connection import Peer
from reconciler.agent.system.process import birth, signal_group, signal_process
from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.file_identity import FileIdentity, wait_until_removed
from reconciler.wire.launch import Exit, Phase, Progress
from reconciler.wire.node import SHIM_RECEIVES, ShimState, Terminate
from reconciler.wire.shortage import explained

from . import child
from .directory import RankDirectory
from .log import SEGMENT_BYTES_MAX, SEGMENTS_KEPT, RankLog, last_line

PUSH_SECONDS = 0.2
"""Shortest time between reports of steps and demand; phases and the end are reported at once."""
LINE_BYTES_MAX = 64 * 1024
LOST_GRACE_SECONDS = 3.0
"""Grace period if the rank's directory is gone: the rank is useless, and its memory may soon be needed."""
OWN_GRACE_SECONDS = 10.0
"""Time between SIGTERM and SIGKILL of the rank if a signal asks the shim to end."""
FAREWELL_SECONDS = 5.0
"""Longest wait for a slow agent to take the last message, which is also on disk."""
HELD_CHECK_SECONDS = 1.0
"""Seconds between checks of a killed rank whose end has not been reported."""
_READ_BYTES = 64 * 1024
_LAST_READS = 64
"""More reads than a full pipe needs: a process that left the rank's group may never stop writing."""
_log = logging.getLogger("agent")


class Lines:
    """Splits bytes into complete lines; drops the whole of a line that is too long."""

    def __init__(self) -> None:
        self._rest = b""
        self._overlong = False

    def feed(self, chunk: bytes) -> List[bytes]:
        """Return the lines that ``chunk`` completes."""
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        if complete and self._overlong:
            complete, self._overlong = complete[1:], False
        if len(self._rest) > LINE_BYTES_MAX:
            self._rest, self._overlong = b"", True
        return complete


class Shim:
    """One rank, from its start to its end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        directory: RankDirectory,
        standby: Optional[Standby] = None,
        held: Optional[RankDirectory] = None,
    ) -> None:
        """``held``: the same directory as this process holds it. Its path never leads to another directory in its place."""
        self._loop = loop
        self._standby = standby
        self._directory = directory
        self._held = held or directory
        self._rank_log = RankLog(self._held.path, _segment_bytes(self._held))
        self._lossy = False
        self._lines = Lines()
        self._peers: Set[Peer] = set()
        self._child: Optional[child.Child] = None
        self._push: Optional[asyncio.TimerHandle] = None
        self._kill: Optional[asyncio.TimerHandle] = None
        self._killed = ""
        """Why the shim has killed its rank; empty if it has not."""
        self._grace = 0.0
        """The grace period that the rank had before that."""
        self._ended = asyncio.Event()
        self._alone = asyncio.Event()
        self._state = ShimState(None, os.getpid(), time.time(), Progress(Phase.STARTING))

    async def run(self, listener: socket.socket) -> None:
        """Start the rank, and return once it has ended and agents know."""
        server = await self._loop.create_unix_server(self._accept, sock=listener)
        self._loop.add_signal_handler(signal.SIGTERM, self._terminate, OWN_GRACE_SECONDS)
        self._loop.add_signal_handler(signal.SIGCHLD, self._reap)
        self._held.write_state(self._state)
        self._start()
        standing = self._loop.create_task(self._watch_directory())
        await self._ended.wait()
        standing.cancel()
        server.close()
        for peer in self._peers:
            peer.close()
        if self._peers:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._alone.wait(), FAREWELL_SECONDS)

    async def _watch_directory(self) -> None:
        """End the rank when its directory is removed: no agent could find it again."""
        await wait_until_removed(self._directory.path)
        _log.error("%s was removed: ending its rank", self._directory.path)
        self._terminate(LOST_GRACE_SECONDS)

    # --- the rank's process ---

    def _start(self) -> None:
        self._child = self._standby_child() or self._start_child()
        for descriptor, read in ((self._child.output, self._output), (self._child.progress, self._progress)):
            os.set_blocking(descriptor, False)
            self._loop.add_reader(descriptor, read)
        self._change(dataclasses.replace(self._state, pid=self._child.pid))
        self._reap()

    def _start_child(self) -> child.Child:
        argv, env = read_program(self._directory)
        return child.start(argv, env, self._directory.path, self._at_gate)

    def _standby_child(self) -> Optional[child.Child]:
        """Return the standby process if it has this program and still runs."""
        if self._standby is None:
            return None
        waiting = self._standby.child
        if self._standby.program != read_program(self._directory) or not waiting.waits():
            waiting.end_unused()
            return None
        self._at_gate(waiting.pid)
        waiting.begin(self._directory.file("config.json"))
        return waiting

    def _at_gate(self, pid: int) -> None:
        born = birth(pid, machine.boot_id())
        self._held.write_process(pid, born or "")

    def _output(self) -> bool:
        assert self._child is not None
        chunk = _read(self._child.output)
        if chunk:
            self._append(chunk)
        elif chunk == b"":
            self._loop.remove_reader(self._child.output)
        return bool(chunk)

    def _progress(self) -> bool:
        assert self._child is not None
        chunk = _read(self._child.progress)
        for line in self._lines.feed(chunk or b""):
            self._on_progress(line)
        if chunk == b"":
            self._loop.remove_reader(self._child.progress)
        return bool(chunk)

    def _append(self, chunk: bytes) -> None:
        try:
            self._rank_log.write(chunk)
        except OSError as error:
            if not self._lossy:
                _log.warning("output of the rank is lost: %s", error)
            self._lossy = True

    def _on_progress(self, line: bytes) -> None:
        try:
            progress = from_wire(Progress, json.loads(line))
            if progress.phase not in Phase.ALL or progress.phase == Phase.EXITED:
                raise ValueError("{!r} is not a phase of a living rank".format(progress.phase))
        except (ValueError, RecursionError, WireError) as error:
            self._append("[shim] not understood on the progress pipe: {:.200}\n".format(str(error)).encode())
            return
        before = self._state.progress
        self._state = dataclasses.replace(self._state, progress=progress)
        if progress.phase != before.phase:
            self._change(self._state)
        elif progress != before and self._push is None:
            self._push = self._loop.call_later(PUSH_SECONDS, self._push_state)

    def _reap(self) -> None:
        assert self._child is not None
        if self._state.exit is not None:
            return
        pid, status = os.waitpid(self._child.pid, os.WNOHANG)
        if pid == 0:
            return
        self._end(pid, status)

    def _end(self, pid: int, status: int) -> None:
        """Handle the end of the rank, with its status from ``waitpid``: kill the processes that it left behind."""
        assert self._child is not None
        signal_group(pid, signal.SIGKILL)
        for read in (self._progress, self._output):
            for _ in range(_LAST_READS):
                if not read():
                    break
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        number = os.WTERMSIG(status) if code is None else None
        last = self._state.progress
        killed = self._killed if number == signal.SIGKILL else ""
        words = "" if number == signal.SIGKILL else self._last_line()  # nothing has a last word then
        detail = explained(self._child.problem or killed or last.detail or words)
        metal = "metal" in words.lower()
        grace = self._grace if killed else None
        ended = Exit(code, number, time.time(), detail, grace, metal, last.program)
        if self._kill is not None:
            self._kill.cancel()
        self._change(
            dataclasses.replace(
                self._state, exit=ended, progress=dataclasses.replace(last, phase=Phase.EXITED, demand=0)
            )
        )
        self._ended.set()

    def _last_line(self) -> str:
        try:
            return last_line(self._held.path)
        except OSError:
            return ""

    def _terminate(self, grace_seconds: float) -> None:
        """Send SIGTERM now (and SIGCONT, because a stopped process ignores it), and SIGKILL to all when the time is
        over.

        Another call can only shorten the time.
        """
        if self._child is None or self._state.exit is not None:
            return
        grace_seconds = max(0.0, grace_seconds)
        due = self._loop.time() + grace_seconds
        if self._kill is None:
            signal_process(self._child.pid, signal.SIGTERM)
            signal_process(self._child.pid, signal.SIGCONT)
        elif due >= self._kill.when():
            return
        else:
            self._kill.cancel()
        self._kill = self._loop.call_at(due, self._kill_rank, self._child.pid, grace_seconds)

    def _kill_rank(self, pid: int, grace_seconds: float) -> None:
        self._grace = grace_seconds
        self._killed = "it was asked to end and had not ended after {:g} s".format(grace_seconds)
        signal_group(pid, signal.SIGKILL)
        self._change(dataclasses.replace(self._state, killed=True))
        self._loop.call_later(HELD_CHECK_SECONDS, self._check_traced, pid)

    def _check_traced(self, pid: int) -> None:
        """Notice the end of a killed rank whose status a debugger withholds from its parent."""
        self._reap()
        if self._state.exit is not None:
            return
        if birth(pid, machine.boot_id()) is None:
            self._end(pid, signal.SIGKILL)
        else:
            self._loop.call_later(HELD_CHECK_SECONDS, self._check_traced, pid)

    # --- reports ---

    def _change(self, state: ShimState) -> None:
        """Record a change that must not be lost: on disk first, then to the agents."""
        self._state = state
        try:
            self._held.write_state(state)
        except OSError as error:
            _log.warning("state.json cannot be written: %s", error)
        self._push_state()

    def _push_state(self) -> None:
        if self._push is not None:
            self._push.cancel()
            self._push = None
        for peer in tuple(self._peers):
            if not peer.congested or self._state.exit is not None:
                peer.send(self._state)

    def _accept(self) -> Peer:
        peer = Peer("shim", SHIM_RECEIVES, self._on_message, self._on_connected, self._leave)
        peer.on_drained = lambda drained: drained.send(self._state)
        return peer

    def _on_connected(self, peer: Peer) -> None:
        self._peers.add(peer)
        self._alone.clear()
        peer.send(self._state)

    def _leave(self, peer: Peer) -> None:
        self._peers.discard(peer)
        if not self._peers:
            self._alone.set()

    def _on_message(self, peer: Peer, message: Any, request: Optional[int]) -> None:
        if isinstance(message, Terminate):
            self._terminate(message.grace_seconds)


def _read(descriptor: int) -> Optional[bytes]:
    """Return what a pipe contains now: None if nothing yet, empty at its end."""
    try:
        return os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return None


class Standby(NamedTuple):
    """A process that waits to become a rank, and its program."""

    program: child.Program
    child: child.Child


def _segment_bytes(directory: RankDirectory) -> int:
    """Return the length of a piece of the output. A job chooses how much of it is kept; the newest is."""
    try:
        job = directory.spec().config.job
    except (OSError, ValueError, WireError):
        job = None  # whoever starts the program reports it
    return SEGMENT_BYTES_MAX if job is None else max(1, job.limits.output_bytes // SEGMENTS_KEPT)


def read_program(directory: RankDirectory) -> child.Program:
    """Return the program of a rank, and its environment. Raises ``OSError``, ``ValueError`` or ``WireError``."""
    spec = directory.spec()
    return child.complete(spec.argv, spec.env, directory.path.parents[1])


def run(rank_directory: Path, listener: socket.socket, standby: Optional[Standby] = None) -> None:
    """Run as the shim of the rank in ``rank_directory``; returns after the rank has ended."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    path = Path(listener.getsockname())
    own = FileIdentity.at(str(path))
    os.chdir(rank_directory)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        shim = Shim(loop, RankDirectory(rank_directory), standby, held=RankDirectory(Path()))
        loop.run_until_complete(shim.run(listener))
    finally:
        loop.close()
        if not own.replaced:
            path.unlink()
