"""The watch: one thread that sleeps until the shim or a peer is gone, or a signal has come.

The main thread may sit in a collective that never ends, where no Python code runs. So the end of a peer
is noticed here; the main thread is asked to end in order, and when it cannot, the process is ended.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from reconciler.wire.codec import WireError
from reconciler.wire.group import Leave
from reconciler.wire.launch import ExitCode, RankEnd

from .progress import ProgressPipe

ORDERLY_SECONDS = 1.0
"""Time for the main thread to end in order."""
HURRIED_SECONDS = 0.1
"""Shorter time if the system frees the rank's resources anyway: the next group waits for its end."""

LEAVE: str = Leave.TYPE  # type: ignore[attr-defined]

FrameHandler = Callable[[dict[str, Any]], None]


class Connection(Protocol):
    """A control connection, as far as the watch uses it."""

    def fileno(self) -> int:
        """Return the descriptor to wait for."""

    def take(self) -> int:
        """Take what has arrived. Raises ``OSError``, also at the connection's end."""

    def frames(self) -> list[dict[str, Any]]:
        """Return the frames that are complete and were not returned before. Raises ``OSError`` and ``WireError``."""


class Watch(threading.Thread):
    """Started once, from the main thread; takes over SIGTERM, SIGUSR1 and SIGINT."""

    def __init__(self, progress: ProgressPipe) -> None:
        super().__init__(name="watch", daemon=True)
        self.ending: RankEnd | None = None
        self._progress = progress
        self.orderly_seconds = ORDERLY_SECONDS
        self._on_terminate: Callable[[], None] | None = None
        self._over = False
        self._terminated = False
        self._poll = select.poll()
        self._shim: int | None = None
        self._peers: dict[int, _Peer] = {}
        self._wake, wake_end = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_end, False)
        self._wake_end = wake_end
        self._poll.register(self._wake, select.POLLIN)
        self._take_signals()

    def shim(self, descriptor: int) -> None:
        """End the rank (``ORPHANED``) when this pipe, its standard input, ends."""
        self._shim = descriptor
        self._add(descriptor)

    def peer(self, rank: int, connection: Connection, on_frame: FrameHandler) -> None:
        """Pass on the frames of a control connection, also those that are there already; end the rank (``PEER_LOST``)
        when the connection ends."""
        peer = self._peers[connection.fileno()] = _Peer(rank, connection, on_frame)
        peer.hear()
        self._add(connection.fileno())

    def ready(self, on_terminate: Callable[[], None]) -> None:
        """Call this on SIGTERM from now on, in the watch's thread, instead of ending the rank at once."""
        self._on_terminate = on_terminate

    def disarm(self) -> None:
        """Expect the rank's end from now on: later ends of connections are intended."""
        self._over = True

    def run(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._wake:
                    self._signals(os.read(self._wake, 256))
                elif descriptor == self._shim:
                    self._check_shim(descriptor)
                else:
                    self._watch_peer(self._peers[descriptor])

    def _add(self, descriptor: int) -> None:
        self._poll.register(descriptor, select.POLLIN)
        os.write(self._wake_end, b"\0")

    def _take_signals(self) -> None:
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, self._end_main_thread)
        signal.signal(signal.SIGTERM, lambda *_: None)

    def _end_main_thread(self, *_: object) -> None:
        if self.ending is not None and not self._over:
            raise self.ending

    def _signals(self, numbers: bytes) -> None:
        if signal.SIGTERM not in numbers or self._over:
            return
        self._terminated = True
        if self._on_terminate is None:
            self._end(RankEnd(ExitCode.OK, "stopped before it was ready"))
        else:
            self._on_terminate()

    def _check_shim(self, descriptor: int) -> None:
        if not os.read(descriptor, 4096):
            self._poll.unregister(descriptor)
            self._end(RankEnd(ExitCode.ORPHANED, "the shim is gone: standard input was closed"))

    def _watch_peer(self, peer: _Peer) -> None:
        try:
            peer.connection.take()
            peer.hear()
            return
        except (OSError, WireError) as error:
            problem = str(error)
        self._poll.unregister(peer.connection.fileno())
        if not peer.leaves:
            self._end(RankEnd(ExitCode.PEER_LOST, f"rank {peer.rank} is gone: {problem}"))

    def _end(self, ending: RankEnd) -> None:
        if self._over or self.ending is not None:
            return
        if self._terminated and ending.code == ExitCode.PEER_LOST:
            # All ranks of a group are stopped together; one of them is always the first to be gone.
            ending = RankEnd(ExitCode.OK, f"stopped as asked: {ending.sentence}")
        self.ending = ending
        self._progress.report_detail(ending.sentence)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        time.sleep(self.orderly_seconds)
        if not self._over:
            # The collective that holds the main thread never ends, so nothing can be freed in order.
            os._exit(ending.code)


class _Peer:
    def __init__(self, rank: int, connection: Connection, on_frame: FrameHandler) -> None:
        self.rank = rank
        self.connection = connection
        self.leaves = False
        """It has announced the end of the group, so the end of its connection is no loss."""
        self._on_frame = on_frame

    def hear(self) -> None:
        for frame in self.connection.frames():
            self.leaves = self.leaves or frame.get("type") == LEAVE
            self._on_frame(frame)
