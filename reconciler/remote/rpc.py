"""Requests and answers over a stream of frames: ``"call": n`` and ``"reply": n``.

Controller and agent talk like this, and so do command line and controller. Every request has a time-out, and the end of
a connection ends all its requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self

from reconciler import descriptors
from reconciler.errors import Invalid, ReconcilerError, Refused, Silent, Unreachable
from reconciler.wire import SPOKEN, frames
from reconciler.wire.codec import Hello, WireError, agree, decode, to_wire
from reconciler.wire.codec import Refused as RefusedMessage
from reconciler.wire.file_identity import FileIdentity

log = logging.getLogger(__name__)

HELLO_SECONDS = 10.0
REQUESTS_MAX = 64
"""The most requests of one connection at a time; a peer with more has to wait."""
CONNECTIONS_MAX = 64
WRITE_SECONDS = 30.0
"""The longest time for a peer to read messages to it."""
LOOK_SECONDS = 1.0
"""The interval at which a server checks that its socket still exists."""


class RpcClient:
    """The requesting side of a connection. ``vocabulary`` has the messages that this side accepts."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, vocabulary: Mapping[str, type]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._vocabulary = vocabulary
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._reason = "the connection is closed"
        self._silent = False
        """True if an answer is overdue and nothing has arrived since."""
        self.closed = asyncio.Event()
        """Set once either side has ended the connection."""

    async def open(self, role: str, seconds: float = HELLO_SECONDS) -> Self:
        """Exchange ``Hello`` and start to listen. Raises ``Unreachable``, or ``Silent`` if no greeting arrives in time;
        then the connection is closed."""
        try:
            async with asyncio.timeout(seconds):
                await _exchange_hello(self._reader, self._writer, role)
        except TimeoutError as error:
            self._writer.transport.abort()
            raise Silent(str(error) or f"no greeting within {seconds:g} s") from None
        except (OSError, WireError) as error:
            self._writer.close()
            raise Unreachable(f"no greeting: {error}") from error
        self._listening = asyncio.create_task(self._listen())
        return self

    async def request(self, message: Any, *, timeout: float) -> Any:  # noqa: ASYNC109 - every caller must name a bound
        """Send a message and return its answer.

        Raises ``Refused`` with the other side's reason, ``Silent`` if no answer comes within ``timeout`` seconds, or
        ``Unreachable`` at the end of the connection: the request may have been carried out or not.
        """
        if self.closed.is_set():
            raise self._closed_error(self._reason)
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                self._writer.write(frames.encode({**to_wire(message), "call": number}))
                await self._writer.drain()
                reply = await answer
        except TimeoutError:
            self._silent = True
            raise Silent(f"no answer to {message.TYPE} within {timeout:g} s") from None
        except OSError as error:
            raise Unreachable(f"{message.TYPE} could not be sent: {error}") from error
        finally:
            answer.cancel()
            del self._waiting[number]
        if isinstance(reply, RefusedMessage):
            raise Refused(reply.code, reply.text)
        return reply

    def pushed(self, message: Any) -> None:
        """Handle a message that is not an answer. Override this if there are such messages."""

    async def close(self) -> None:
        """End the connection; its waiting requests raise ``Unreachable``."""
        self._end("the connection was closed by this side")
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _listen(self) -> None:
        reason = "the other side closed the connection"
        try:
            while (frame := await frames.read(self._reader)) is not None:
                self._on_frame(frame)
        except (OSError, WireError) as error:
            reason = str(error)
            self._silent |= isinstance(error, TimeoutError)  # the machine was lost, not the process there
        finally:
            self._end(reason)

    def _closed_error(self, reason: str) -> Unreachable:
        """Return the error for unanswered requests: a side that was silent when the connection ended is not known to be
        down."""
        return Silent(reason) if self._silent else Unreachable(reason)

    def _on_frame(self, frame: dict[str, Any]) -> None:
        self._silent = False
        number = frame.get("reply")
        try:
            message = decode(frame, self._vocabulary)
        except WireError as error:
            waiting = self._waiting.get(number) if isinstance(number, int) else None
            if waiting is not None and not waiting.done():
                waiting.set_exception(Unreachable(f"invalid answer: {error}"))
            return
        if number is None:
            self.pushed(message)
        elif (waiting := self._waiting.get(number)) is not None and not waiting.done():
            waiting.set_result(message)

    def _end(self, reason: str) -> None:
        if not self.closed.is_set():
            self._reason = reason
            self.closed.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._closed_error(reason))
        self._writer.transport.abort()


async def _exchange_hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, role: str) -> None:
    writer.write(frames.encode(to_wire(Hello(role, SPOKEN))))
    await writer.drain()
    frame = await frames.read(reader)
    if frame is None:
        raise WireError("the other side closed the connection")
    hello = decode(frame, {"hello": Hello})
    agree(SPOKEN, hello.versions)


class RpcServer:
    """Answers requests at a Unix socket (mode 0600), for many connections at a time, until it is closed.

    A fault in ``dispatch`` ends its connection, and goes to the loop's exception handler. Without the descriptors to
    start a process, it answers nobody, so that the supervisor starts another process.
    """

    def __init__(
        self,
        path: Path,
        vocabulary: Mapping[str, type],
        dispatch: Callable[[Any], Awaitable[Any]],
        *,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._path = path
        self._vocabulary = vocabulary
        self._dispatch = dispatch
        self._look_seconds = look_seconds
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._own: FileIdentity | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen, and replace a socket that a dead process has left there. Raises ``OSError``."""
        self._path.unlink(missing_ok=True)
        await self._listen()
        self._watching = asyncio.create_task(self._watch(), name=f"watch {self._path}")

    async def _listen(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self._path)
        self._path.chmod(0o600)
        self._own = FileIdentity.at(str(self._path))

    async def _watch(self) -> None:
        """Listen again if the socket was removed, because nobody could connect. Leave another process's socket
        alone."""
        complaint = ""
        while True:
            await asyncio.sleep(self._look_seconds)
            if os.path.lexists(self._path):
                continue
            if self._server is not None:
                self._server.close()
            try:
                await self._listen()
            except OSError as error:
                if str(error) != complaint:
                    log.error("%s was removed, and cannot be made again: %s", self._path, error)
                complaint = str(error)
            else:
                log.warning("%s was removed: listening there again", self._path)
                complaint = ""

    async def close(self) -> None:
        """Stop listening, and end every connection with its running requests."""
        if self._watching is not None:
            self._watching.cancel()
        if self._server is None:
            return
        ours = self._own is not None and not self._own.replaced
        self._server.close()
        if ours:
            self._path.unlink(missing_ok=True)
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= CONNECTIONS_MAX or not descriptors.are_spare():
            writer.transport.abort()
            return
        answering = serve(reader, writer, self._vocabulary, self._dispatch)
        connection = asyncio.create_task(answering)
        self._connections.add(connection)
        connection.add_done_callback(self._ended)

    def _ended(self, connection: asyncio.Task[None]) -> None:
        self._connections.discard(connection)
        fault = None if connection.cancelled() else connection.exception()
        if fault is not None:
            context = {"message": "a request failed unexpectedly", "exception": fault}
            connection.get_loop().call_exception_handler(context)


async def serve(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    vocabulary: Mapping[str, type],
    dispatch: Callable[[Any], Awaitable[Any]],
) -> None:
    """Answer the requests of one connection until it ends, then cancel running ones.

    ``dispatch`` gets a message and returns the answer; requests run concurrently. A ``ReconcilerError`` of it becomes
    ``Refused``. Any other exception ends the connection and is raised here, in an ``ExceptionGroup``.
    """
    room = asyncio.Semaphore(REQUESTS_MAX)
    tasks: set[asyncio.Task[None]] = set()

    def done(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        room.release()

    try:
        async with asyncio.TaskGroup() as work:
            async for frame in _received(reader, writer):
                await room.acquire()
                task = work.create_task(_answer(writer, vocabulary, dispatch, frame))
                tasks.add(task)
                task.add_done_callback(done)
            for task in tasks:
                task.cancel()
    finally:
        writer.close()
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await writer.wait_closed()
        except (OSError, TimeoutError):
            writer.transport.abort()


async def _received(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> AsyncIterator[dict[str, Any]]:
    """Yield the frames after the greeting, until the connection ends or a frame is invalid."""
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            await _exchange_hello(reader, writer, "controller")
        while (frame := await frames.read(reader)) is not None:
            yield frame
    except (OSError, WireError, TimeoutError):
        return


async def _answer(
    writer: asyncio.StreamWriter,
    vocabulary: Mapping[str, type],
    dispatch: Callable[[Any], Awaitable[Any]],
    frame: dict[str, Any],
) -> None:
    number = frame.get("call")
    if not isinstance(number, int):
        return
    try:
        reply = await dispatch(decode(frame, vocabulary))
    except WireError as error:
        reply = RefusedMessage("Malformed", str(error))
    except Refused as error:
        reply = RefusedMessage(error.code, str(error))
    except ReconcilerError as error:
        code = "Invalid" if isinstance(error, Invalid) else type(error).__name__
        reply = RefusedMessage(code, str(error))
    try:
        writer.write(_encoded(reply, number))
        async with asyncio.timeout(WRITE_SECONDS):
            await writer.drain()
    except (OSError, TimeoutError):
        writer.transport.abort()


def _encoded(reply: Any, number: int) -> bytes:
    try:
        return frames.encode({**to_wire(reply), "reply": number})
    except WireError as error:
        return frames.encode({**to_wire(RefusedMessage("TooLong", str(error))), "reply": number})
