"""A relay of bytes and nothing else: what any process between client and model costs at least.

Run as a program with a port and a backend's port: it forwards each connection as it is.
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

CHUNK = 1 << 16


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def relay(port: int, backend: int) -> None:
    """Serve until the process ends."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await asyncio.open_connection("127.0.0.1", backend)
        try:
            await asyncio.gather(_copy(reader, back_writer), _copy(back_reader, writer))
        except ConnectionError:
            pass  # either end may go away first
        finally:
            back_writer.close()
            writer.close()

    server = await asyncio.start_server(forward, "127.0.0.1", port)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(relay(int(sys.argv[1]), int(sys.argv[2])))
