"""Commands with their output, and streams to Unix sockets of the machine, over an SSH connection."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, cast

import asyncssh

OUTPUT_BYTES_MAX = 1024 * 1024
"""Most output of a command, for each of its streams. A command that prints more is ended."""
STREAM_BYTES_MAX = 256 * 1024
"""Most bytes that are read ahead; beyond that the other side has to wait."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that has ended."""

    status: int
    """Its exit status, or 128 plus the number of the signal that ended it."""
    out: str
    err: str


class TooLong(Exception):
    """A command printed more than is taken."""


class _Command(asyncssh.SSHClientSession[bytes]):
    """Takes what a command prints, until it has ended."""

    def __init__(self) -> None:
        self._chan: asyncssh.SSHClientChannel[bytes] | None = None
        self._out, self._err = bytearray(), bytearray()
        self._status: int | None = None
        self.ended: asyncio.Future[Completed] = asyncio.get_running_loop().create_future()

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self._chan = chan

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        taken = self._out if datatype is None else self._err
        taken += data
        if len(taken) > OUTPUT_BYTES_MAX and not self.ended.done():
            self.ended.set_exception(TooLong(f"it printed more than {OUTPUT_BYTES_MAX} bytes"))

    def exit_status_received(self, status: int) -> None:
        self._status = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._status = 128 + _number(signal)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.ended.done():
            return
        if self._status is None:
            self.ended.set_exception(TimeoutError(f"the connection has ended: {exc or 'without a status'}"))
            return
        out, err = (part.decode("utf-8", "replace") for part in (self._out, self._err))
        self.ended.set_result(Completed(self._status, out, err))


def _number(name: str) -> int:
    with contextlib.suppress(KeyError):
        return signal.Signals[f"SIG{name}"].value
    return 127


async def run(connection: asyncssh.SSHClientConnection, command: str, stdin: bytes) -> Completed:
    """Run a command, which the user's shell there takes apart, and wait for its end.

    A caller that is cancelled leaves nothing behind that it can end. Raises ``TooLong``; ``OSError`` and
    ``asyncssh.Error`` where the connection does not last.
    """
    session = _Command()
    chan = await _opened(
        connection.create_session(lambda: session, command, encoding=None, request_pty=False)
    )
    try:
        with contextlib.suppress(OSError):  # it has ended before it had read all: its status says why
            chan.write(stdin)
            chan.write_eof()
        return await session.ended
    finally:
        if not session.ended.done() or session.ended.cancelled() or session.ended.exception():
            with contextlib.suppress(OSError):
                chan.kill()
        chan.abort()


class Held(_Command):
    """A command that lasts: ``begun`` is done when it says something, with status 0, or when it has ended before."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: asyncio.Future[Completed] = asyncio.get_running_loop().create_future()
        self.ended.add_done_callback(self._on_closed)

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if self.begun.done():
            return  # nobody listens any more
        super().data_received(data, datatype)
        if datatype is None:
            self.begun.set_result(Completed(0, "", ""))

    def eof_received(self) -> bool:
        """Keep the channel open: the other side sends nothing more but continues."""
        return True

    def _on_closed(self, ended: asyncio.Future[Completed]) -> None:
        error = ended.exception()
        if self.begun.done():
            return
        if error is not None:
            self.begun.set_exception(error)
        else:
            self.begun.set_result(ended.result())


async def hold(connection: asyncssh.SSHClientConnection, command: str) -> Held:
    """Run a command with an input that does not end before the connection does. Raises ``asyncssh.Error``."""
    session = Held()
    await _opened(connection.create_session(lambda: session, command, encoding=None, request_pty=False))
    return session


async def _opened(opening: Coroutine[Any, Any, tuple[Any, Any]]) -> Any:
    """Return the opened channel. If nobody waits for it any more, it is closed once it is open."""
    task = asyncio.create_task(opening)
    try:
        chan, _ = await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_abandon)
        raise
    return chan


def _abandon(task: asyncio.Task[tuple[Any, Any]]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result()[0].abort()


class _Stream(asyncssh.SSHUNIXSession[bytes]):
    """A channel, for a protocol that takes it for a socket."""

    def __init__(self, protocol: asyncio.StreamReaderProtocol) -> None:
        self._protocol = protocol
        self._chan: asyncssh.SSHUNIXChannel[bytes] | None = None

    def connection_made(self, chan: asyncssh.SSHUNIXChannel[bytes]) -> None:
        self._chan = chan

    def session_started(self) -> None:
        self._protocol.connection_made(self.transport)

    @property
    def transport(self) -> asyncio.Transport:
        assert self._chan is not None
        return cast(asyncio.Transport, _Pipe(self._chan))

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        self._protocol.data_received(data)

    def eof_received(self) -> bool:
        return bool(self._protocol.eof_received())

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the channel; an error means that the connection was lost."""
        self._protocol.connection_lost(exc and TimeoutError(f"the connection was lost: {exc}"))


class _Pipe:
    """The part of a transport that streams use, on top of a channel. As with sockets, writing after the end raises
    nothing."""

    def __init__(self, chan: asyncssh.SSHUNIXChannel[bytes]) -> None:
        self._chan = chan
        self.abort = chan.abort
        self.close = chan.close
        self.is_closing = chan.is_closing
        self.get_extra_info = chan.get_extra_info
        self.pause_reading = chan.pause_reading
        self.resume_reading = chan.resume_reading

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._chan.write(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        with contextlib.suppress(OSError):
            self._chan.write_eof()


async def open_stream(
    connection: asyncssh.SSHClientConnection, path: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to a Unix socket of the machine, as asyncio streams.

    Its end is an end of file; only the loss of the connection is an error, ``TimeoutError``. Raises
    ``asyncssh.Error`` if it cannot be opened.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=STREAM_BYTES_MAX, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    session = _Stream(protocol)
    await _opened(connection.create_unix_connection(lambda: session, path, encoding=None))
    return reader, asyncio.StreamWriter(session.transport, protocol, reader, loop)
