"""A scripted rank 0: a real Unix socket that speaks the wire protocol, and no model behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, decode, to_wire
from reconciler.wire.frames import encode, read
from reconciler.wire.generation import (
    RANK_RECEIVES,
    Accepted,
    CallPart,
    Cancel,
    Delta,
    Failed,
    Finished,
    Generate,
    KeptPrefixes,
    Prefill,
    Replaced,
    TokenLogprobs,
    ToolCall,
)

PROMPT = (901, 902, 903)
CACHED = 2
"""Tokens of the prompt that it had."""
KEPT = KeptPrefixes(bytes=2048, bytes_max=4096, entries=2, evictions=3)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until something has come true, for at most a minute."""
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError("it did not come true within a minute")


async def stands_still(value: Callable[[], int]) -> None:
    """Wait until a number has not changed for a second, for at most a minute."""
    seen, same = value(), 0
    for _ in range(600):
        await asyncio.sleep(0.1)
        same = same + 1 if value() == seen else 0
        seen = value()
        if same == 10:
            return
    raise TimeoutError("it did not stand still within a minute")


class Turn:
    """One request as the script sees it."""

    def __init__(self, generate: Generate, writer: asyncio.StreamWriter, cancelled: asyncio.Event) -> None:
        self.generate = generate
        self.cancelled = cancelled
        self._writer = writer
        self._tokens = len(generate.resume)

    def send(self, *events: object) -> None:
        """Events in one write."""
        self._writer.write(b"".join(encode(to_wire(event)) for event in events))

    def accept(self, *replaced: Replaced) -> None:
        self.send(Accepted(self.generate.request, PROMPT, replaced=replaced))

    def prefill(self, done: int, total: int) -> None:
        self.send(Prefill(self.generate.request, done, total))

    def say(
        self, text: str, *tokens: int, reasoning: str = "", logprobs: Sequence[TokenLogprobs] = ()
    ) -> None:
        self._tokens += len(tokens)
        self.send(Delta(self.generate.request, tokens, text, reasoning, logprobs=tuple(logprobs)))

    def call(self, index: int, name: str, arguments: str) -> None:
        self.send(ToolCall(self.generate.request, index, name, arguments))

    def call_part(self, part: CallPart, *tokens: int, text: str = "") -> None:
        self._tokens += len(tokens)
        self.send(Delta(self.generate.request, tokens, text, calls=(part,)))

    def finish(self, reason: str = "stop") -> None:
        self.send(Finished(self.generate.request, reason, len(PROMPT), self._tokens, CACHED, KEPT))

    def finish_as(self, finished: Finished) -> None:
        self.send(replace(finished, request=self.generate.request))

    def fail(self, code: str, text: str = "no", parameter: str | None = None) -> None:
        self.send(Failed(self.generate.request, code, text, parameter))

    def die(self) -> None:
        """Lose the connection with all that is on it, once what was written is out."""
        self._writer.close()

    async def hang(self) -> None:
        """Say nothing until the request is cancelled."""
        await self.cancelled.wait()


Script = Callable[[Turn], Awaitable[None]]


def story(words: int, die_after: int | None = None, pause: float = 0.0) -> Script:
    """Tell ``words`` words, one token each: word ``i`` is token ``i``. Continues where ``resume`` ends.

    Ends where nobody listens any more, as a rank does.
    """

    async def tell(turn: Turn) -> None:
        turn.accept()
        for number in range(len(turn.generate.resume), words):
            if turn.cancelled.is_set():
                return
            if number == die_after:
                turn.die()
                return
            turn.say(f"w{number} ", number)
            await asyncio.sleep(pause)
        turn.finish()

    return tell


def told(words: int) -> str:
    """The text of a whole ``story``."""
    return "".join(f"w{number} " for number in range(words))


def in_turn(*scripts: Script) -> Script:
    """Play the first script for the first request, and so on."""
    left = iter(scripts)

    async def play(turn: Turn) -> None:
        await next(left)(turn)

    return play


async def silent(turn: Turn) -> None:
    """Accept, then say nothing more."""
    turn.accept()
    await turn.hang()


class RankDouble:
    """Listens on ``path`` from ``start`` to ``stop``; notes what it was asked."""

    def __init__(self, path: Path, script: Script, epoch: int = 1) -> None:
        self.path = path
        self.script = script
        self.epoch = epoch
        self.asked: list[Generate] = []
        self.cancelled: list[str] = []
        self.connections = 0
        """Those that were ever made."""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._turns: set[asyncio.Task[None]] = set()

    @property
    def left(self) -> bool:
        """Whether somebody was here, and nobody is any more."""
        return self.connections > 0 and not self._writers

    async def start(self) -> RankDouble:
        self._server = await asyncio.start_unix_server(self._serve, str(self.path))
        return self

    async def stop(self) -> None:
        """Die: close every connection, remove the socket."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        for task in tuple(self._turns):
            task.cancel()
        for writer in tuple(self._writers):
            writer.close()
        await server.wait_closed()
        self.path.unlink(missing_ok=True)

    def refuse(self) -> None:
        """Take no more connections; those that are open stay."""
        if self._server is not None:
            self._server.close()

    async def until(self, condition: Callable[[RankDouble], bool]) -> None:
        """Wait until something has reached this rank."""
        await eventually(lambda: condition(self))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        cancellations: dict[str, asyncio.Event] = {}
        writer.write(encode(to_wire(Hello("rank", SPOKEN))))
        try:
            while (frame := await read(reader)) is not None:
                message = decode(frame, RANK_RECEIVES)
                if isinstance(message, Generate):
                    cancelled = cancellations[message.request] = asyncio.Event()
                    self.asked.append(message)
                    self._begin(Turn(message, writer, cancelled))
                elif isinstance(message, Cancel):
                    self.cancelled.append(message.request)
                    cancellations[message.request].set()
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            for cancelled in cancellations.values():
                cancelled.set()
            writer.close()

    def _begin(self, turn: Turn) -> None:
        task = asyncio.create_task(self._play(turn, self.script))
        self._turns.add(task)
        task.add_done_callback(self._turns.discard)

    @staticmethod
    async def _play(turn: Turn, script: Script) -> None:
        await script(turn)
