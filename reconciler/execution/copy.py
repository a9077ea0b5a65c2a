"""Copies bytes from one node to another through the controller, in bounded memory, until either side ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from reconciler.errors import Unreachable
from reconciler.remote.machines import Stream
from reconciler.state import NodeName

Open = Callable[[NodeName, str], Awaitable[Stream]]
"""A connection to a Unix socket of a node. Raises ``Unreachable``."""

PIECE_BYTES = 256 * 1024
LISTENS_SECONDS = 30.0
"""Time for a process that was just started to listen."""
TRY_SECONDS = 0.2
SILENT_SECONDS = 300.0
"""Longest pause between copied bytes, in which the previous file may be verified."""


async def carry(
    open_stream: Open,
    one: tuple[NodeName, str],
    other: tuple[NodeName, str],
    wait: Callable[..., Awaitable[tuple[set[asyncio.Task[None]], object]]] = asyncio.wait,
) -> None:
    """Connect a socket of one node with one of another until either ends. Raises ``Unreachable``, also where both are
    silent. ``wait``: waits like ``asyncio.wait``."""
    first = await _opened(open_stream, *one)
    try:
        second = await _opened(open_stream, *other)
    except BaseException:
        first[1].close()
        raise
    copied = asyncio.Event()
    both = [
        asyncio.ensure_future(_pump(first[0], second[1], copied)),
        asyncio.ensure_future(_pump(second[0], first[1], copied)),
    ]
    try:
        while not (await wait(both, timeout=SILENT_SECONDS, return_when=asyncio.FIRST_COMPLETED))[0]:
            if not copied.is_set():
                raise Unreachable(f"nothing came from {one[0]} or {other[0]} for {SILENT_SECONDS:g} s")
            copied.clear()
    finally:
        for pump in both:
            pump.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        for _, writer in (first, second):
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, copied: asyncio.Event) -> None:
    while piece := await reader.read(PIECE_BYTES):
        copied.set()
        writer.write(piece)
        await writer.drain()


async def _opened(open_stream: Open, name: NodeName, socket: str) -> Stream:
    deadline = asyncio.get_running_loop().time() + LISTENS_SECONDS
    while True:
        try:
            return await open_stream(name, socket)
        except Unreachable:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(TRY_SECONDS)
