"""Errors as Anthropic's clients parse them. Pure.

Types and statuses are those of its page on errors (platform.claude.com/docs/en/api/errors): an overloaded server
answers 529, and the body has the id of the request.
"""

from __future__ import annotations

from typing import Any

from reconciler.gateway.dialects.dialect import RenderedError
from reconciler.gateway.dialects.openai.errors import retry_headers
from reconciler.gateway.dialects.openai.shape import dumps
from reconciler.gateway.errors import ApiError

OVERLOADED = 529
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
TOO_LONG = "prompt is too long"
"""Agents look for these words of Anthropic's own error, and then compact their conversation."""


def render_error(error: ApiError, request_id: str = "") -> RenderedError:
    """Return status, body and headers. The headers say whether to try again, in the way of OpenAI's SDKs."""
    status = OVERLOADED if error.status == 503 else error.status
    return RenderedError(status, error_body(error, request_id), retry_headers(error))


def error_body(error: ApiError, request_id: str = "") -> bytes:
    """Return Anthropic's error object. It has no field for the path of the faulty field, so the message begins with
    that path. The SDKs call ``code`` ``error_code``; it may be absent."""
    kind = _TYPES.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    fields: dict[str, Any] = {"type": kind, "message": _message(error)}
    if error.code is not None:
        fields["details"] = {"error_code": error.code}
    return dumps({"type": "error", "error": fields, "request_id": request_id or None})


def _message(error: ApiError) -> str:
    if error.code == "context_length_exceeded":
        return f"{TOO_LONG}: {error.text}"
    return f"{error.param}: {error.text}" if error.param else error.text
