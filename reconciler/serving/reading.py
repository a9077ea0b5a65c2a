"""Watches whether the client of a connection reads its answer, and whether it is still connected."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from starlette.types import Scope

from .limiter import ConnectionLimits

SCOPE_KEY = "reading"
"""The key of the connection's ``Reading`` in the ``state`` of a request's scope."""


def _tell_nobody(unread: bool = False) -> None:
    return


class Reading:
    """Watches one connection while its socket takes no more bytes, between ``pause`` and ``resume``.

    A client reads as long as fewer bytes wait for it at each look, however slowly.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        waiting_bytes: Callable[[], int],
        end: Callable[[], None],
        limits: ConnectionLimits,
    ) -> None:
        self.tell: Callable[[bool], None] = _tell_nobody
        """Called when the client has read nothing for ``unread_seconds``, and when it reads again."""
        self.tell_gone: Callable[[], None] = _tell_nobody
        """Called when the connection is closed."""
        self.is_gone = False
        self._loop = loop
        self._waiting_bytes = waiting_bytes
        self._end = end
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._unread = False
        self._fewest = 0
        self._read_at = 0.0

    def pause(self) -> None:
        """The socket takes no more bytes."""
        self.resume()
        self._fewest, self._read_at = self._waiting_bytes(), self._loop.time()
        self._look_later()

    def resume(self) -> None:
        """The socket takes bytes again, or is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._say(unread=False)

    def gone(self) -> None:
        """The connection is closed."""
        self.is_gone = True
        self.tell_gone()

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(self._limits.unread_seconds, self._look)

    def _look(self) -> None:
        now, waiting = self._loop.time(), self._waiting_bytes()
        if waiting < self._fewest:
            self._fewest, self._read_at = waiting, now
        if now - self._read_at >= self._limits.unread_end_seconds:
            self._timer = None
            self._end()
            return
        self._say(unread=self._read_at < now)
        self._look_later()

    def _say(self, unread: bool) -> None:
        if unread is not self._unread:
            self._unread = unread
            self.tell(unread)


@contextlib.contextmanager
def told_of_client(scope: Scope, tell: Callable[[bool], None], gone: Callable[[], None]) -> Iterator[None]:
    """Call ``tell`` whenever the client of a request stops or continues reading its answer, and ``gone`` when it
    disconnects, or at once if it has already."""
    reading: Reading = scope["state"][SCOPE_KEY]
    reading.tell, reading.tell_gone = tell, gone
    if reading.is_gone:
        gone()
    try:
        yield
    finally:
        reading.tell = reading.tell_gone = _tell_nobody
