"""Errors as OpenAI's clients parse them. Pure."""

from __future__ import annotations

from reconciler.gateway.dialects.dialect import RenderedError
from reconciler.gateway.errors import ApiError

from .shape import dumps


def render_error(error: ApiError) -> RenderedError:
    """Return status, body and headers.

    Beside ``Retry-After`` there is the header by which OpenAI's SDKs override their own judgement.
    """
    headers: list[tuple[bytes, bytes]] = []
    if error.retry_after is not None:
        headers.append((b"retry-after", str(error.retry_after).encode()))
    if error.retry is not None:
        headers.append((b"x-should-retry", b"true" if error.retry else b"false"))
    return RenderedError(error.status, error_body(error), headers)


def error_body(error: ApiError) -> bytes:
    """Return OpenAI's error object: all four fields, always."""
    fields = {"message": error.text, "type": error.kind, "param": error.param, "code": error.code}
    return dumps({"error": fields})
