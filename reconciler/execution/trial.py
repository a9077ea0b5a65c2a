"""A group on trial, over rank 0's socket: its ranks measure, then it answers several requests at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from reconciler.errors import Refused, Unreachable
from reconciler.wire import SPOKEN, frames
from reconciler.wire.codec import Hello, WireError, decode, to_wire
from reconciler.wire.generation import GATEWAY_RECEIVES, Delta, Failed, Finished, Generate
from reconciler.wire.measuring import Measure, Measured
from reconciler.wire.sampling import Sampling

from .proof import Connect

MEASURE_SECONDS_MAX = 60.0
ANSWERS_SECONDS_MAX = 90.0
PROMPT = "Count from one to a hundred in words: one, two, three,"


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of several simultaneous requests."""

    tokens: int
    """Number of tokens after the first one of each answer."""
    seconds: float
    """Seconds from the first token of any answer to the last token of all."""
    failures: int

    @property
    def tokens_per_second(self) -> float:
        """Return the rate of all answers together."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0


async def measure(connect: Connect, under_load: bool) -> Measured:
    """Let the ranks measure. Raises ``Unreachable`` or ``Refused``, with the code ``busy`` while requests are being
    answered."""
    try:
        async with asyncio.timeout(MEASURE_SECONDS_MAX):
            async with _Conversation(connect) as talk:
                talk.send(Measure("measure", under_load=under_load))
                return await talk.measured()
    except TimeoutError:
        raise Unreachable(f"the ranks did not finish measuring within {MEASURE_SECONDS_MAX:.0f} s") from None
    except (OSError, WireError) as error:
        raise Unreachable(f"lost the connection to rank 0: {error}") from error


async def answer(connect: Connect, streams: int, tokens_max: int) -> Answered:
    """Request ``streams`` answers at once, each of ``tokens_max`` tokens. Raises ``Unreachable``."""
    try:
        async with asyncio.timeout(ANSWERS_SECONDS_MAX):
            async with _Conversation(connect) as talk:
                return await talk.answers(streams, tokens_max)
    except TimeoutError:
        raise Unreachable(f"{streams} answers were not complete within {ANSWERS_SECONDS_MAX:.0f} s") from None
    except (OSError, WireError) as error:
        raise Unreachable(f"lost the connection to rank 0: {error}") from error


class _Conversation:
    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    async def __aenter__(self) -> _Conversation:
        self._reader, self._writer = await self._connect()
        self.send(Hello("controller", SPOKEN))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    def send(self, message: object) -> None:
        self._writer.write(frames.encode(to_wire(message)))

    async def _receive(self) -> object:
        frame = await frames.read(self._reader)
        if frame is None:
            raise Unreachable("rank 0 closed the connection before it was done")
        return decode(frame, GATEWAY_RECEIVES)

    async def measured(self) -> Measured:
        while True:
            message = await self._receive()
            if isinstance(message, Failed):
                raise Refused(message.code, message.text)
            if isinstance(message, Measured):
                return message

    async def answers(self, streams: int, tokens_max: int) -> Answered:
        clock = asyncio.get_running_loop().time
        for number in range(streams):
            sampling = Sampling(temperature=0.7, seed=number + 1)
            self.send(
                Generate(f"trial-{number}", (), prompt=PROMPT, tokens_max=tokens_max, sampling=sampling)
            )
        await self._writer.drain()
        counted = dict.fromkeys((f"trial-{number}" for number in range(streams)), 0)
        first = last = clock()
        begun, ended, failed = False, 0, 0
        while ended < streams:
            message = await self._receive()
            if isinstance(message, Delta):
                first, begun, last = (first, True, clock()) if begun else (clock(), True, clock())
                counted[message.request] = counted.get(message.request, 0) + len(message.tokens)
            elif isinstance(message, (Finished, Failed)):
                ended += 1
                failed += isinstance(message, Failed)
        return Answered(sum(max(0, each - 1) for each in counted.values()), last - first, failed)
