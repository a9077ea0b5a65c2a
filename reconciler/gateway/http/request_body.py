"""Bodies of requests, with bounds on size and time."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope

from reconciler.gateway.errors import ClientGone, refused, too_large
from reconciler.serving.exchange import exchange_of
from reconciler.serving.objections import body_too_slow

from .codings import codings_of, decoded

BODY_BYTES_MAX = 12 * 1024 * 1024
"""Smaller than a frame to a rank, so that the token ids of a resumed answer fit as well."""


async def read_body(scope: Scope, receive: Receive, seconds: float, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Return the complete body, without the codings of its way here. Raises ``ApiError`` (400, 408, 413, 415) and
    ``ClientGone``."""
    coded: list[str] = []
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > bytes_max:
            raise too_large(bytes_max)
        if name == b"content-encoding":
            coded.append(value.decode("latin-1"))
    codings = codings_of(",".join(coded)) if coded else []
    if exchange_of(scope).arrived:  # nearly always, without a wait
        body = await _read(scope, receive, bytes_max)
    else:
        try:
            async with asyncio.timeout(seconds):
                body = await _read(scope, receive, bytes_max)
        except TimeoutError:
            raise refused(body_too_slow()) from None
    return await decoded(body, codings, bytes_max) if codings else body


async def _read(scope: Scope, receive: Receive, bytes_max: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone("the client went away while sending its request")
        body += message.get("body", b"")
        if len(body) > bytes_max:
            raise too_large(bytes_max)
        if not message.get("more_body", False):
            break
    objection = exchange_of(scope).objection
    if objection is not None:
        raise refused(objection)
    return bytes(body)
