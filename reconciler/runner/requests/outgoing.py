"""Sends over one connection of rank 0's socket, from any thread. The thread never waits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading


class Outgoing:
    """Writes as much as the socket takes at once; the event loop's thread writes the rest when there is room.

    The loop's own thread would have to be woken for each step, and would then share the interpreter with the thread that
    begins the next one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: socket.socket, bytes_max: int) -> None:
        """``connection`` does not block, and stays the caller's; ``bytes_max`` bounds the bytes that its reader has
        not read.

        Create it in the loop's thread.
        """
        self._loop = loop
        self._connection = connection.dup()  # stays open, whenever the loop closes its own
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._left = bytearray()
        self._closed = False
        self._drained = asyncio.Event()
        self._drained.set()

    def write(self, data: bytes) -> bool:
        """Send bytes after all earlier ones. Return False, once, when the reader is too far behind: nothing more is
        sent."""
        with self._lock:
            if self._closed:
                return True
            written = 0 if self._left else self._write(data)
            if written < len(data):
                if not self._left:
                    self._loop.call_soon_threadsafe(self._wait_for_room)
                self._left += data[written:]
            self._closed = len(self._left) > self._bytes_max
            return not self._closed

    async def drained(self) -> None:
        """Wait until all is written, in the loop's thread."""
        await asyncio.sleep(0)  # what a thread has left to the loop is known after this
        await self._drained.wait()

    def close(self) -> None:
        """Send nothing more, in the loop's thread; further calls have no effect."""
        with self._lock:
            self._closed = True
            if self._connection.fileno() >= 0:
                self._loop.remove_writer(self._connection)
                self._connection.close()
        self._drained.set()

    def _write(self, data: bytes | bytearray) -> int:
        """Return how much the socket took. One that is broken is shut down: then its reader ends too."""
        try:
            return self._connection.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
            return len(data)

    def _wait_for_room(self) -> None:
        with self._lock:
            if self._connection.fileno() >= 0:
                self._drained.clear()
                self._loop.add_writer(self._connection, self._go_on)

    def _go_on(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            del self._left[: self._write(self._left)]
            if not self._left:
                self._loop.remove_writer(self._connection)
                self._drained.set()
