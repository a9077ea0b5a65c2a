"""A rank's door: anyone may knock, and a stranger cannot keep members out.

A stranger, such as a scanner or a client with a wrong address, is shown out without a word. This is no error. The
bytes and seconds of each guest and the number of guests are limited; one guest too many makes the oldest silent one
leave.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from reconciler.wire.codec import WireError

STRANGER_BYTES_MAX = 16 * 1024
"""A guest that sends more before it has shown membership is shown out."""
STRANGER_SECONDS = 10.0
STRANGERS_MAX = 64
BACKLOG = 1024
"""Connections that the kernel keeps until they are accepted; it may have a lower limit."""
LOOK_SECONDS = 1.0

Proof = TypeVar("Proof", covariant=True)

log = logging.getLogger("reconciler.runner")


class Guest(Protocol[Proof]):
    """The talk on one connection until the other side has shown membership."""

    def take(self) -> int:
        """Take what the socket has; return the number of bytes. Raises ``OSError`` and ``WireError``."""

    def proof(self) -> Proof | None:
        """Answer the bytes taken; return the proof of membership, None while it is not complete. Raises ``OSError``,
        and ``WireError`` for a stranger."""


class _Standing(Generic[Proof]):
    def __init__(self, connection: socket.socket, guest: Guest[Proof]) -> None:
        self.connection = connection
        self.guest = guest
        self.bytes = 0
        self.until = time.monotonic() + STRANGER_SECONDS

    def advance(self) -> Proof | None:
        self.bytes += self.guest.take()
        if self.bytes > STRANGER_BYTES_MAX:
            raise WireError("not a rank")
        return self.guest.proof()


class Door(Generic[Proof]):
    """Serves everybody at ``listeners``, which stay the caller's, until it is closed."""

    def __init__(
        self, listeners: Sequence[socket.socket], welcome: Callable[[socket.socket], Guest[Proof]]
    ) -> None:
        """``welcome`` makes the guest of a connection, which does not block."""
        self.strangers = 0
        """Guests that were shown out."""
        self._welcome = welcome
        self._listeners = listeners
        self._standing: dict[int, _Standing[Proof]] = {}
        self._selector = selectors.DefaultSelector()
        for listener in listeners:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ)

    def admitted(self, until: float) -> Iterator[tuple[Proof, socket.socket]]:
        """Yield each proof of membership with its connection, which is then the caller's. End at ``until``, a time of
        ``time.monotonic``."""
        while (left := until - time.monotonic()) > 0:
            events = self._selector.select(min(LOOK_SECONDS, left))
            ready = [key.fileobj for key, _ in events]
            for connection in ready:
                if connection not in self._listeners:
                    yield from self._hear(self._standing[connection.fileno()])  # type: ignore[union-attr]
            for listener in self._listeners:
                if listener in ready:
                    yield from self._accept(listener)
            self._show_out(s for s in [*self._standing.values()] if s.until < time.monotonic())

    def close(self) -> None:
        """Show out all guests that are still there, and log the number of strangers."""
        self._show_out([*self._standing.values()])
        self._selector.close()
        if self.strangers:
            log.info("%d connections of strangers were shown out", self.strangers)

    def _accept(self, listener: socket.socket) -> Iterator[tuple[Proof, socket.socket]]:
        for _ in range(STRANGERS_MAX):  # then the others are heard again
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # nobody is left, or it was gone before it was served
            connection.setblocking(False)
            standing = _Standing(connection, self._welcome(connection))
            self._standing[connection.fileno()] = standing
            self._selector.register(connection, selectors.EVENT_READ)
            yield from self._hear(standing)
            if len(self._standing) > STRANGERS_MAX:
                self._show_out([min(self._standing.values(), key=lambda s: (s.bytes > 0, s.until))])

    def _hear(self, standing: _Standing[Proof]) -> Iterator[tuple[Proof, socket.socket]]:
        try:
            proof = standing.advance()
        except BlockingIOError:
            return
        except (OSError, WireError):
            self._show_out([standing])
            return
        if proof is not None:
            self._forget(standing)
            yield proof, standing.connection

    def _show_out(self, leaving: Sequence[_Standing[Proof]] | Iterator[_Standing[Proof]]) -> None:
        for standing in leaving:
            self.strangers += 1
            self._forget(standing)
            standing.connection.close()

    def _forget(self, standing: _Standing[Proof]) -> None:
        self._selector.unregister(standing.connection)
        del self._standing[standing.connection.fileno()]


def listen(host: str, port: int) -> socket.socket:
    """Return a listener; with port 0 at a port that the kernel chooses. Raises ``OSError``."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with contextlib.ExitStack() as failing:
        failing.callback(listener.close)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        failing.pop_all()
    return listener
