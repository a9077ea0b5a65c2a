"""Bodies of requests: how large they may be, and how long they may take."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope

from reconciler.gateway.errors import ClientGone, body_too_slow, too_large
from reconciler.gateway.routing.timeouts import Timing

from .exchange import exchange_of

BODY_BYTES_MAX = 12 * 1024 * 1024
"""Less than a frame to a rank holds, so that the token ids to resume with fit as well."""


async def read_body(scope: Scope, receive: Receive, timing: Timing) -> bytes:
    """Return the complete body. Raises ``ApiError`` (408, 413) and ``ClientGone``."""
    if exchange_of(scope).arrived:  # nearly always; there is nothing to wait for
        return await _read(scope, receive)
    try:
        async with asyncio.timeout(timing.body):
            return await _read(scope, receive)
    except TimeoutError:
        raise body_too_slow() from None


async def _read(scope: Scope, receive: Receive) -> bytes:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > BODY_BYTES_MAX:
            raise too_large(BODY_BYTES_MAX)
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone("the client went away while sending its request")
        body += message.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            raise too_large(BODY_BYTES_MAX)
        if not message.get("more_body", False):
            return bytes(body)
