"""Errors as OpenAI's clients parse them. Pure."""

from __future__ import annotations

from reconciler.gateway.dialects.dialect import Headers, RenderedError
from reconciler.gateway.errors import ApiError

from .shape import dumps


def render_error(error: ApiError, request_id: str = "") -> RenderedError:
    """Return status, body and headers. OpenAI's bodies never have the id of the request."""
    return RenderedError(error.status, error_body(error), retry_headers(error))


def retry_headers(error: ApiError) -> Headers:
    """Return ``Retry-After``, and the header by which OpenAI's and Anthropic's SDKs override their own judgement."""
    headers: list[tuple[bytes, bytes]] = []
    if error.retry_after is not None:
        headers.append((b"retry-after", str(error.retry_after).encode()))
    if error.retry is not None:
        headers.append((b"x-should-retry", b"true" if error.retry else b"false"))
    return headers


def error_body(error: ApiError) -> bytes:
    """Return OpenAI's error object: all four fields, always."""
    fields = {"message": error.text, "type": error.kind, "param": error.param, "code": error.code}
    return dumps({"error": fields})
