"""Commands with their output, and streams to Unix sockets of the machine, over an SSH connection."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Sequence
from typing import Any, cast

import asyncssh

from reconciler.remote.commands import Completed

from .login_shell import ERR_MARK, OUT_MARK, Output, ShellFailed, command_line

STARTUP_SECONDS = 10.0
"""The time for a login shell to reach the command. Then an end of input is tried, because a start-up file may wait for
one."""
RESUMED_SECONDS = 2.0
"""A shell that reaches the command so soon afterwards was waiting for it."""
OUTPUT_BYTES_MAX = 1024 * 1024
"""The most output of a command, for each stream. A command that prints more is ended."""
STREAM_BYTES_MAX = 256 * 1024
"""The most bytes that are read ahead; beyond that, the other side has to wait."""


class TooLong(Exception):
    """A command printed more than the limit."""


class _Command(asyncssh.SSHClientSession[bytes]):
    """Collects the output of a command until it has ended."""

    def __init__(self) -> None:
        self._out, self._err = Output(OUT_MARK), Output(ERR_MARK)
        self._status: int | None = None
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[None] = loop.create_future()
        """Done once the login shell has reached the command, or the channel has ended."""
        self.ended: asyncio.Future[Completed] = loop.create_future()

    @property
    def shell(self) -> str:
        """Return the path of the login shell; empty before the command has started."""
        return self._out.rest_of_mark

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        taken = self._out if datatype is None else self._err
        taken.feed(data)
        if self._out.begun and not self.started.done():
            self.started.set_result(None)
        if taken.begun and len(taken.data) > OUTPUT_BYTES_MAX and not self.ended.done():
            self.ended.set_exception(TooLong(f"it printed more than {OUTPUT_BYTES_MAX} bytes"))

    def exit_status_received(self, status: int) -> None:
        self._status = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._status = 128 + _number(signal)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.started.done():
            self.started.set_result(None)
        if self.ended.done():
            return
        if self._status is None:
            self.ended.set_exception(TimeoutError(f"the connection has ended: {exc or 'without a status'}"))
        elif not self._out.begun:
            said = (self._err.data or self._out.data).decode("utf-8", "replace").strip()
            self.ended.set_exception(
                ShellFailed(
                    f"ended with status {self._status} before it ran the command, and printed {said[-300:]!r}"
                )
            )
        else:
            out, err = (
                part.data.decode("utf-8", "replace") if part.begun else "" for part in (self._out, self._err)
            )
            self.ended.set_result(Completed(self._status, out, err))


def _number(name: str) -> int:
    with contextlib.suppress(KeyError):
        return signal.Signals[f"SIG{name}"].value
    return 127


async def run(
    connection: asyncssh.SSHClientConnection, argv: Sequence[str], stdin: bytes, seconds: float
) -> Completed:
    """Run a command there, with ``LC_ALL=C``, and wait for its end.

    Cancelling the call also ends the command, if that is possible. Raises ``TimeoutError`` after ``seconds``, with a
    text if the command has not begun, or if the connection is lost; ``TooLong``; ``ShellFailed`` if the login shell
    does not reach the command, or has taken its input; ``OSError`` and ``asyncssh.Error``.
    """
    session = _Command()
    line = command_line(argv)
    chan = await _opened(connection.create_session(lambda: session, line, encoding=None, request_pty=False))
    try:
        waited = await _give(session, chan, stdin, seconds)
        ended, _ = await asyncio.wait({session.ended}, timeout=seconds - waited)
        if not ended:
            late = ShellFailed(f"has not come to the command within {seconds:.3g} s")
            raise TimeoutError("" if session.started.done() else str(late))
        return session.ended.result()
    finally:
        if not session.ended.done() or session.ended.exception():
            with contextlib.suppress(OSError):
                chan.kill()
        session.ended.cancel()
        chan.abort()


async def _give(session: _Command, chan: Any, stdin: bytes, seconds: float) -> float:
    """Give a command its input once it has started. Return the duration in seconds.

    Before the start, a start-up file that reads would take it. After a while, an empty input is ended, so that such a
    file continues and is detected. Raises ``ShellFailed``.
    """
    patience = seconds if stdin else min(STARTUP_SECONDS, seconds)
    started, _ = await asyncio.wait({session.started}, timeout=patience)
    if stdin and not started:
        return seconds
    with contextlib.suppress(OSError):  # it has ended before reading everything: its status says why
        chan.write(stdin)
        chan.write_eof()
    if started:
        return 0.0
    resumed, _ = await asyncio.wait({session.started}, timeout=RESUMED_SECONDS)
    if resumed and session.shell:
        raise ShellFailed("has a start-up file that waits for input", session.shell)
    return STARTUP_SECONDS


class Held(_Command):
    """A long-running command. ``begun`` is done with status 0 at its first output, or with its result if it ends
    before."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: asyncio.Future[Completed] = asyncio.get_running_loop().create_future()
        self.ended.add_done_callback(self._on_closed)

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if self.begun.done():
            return  # nobody reads it
        super().data_received(data, datatype)
        if self._out.begun and self._out.data:
            self.begun.set_result(Completed(0, "", ""))

    def eof_received(self) -> bool:
        """Keep the channel open: the other side stops sending but continues."""
        return True

    def _on_closed(self, ended: asyncio.Future[Completed]) -> None:
        error = ended.exception()
        if self.begun.done():
            return
        if error is not None:
            self.begun.set_exception(error)
        else:
            self.begun.set_result(ended.result())


async def hold(connection: asyncssh.SSHClientConnection, argv: Sequence[str]) -> Held:
    """Run a command with an input that stays open as long as the connection. Raises ``asyncssh.Error``."""
    session = Held()
    line = command_line(argv)
    await _opened(connection.create_session(lambda: session, line, encoding=None, request_pty=False))
    return session


async def _opened(opening: Coroutine[Any, Any, tuple[Any, Any]]) -> Any:
    """Return the opened channel. If nobody waits for it any longer, it is closed once it is open."""
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
    """A channel, which a protocol uses like a socket."""

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
        return cast(asyncio.Transport, Pipe(self._chan))

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


class Pipe:
    """The part of a transport that streams and protocols use, on top of a channel. As with sockets, writing after the end
    raises nothing."""

    def __init__(self, chan: asyncssh.SSHUNIXChannel[bytes] | asyncssh.SSHClientChannel[bytes]) -> None:
        self._chan = chan
        self.abort = chan.abort
        self.close = chan.close
        self.is_closing = chan.is_closing
        self.get_extra_info = chan.get_extra_info
        self.pause_reading = chan.pause_reading
        self.resume_reading = chan.resume_reading
        self.set_write_buffer_limits = chan.set_write_buffer_limits

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
