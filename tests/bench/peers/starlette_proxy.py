"""The proxy that a Python programmer would write: Starlette before, aiohttp behind, both on uvloop.

Run as a program with a port and a backend's port.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import aiohttp
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

BACKEND = f"http://127.0.0.1:{sys.argv[2]}" if len(sys.argv) > 2 else ""
_session: list[aiohttp.ClientSession] = []


async def completions(request: Request) -> StreamingResponse:
    """Pass a request on, and the answer back as it comes."""
    if not _session:
        _session.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
    answer = await _session[0].post(
        BACKEND + request.url.path,
        data=await request.body(),
        headers={"content-type": "application/json"},
    )

    async def parts() -> AsyncIterator[bytes]:
        async with answer:
            async for part in answer.content.iter_any():
                yield part

    return StreamingResponse(parts(), answer.status, media_type="text/event-stream")


if __name__ == "__main__":
    app = Starlette(routes=[Route("/v1/chat/completions", completions, methods=["POST"])])
    uvicorn.run(
        app, host="127.0.0.1", port=int(sys.argv[1]), loop="uvloop", access_log=False, log_level="error"
    )
