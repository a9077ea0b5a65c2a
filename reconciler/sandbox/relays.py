"""Relays: connections between processes of emulated machines that go through the sandbox, which plays the cable.

A relay listens on a port of loopback for one connection, and connects it to its destination. Its creator decides which
data it passes on, and whether it announces the end of one side to the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

LOOPBACK = "127.0.0.1"
CHUNK_BYTES = 1 << 16
RETRY_SECONDS = 0.02
CONNECT_SECONDS = 60.0
"""Time for the destination to listen."""
BUFFER_BYTES = 1 << 20

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def is_listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    writer.close()
    return True


class Relay:
    """One connection. ``sent`` is called before data are passed on, with the sending side (0: the one that connected
    here). If it returns False, the data are dropped."""

    def __init__(
        self, target: int, announces_end: bool, sent: Callable[[int], bool] = lambda side: True
    ) -> None:
        self._target = target
        self._announces_end = announces_end
        self._sent = sent
        self._moves = asyncio.Event()
        self._moves.set()
        self._server: asyncio.Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._closed = False
        self.cut_at: float | None = None
        """The time since which nothing passes, by the clock of ``cut``."""

    async def start(self) -> int:
        """Return the port at which it waits for its one connection."""
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0, limit=BUFFER_BYTES)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self, at: float) -> None:
        """Hold back all data, without notice to either side."""
        self.cut_at = at if self.cut_at is None else self.cut_at
        self._moves.clear()

    def mend(self) -> None:
        """Deliver the held data, and everything after it."""
        self.cut_at = None
        self._moves.set()

    def reset(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def close(self) -> None:
        self._closed = True
        if self._server is not None:
            self._server.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.reset()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._server is not None
        if self._closed or self._task is not None:
            writer.close()
            return
        self._server.close()
        self._writers.append(writer)
        self._task = asyncio.create_task(self._run((reader, writer)))
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self, near: Pair) -> None:
        try:
            far = await self._connected()
            if far is None:
                self.reset()
                return
            self._writers.append(far[1])
            for _, writer in (near, far):
                writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(0, near[0], far[1]))
                both.create_task(self._pump(1, far[0], near[1]))
            for writer in self._writers:  # sends the remaining data
                writer.close()
        except BaseException:
            self.reset()
            raise

    async def _connected(self) -> Pair | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                while True:
                    with contextlib.suppress(OSError):
                        return await asyncio.open_connection(LOOPBACK, self._target, limit=BUFFER_BYTES)
                    await asyncio.sleep(RETRY_SECONDS)
        return None

    async def _pump(self, side: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy data from one side to the other until that side ends."""
        while True:
            try:
                chunk = await reader.read(CHUNK_BYTES)
            except OSError:
                chunk = b""
            wanted = bool(chunk) and self._sent(side)
            await self._moves.wait()
            if not chunk:
                break
            if wanted and not writer.is_closing():
                writer.write(chunk)
                with contextlib.suppress(
                    OSError
                ):  # that side is gone; this one does not learn that from its own writes
                    await writer.drain()
        if self._announces_end and not writer.is_closing():
            with contextlib.suppress(OSError):
                writer.write_eof()
