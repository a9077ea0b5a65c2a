"""The connections with which the sandbox plays cables leave nothing open, whenever they are ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from reconciler.sandbox.relays import LOOPBACK, Relay

SOON_SECONDS = 10.0


@pytest.mark.parametrize("turns", range(8))
async def test_who_connects_as_a_relay_is_closed_is_hung_up_on(turns: int) -> None:
    """``turns``: how far the event loop has come with the new connection by then."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    async with await asyncio.start_server(listen, LOOPBACK, 0) as target:
        relay = Relay(target.sockets[0].getsockname()[1], announces_end=True)
        reader, writer = await asyncio.open_connection(LOOPBACK, await relay.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        await relay.close()
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), SOON_SECONDS) == b""
        writer.close()
