"""One real completion, or the vector of a text, through rank 0's socket: after it, a group gets requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from reconciler.errors import Refused, Unreachable
from reconciler.planning.context.deadlines import PROOF_SECONDS_MAX
from reconciler.wire import SPOKEN, frames
from reconciler.wire.codec import Hello, WireError, decode, to_wire
from reconciler.wire.generation import GATEWAY_RECEIVES, Failed, Finished, Generate
from reconciler.wire.question import Question, Texts
from reconciler.wire.sampling import Sampling

PROOF_TOKENS = 4
_TEXT = "Hello"
"""Not every model has a template for messages."""
_COMPLETION = Generate("proof", (), prompt=_TEXT, tokens_max=PROOF_TOKENS, sampling=Sampling(temperature=0.0))
_VECTOR = Generate("proof-of-vectors", (), tokens_max=0, question=Question(texts=Texts((_TEXT,))))

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def ask_once(connect: Connect) -> float:
    """Request a few greedy tokens, and return the seconds that they took. Raises ``Unreachable`` or ``Refused``."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(PROOF_SECONDS_MAX):
            await _converse(connect)
    except TimeoutError:
        raise Unreachable(f"no completion within {PROOF_SECONDS_MAX:.0f} s") from None
    except (OSError, WireError) as error:
        raise Unreachable(f"lost the connection to rank 0: {error}") from error
    return time.monotonic() - started


async def _converse(connect: Connect) -> None:
    reader, writer = await connect()
    try:
        writer.write(frames.encode(to_wire(Hello("controller", SPOKEN))))
        last = await _ask(reader, writer, _COMPLETION)
        if isinstance(last, Failed) and last.parameter == "model":  # the model is for embeddings
            last = await _ask(reader, writer, _VECTOR)
        if isinstance(last, Failed):
            raise Refused("ProofFailed", f"{last.code}: {last.text}")
    finally:
        writer.close()


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Generate
) -> Finished | Failed:
    writer.write(frames.encode(to_wire(request)))
    await writer.drain()
    while (frame := await frames.read(reader)) is not None:
        message = decode(frame, GATEWAY_RECEIVES)
        if isinstance(message, Finished | Failed):
            return message
    raise Unreachable("rank 0 closed the connection before its answer was complete")
