"""Rank 0's Unix socket: many connections, many requests on each; runs in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import socket
import stat
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from reconciler.runner.decode.answer import Answer
from reconciler.runner.decode.inbox import Inbox, Ticket
from reconciler.runner.decode.leader import is_last
from reconciler.runner.forms.matching import Forms, Matcher, compiling_thread
from reconciler.runner.model.adapter import Loaded
from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, WireError, agree, decode
from reconciler.wire.file_identity import FileIdentity
from reconciler.wire.frames import read
from reconciler.wire.generation import RANK_RECEIVES, Accepted, Cancel, Failed, Generate, Replaced
from reconciler.wire.launch import ExitCode, RankEnd
from reconciler.wire.measuring import Measure
from reconciler.wire.sampling import Sampling, known_of

from .event_frames import event_frame
from .held import hold
from .outgoing import Outgoing
from .prompt import Prompt, check_length, read_prompt
from .texts import TextReader
from .unanswerable import Unanswerable, invalid

CONNECTIONS_MAX = 256
HELLO_SECONDS = 10.0
BACKLOG_BYTES_MAX = 8 * 1024 * 1024
"""A reader who is further behind than this is dropped, and with it its requests."""
FLUSH_SECONDS = 5.0
UNREAD_BYTES_MAX = 64 * 1024 * 1024
"""Text of all requests together that wait to be tokenized."""
SHORT_BYTES_MAX = 16 * 1024
"""Shorter texts wait for at most one longer text, so that a short test request need not wait for all of them."""
_REASONS = {
    "overloaded": "too many requests are waiting here; try again later",
    "draining": "this rank is being stopped; use another",
}

Reading = tuple[Prompt, Matcher | None]

log = logging.getLogger("reconciler.runner")


class Server:
    """Turns frames into tickets for the inbox, and the loop's events into frames."""

    def __init__(
        self,
        path: str,
        context: int,
        loaded: Loaded,
        inbox: Inbox,
        forms: Forms,
        texts: TextReader | None = None,
    ) -> None:
        """``texts`` reads those whose vectors are wanted, where the model is for that and generates nothing."""
        self._path = path
        self._forms = forms
        self._texts = texts
        self._context = context
        self._loaded = loaded
        self._inbox = inbox
        self._loop = asyncio.new_event_loop()
        self._connections: set[_Connection] = set()
        # One at a time: tokenizers are not safe to share, and a long prompt must not hold up the socket.
        self._tokenizing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenize")
        self._long_turn = asyncio.Lock()
        # Beside it, because a form may take as long as the longest prompt.
        self._compiling = compiling_thread()
        self._unread = 0
        self._server: asyncio.Task[asyncio.Server]
        self._own: FileIdentity | None = None
        self._thread: threading.Thread

    def start(self) -> None:
        """Listen, with mode 0600. Raises ``RankEnd(CONFIG)`` when the path cannot be used."""
        listener = _listen(self._path)
        self._own = FileIdentity.at(self._path)
        self._server = self._loop.create_task(asyncio.start_unix_server(self._serve, sock=listener))
        self._thread = threading.Thread(target=self._run, name="socket", daemon=True)
        self._thread.start()

    def post(self, events: Mapping[Any, Sequence[object]]) -> None:
        """Send the events of one step, from the leader's thread; never waits."""
        for connection, answers in events.items():
            connection.send(answers)

    def stop(self) -> None:
        """Send what is left, close every connection and remove the socket."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(timeout=2 * FLUSH_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(FLUSH_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    async def _close(self) -> None:
        (await self._server).close()
        with contextlib.suppress(OSError):
            if self._own is not None and not self._own.replaced:
                os.unlink(self._path)  # noqa: PTH108 - the path is a socket's, not a document's
        flushing = [connection.flush() for connection in self._connections]
        await asyncio.gather(*flushing)
        for threads in (self._tokenizing, self._compiling):
            threads.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.close()
            return
        out = Outgoing(self._loop, writer.get_extra_info("socket"), BACKLOG_BYTES_MAX)
        connection = _Connection(self._loop, writer, out)
        self._connections.add(connection)
        try:
            connection.send([Hello("rank", SPOKEN)])
            async with asyncio.timeout(HELLO_SECONDS):
                await _check_hello(reader)
            while (frame := await read(reader)) is not None:
                self._on_frame(connection, frame)
        except WireError as error:
            log.warning("disconnected a client that violates the protocol: %s", error)
        except (OSError, TimeoutError):
            pass  # the peer is gone or silent, and its requests with it
        finally:
            self._connections.discard(connection)
            for ticket in connection.forget():
                self._inbox.cancel(ticket)
            out.close()
            writer.close()

    def _on_frame(self, connection: _Connection, frame: dict[str, Any]) -> None:
        request = frame.get("request")
        try:
            message = decode(frame, RANK_RECEIVES)
        except WireError as error:
            if frame.get("type") != "generate" or not isinstance(request, str):
                raise
            connection.check_new(request)
            connection.send([Failed(request, "invalid_request", str(error))])
            return
        if isinstance(message, Cancel):
            ticket = connection.cancel(message.request)
            if ticket is not None:
                self._inbox.cancel(ticket)
        elif isinstance(message, Generate):
            connection.check_new(message.request)
            self._open(connection, message)
        elif isinstance(message, Measure):
            connection.check_new(message.request)
            self._open_measure(connection, message)

    def _open_measure(self, connection: _Connection, measure: Measure) -> None:
        refusal = self._inbox.open()
        if refusal:
            connection.send([Failed(measure.request, refusal, _REASONS[refusal])])
            return
        unheard = Answer(Generate(measure.request, (), prompt=""), [], self._loaded.tokenizer)
        ticket = Ticket(connection, (), 0, 0, Sampling(), unheard, measure=measure)
        connection.requests[measure.request] = ticket
        self._inbox.submit(ticket)

    def _open(self, connection: _Connection, asked: Generate) -> None:
        own = known_of(self._loaded.sampling, asked.unset)
        generate = dataclasses.replace(asked, sampling=dataclasses.replace(asked.sampling, **own))
        try:
            self._check_purpose(generate)
            length = (
                self._texts.length(generate)
                if generate.texts is not None and self._texts is not None
                else check_length(generate, self._loaded.tokenizer, self._context)
            )
        except Unanswerable as error:
            connection.send([error.failed(generate.request)])
            return
        refusal = "overloaded" if self._unread + length > UNREAD_BYTES_MAX else self._inbox.open()
        if refusal:
            connection.send([Failed(generate.request, refusal, _REASONS[refusal])])
            return
        self._unread += length
        reading = self._loop.create_task(self._read(generate, length))
        connection.requests[generate.request] = reading
        reading.add_done_callback(lambda done: self._opened(connection, generate, length, done))

    def _check_purpose(self, generate: Generate) -> None:
        """Raise ``Unanswerable`` for what this model is not for."""
        if generate.texts is not None and self._texts is None:
            raise invalid(
                "this model generates text and is not for embeddings: use /v1/chat/completions", "model"
            )
        if self._texts is not None and generate.question is None:
            raise invalid("this model is for embeddings and generates no text: use /v1/embeddings", "model")

    async def _read(self, generate: Generate, length: int) -> Reading:
        """Return a request as token ids, and what its answer is held to. Raises ``Unanswerable``."""
        async with self._long_turn if length > SHORT_BYTES_MAX else contextlib.nullcontext():
            prompt = await self._loop.run_in_executor(self._tokenizing, self._read_prompt, generate)
        if prompt.asked is None:
            return prompt, None
        matcher = await self._loop.run_in_executor(
            self._compiling, hold, prompt.asked, generate.resume, self._forms
        )
        return prompt, matcher

    def _read_prompt(self, generate: Generate) -> Prompt:
        if generate.texts is not None and self._texts is not None:
            return self._texts.read(generate)
        return read_prompt(generate, self._loaded.tokenizer, self._loaded.vocabulary, self._context)

    def _opened(
        self, connection: _Connection, generate: Generate, length: int, reading: asyncio.Future[Reading]
    ) -> None:
        self._unread -= length
        ticket = None
        try:
            if connection.requests.get(generate.request) is reading:  # else it was cancelled in the meantime
                ticket = _accept(connection, generate, reading)
        except BaseException:
            connection.writer.transport.abort()
            raise
        finally:
            if ticket is None:
                self._inbox.abandon()
            else:
                self._inbox.submit(ticket)


def _accept(connection: _Connection, generate: Generate, reading: asyncio.Future[Reading]) -> Ticket | None:
    """Send a request's first events. Return its ticket, unless these were also its last events."""
    error = reading.exception()
    if error is not None:
        failed = (
            error.failed(generate.request)
            if isinstance(error, Unanswerable)
            else _unreadable(generate, error)
        )
        connection.send([failed])
        return None
    prompt, matcher = reading.result()
    sampling = generate.sampling if generate.unset else None
    counts = {**prompt.replaced, **(matcher.replaced if matcher is not None else {})}
    replaced = tuple(Replaced(kind, count) for kind, count in counts.items())
    accepted = Accepted(generate.request, prompt.tokens, prompt.text, sampling, prompt.token_texts, replaced)
    connection.send([accepted, *prompt.scored, *prompt.last])
    if prompt.last:
        return None
    ticket = Ticket(
        connection=connection,
        prompt=prompt.tokens + generate.resume,
        tokens_max=prompt.tokens_max,
        position=len(generate.resume),
        sampling=generate.sampling,
        answer=prompt.answer,
        ending=generate.ending,
        logprobs=generate.logprobs,
        scores=generate.scores if prompt.scored else None,
        matcher=matcher,
        client=generate.client,
        max_stall_seconds=generate.max_stall_seconds,
        texts=prompt.texts,
        dimensions=generate.texts.dimensions if generate.texts is not None else None,
    )
    connection.requests[generate.request] = ticket
    return ticket


def _unreadable(generate: Generate, error: BaseException) -> Failed:
    # Not ``internal``, which is tried again: the next group would fail to read it as well.
    log.error("request %s cannot be read", generate.request, exc_info=error)
    return Failed(
        generate.request, "invalid_request", f"it cannot be read: {type(error).__name__}: {error!s:.200}"
    )


@dataclasses.dataclass(eq=False)
class _Connection:
    """One client. ``requests`` are open; what will be read of them while they are being tokenized."""

    loop: asyncio.AbstractEventLoop
    writer: asyncio.StreamWriter
    out: Outgoing
    requests: dict[str, Ticket | asyncio.Future[Reading]] = dataclasses.field(default_factory=dict)

    def send(self, events: Sequence[object]) -> None:
        """Write some events in one go, from any thread, or drop the connection when its reader is too far behind."""
        for event in events:
            if is_last(event):
                self.requests.pop(getattr(event, "request", ""), None)
        if not self.out.write(b"".join(map(event_frame, events))):
            self.loop.call_soon_threadsafe(self.writer.transport.abort)

    def check_new(self, request: str) -> None:
        """Raise ``WireError`` if the id belongs to an open request."""
        if request in self.requests:
            raise WireError(f"request {request!r} is still open on this connection")

    def cancel(self, request: str) -> Ticket | None:
        """Return the ticket to cancel, if there is one yet; the request produces no further events."""
        opened = self.requests.get(request)
        if isinstance(opened, Ticket):
            return opened
        if opened is not None:
            del self.requests[request]
            opened.cancel()
        return None

    def forget(self) -> list[Ticket]:
        """Return all open requests, which nobody waits for any more."""
        tickets = [ticket for request in tuple(self.requests) if (ticket := self.cancel(request))]
        self.requests.clear()
        return tickets

    async def flush(self) -> None:
        """Give the reader a moment for what is left, then close."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                await self.out.drained()
                self.out.close()
                self.writer.close()
                await self.writer.wait_closed()


async def _check_hello(reader: asyncio.StreamReader) -> None:
    frame = await read(reader)
    hello = decode(frame or {}, {"hello": Hello})
    agree(SPOKEN, hello.versions)


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode):  # noqa: PTH110, PTH116
            os.unlink(path)  # noqa: PTH108 - left over from a rank that was killed
        listener.bind(path)
        os.chmod(path, 0o600)  # noqa: PTH101 - before listen: nobody can connect until then
        listener.listen(CONNECTIONS_MAX)
    except OSError as error:
        listener.close()
        raise RankEnd(ExitCode.CONFIG, f"cannot listen on {path}: {error}") from None
    return listener
