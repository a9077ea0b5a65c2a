"""What a client is told when there is no answer, before a dialect gives it its shape."""

from __future__ import annotations

import dataclasses

from reconciler.errors import ReconcilerError


@dataclasses.dataclass(eq=False)
class ApiError(ReconcilerError):
    """An error for the client: ``status`` and ``kind`` are OpenAI's, other dialects translate them."""

    status: int
    kind: str
    code: str | None
    text: str
    param: str | None = None
    """The field of the request that is wrong, such as ``messages[0].role``."""
    retry_after: int | None = None
    """Seconds."""
    retry: bool | None = None
    """Whether asking again can help, where the status alone would say it wrongly."""

    def __str__(self) -> str:
        return self.text


class ClientGone(ReconcilerError):
    """The client has closed its connection: nobody waits for this answer."""


def invalid(text: str, param: str | None, code: str | None = None) -> ApiError:
    """The request is wrong, and stays so."""
    return ApiError(400, "invalid_request_error", code, text, param)


def unsupported(what: str, param: str) -> ApiError:
    """The request is right, and this version cannot do it."""
    return invalid(f"{what} is not supported yet", param, "unsupported_parameter")


def prompt_too_long(tokens: int, context: int) -> ApiError:
    """A prompt of token ids, whose number is known before any rank has seen it."""
    text = f"the prompt has {tokens} tokens; with at least one token for the answer the most is {context}"
    return invalid(text, "prompt", "context_length_exceeded")


def too_large(limit_bytes: int) -> ApiError:
    return ApiError(
        413,
        "invalid_request_error",
        "request_too_large",
        f"the request is too large: at most {limit_bytes} bytes are accepted",
    )


def body_too_slow() -> ApiError:
    return ApiError(
        408, "invalid_request_error", "request_timeout", "the request's body did not arrive in time"
    )


def foreign_page(origin: str) -> ApiError:
    return ApiError(
        403,
        "permission_error",
        "foreign_origin",
        f"requests from pages of {origin[:200]} are refused: this endpoint has no authentication",
    )


def model_not_found(model: str) -> ApiError:
    return ApiError(
        404,
        "invalid_request_error",
        "model_not_found",
        f"the model {model[:200]!r} does not exist; GET /v1/models lists those that do",
        "model",
    )


def model_loading(model: str, retry_after: int) -> ApiError:
    """A deployment exists, and no group of it answered in time."""
    return ApiError(
        503,
        "server_error",
        "model_loading",
        f"no group serves the model {model!r} at the moment; it is being formed, try again",
        retry_after=retry_after,
        retry=True,
    )


def overloaded(text: str) -> ApiError:
    return ApiError(503, "server_error", "overloaded", text, retry_after=2, retry=True)


def shutting_down() -> ApiError:
    return ApiError(
        503, "server_error", "shutting_down", "the gateway is being stopped", retry_after=2, retry=True
    )


def internal(text: str) -> ApiError:
    """Not the client's fault; asking again would most likely end the same way."""
    return ApiError(500, "server_error", "internal_error", text, retry=False)
