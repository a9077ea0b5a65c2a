"""Probes whether rank 0 takes requests. Its own reports may continue while it reads nothing.

The probe uses the gateways' socket and path: rank 0 reads a frame, tokenizes a prompt and answers. It costs no other rank
anything.
"""

from __future__ import annotations

import asyncio
from typing import Awaitable, Callable, Optional

from reconciler.wire import SPOKEN, frames
from reconciler.wire.codec import Hello, WireError, to_wire

from .vitals import SILENCE_REPORTED_SECONDS, TICK_SECONDS_MAX

ASK_SECONDS = 5.0
"""Time between two questions."""
REQUEST = "agent"


class Hearing:
    """The questions to one rank 0, and their answers. ``ask`` asks one, and raises ``OSError`` if there is no answer."""

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        self._ask = ask
        self._asking: Optional[asyncio.Future[None]] = None
        self._pause = 0.0
        self._owed = False
        """True if a question has been asked since the last answer."""
        self.deaf_seconds = 0.0
        """Seconds without an answer to a question, in ticks as ``Vitals`` counts them."""

    def tick(self, seconds: float) -> bool:
        """Count ``seconds`` more, and ask again when it is time. Return whether to report to controllers."""
        before, seconds = self.deaf_seconds, min(seconds, TICK_SECONDS_MAX)
        if self._asking is not None and self._asking.done():
            answered = not self._asking.cancelled() and self._asking.exception() is None
            self._asking = None
            if answered:
                self._owed, self.deaf_seconds, self._pause = False, 0.0, ASK_SECONDS
                return before >= SILENCE_REPORTED_SECONDS
        if self._owed:
            self.deaf_seconds += seconds
        self._pause -= seconds
        if self._asking is None and self._pause <= 0:
            self._asking, self._owed = asyncio.ensure_future(self._ask()), True
        return self.deaf_seconds >= SILENCE_REPORTED_SECONDS

    def close(self) -> None:
        """Ask no more: the rank has ended, or is to end."""
        if self._asking is not None:
            self._asking.cancel()
        self._asking, self._owed, self.deaf_seconds, self._pause = None, False, 0.0, 0.0


async def ask(path: str) -> None:
    """Ask the rank 0 at ``path`` how many tokens a text has. Return when it has answered, whatever it says. Raises
    ``OSError`` if nobody listens, or the connection ends before."""
    from reconciler.wire.generation import Generate
    from reconciler.wire.question import Question

    question = Generate(REQUEST, (), prompt="a", tokens_max=0, question=Question())
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(frames.encode(to_wire(Hello("agent", SPOKEN))) + frames.encode(to_wire(question)))
        while (frame := await frames.read(reader)) is not None:
            if frame.get("request") == REQUEST:
                return
    except WireError as error:
        raise ConnectionError(str(error)) from None
    finally:
        writer.transport.abort()
    raise ConnectionResetError("it closed the connection")
