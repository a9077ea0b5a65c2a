"""The errors that clients get instead of an answer, before a dialect renders them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from reconciler.errors import ReconcilerError
from reconciler.serving.objections import Objection

from .figures import Figures


@dataclasses.dataclass(eq=False)
class ApiError(ReconcilerError):
    """An error for the client. ``status`` and ``kind`` are OpenAI's; other dialects translate them."""

    status: int
    kind: str
    code: str | None
    text: str
    param: str | None = None
    """The field of the request that is wrong, such as ``messages[0].role``."""
    retry_after: int | None = None
    """Seconds."""
    retry: bool | None = None
    """True if a retry can help, False if not; None if the status says it already."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Further headers, in every dialect."""
    figures: Figures | None = None
    """The rest of the limits of the client's key, if a limit is the reason."""

    def __str__(self) -> str:
        return self.text


class ClientGone(ReconcilerError):
    """The client has closed its connection, and nobody waits for the answer."""


def invalid(text: str, param: str | None, code: str | None = None) -> ApiError:
    """Return the error for a request that is wrong and stays wrong."""
    return ApiError(400, "invalid_request_error", code, text, param)


def unsupported(what: str, param: str, why: str = "") -> ApiError:
    """Return the error for a correct request that this version cannot serve."""
    reason = f": {why}" if why else ""
    return invalid(f"{what} is not supported yet{reason}", param, "unsupported_parameter")


def prompt_too_long(tokens: int, context: int) -> ApiError:
    """Return the error for too many token ids. Their number is known before a rank has seen the prompt."""
    text = f"the prompt has {tokens} tokens; with at least one token for the answer the most is {context}"
    return invalid(text, "prompt", "context_length_exceeded")


def too_large(limit_bytes: int, decoded: bool = False) -> ApiError:
    which = "decoded bytes" if decoded else "bytes"
    text = f"the request is too large: at most {limit_bytes} {which} are accepted"
    return ApiError(413, "invalid_request_error", "request_too_large", text)


def unknown_coding(why: str, accepted: Sequence[str]) -> ApiError:
    """Return the error for a body in a coding that is not understood (RFC 9110, 15.5.16)."""
    names = ", ".join(accepted)
    return ApiError(
        415,
        "invalid_request_error",
        "unsupported_content_encoding",
        f"the request's content-encoding cannot be decoded: {why}; send the body as it is, or in one of {names}",
        headers=((b"accept-encoding", names.encode()),),
    )


def undecodable(coding: str, why: str) -> ApiError:
    return invalid(f"the body is no {coding}, which content-encoding says it is: {why}", None, "invalid_body")


def refused(objection: Objection) -> ApiError:
    """Return the error for a request that no endpoint sees."""
    kind = "invalid_request_error" if objection.status != 503 else "server_error"
    after = objection.retry_after
    retry = True if after else None
    return ApiError(objection.status, kind, objection.code, objection.text, retry_after=after, retry=retry)


_NO_KEY = b'Bearer realm="reconciler"'
_BAD_KEY = _NO_KEY + b', error="invalid_token"'
"""RFC 6750, section 3.1."""


def _unauthenticated(code: str, text: str, asked: bytes = _BAD_KEY, retry: bool | None = None) -> ApiError:
    headers = ((b"www-authenticate", asked),)
    return ApiError(401, "authentication_error", code, text, retry=retry, headers=headers)


def key_missing() -> ApiError:
    text = "this endpoint needs an API key: send it as `Authorization: Bearer KEY` or as `x-api-key: KEY`"
    return _unauthenticated("invalid_api_key", text, _NO_KEY)


def key_unknown(mistyped: bool) -> ApiError:
    known = "it was cut off or mistyped, for its checksum is wrong" if mistyped else "no key here has it"
    return _unauthenticated("invalid_api_key", f"the API key is wrong: {known}")


def key_revoked(text: str) -> ApiError:
    return _unauthenticated("revoked_api_key", text, retry=False)


def key_expired(text: str) -> ApiError:
    return _unauthenticated("expired_api_key", text, retry=False)


def _forbidden(code: str, text: str, param: str | None = None) -> ApiError:
    return ApiError(403, "permission_error", code, text, param)


def model_forbidden(model: str, key: str) -> ApiError:
    text = f"the API key {key!r} may not use the model {model[:200]!r}; GET /v1/models lists those that it may use"
    return _forbidden("model_not_allowed", text, "model")


def rate_limited(text: str, retry_after: int | None, figures: Figures) -> ApiError:
    """Return the error for a request beyond what its key may use now. ``retry_after`` is None if no waiting helps."""
    return ApiError(
        429,
        "rate_limit_error",
        "rate_limit_exceeded",
        f"{text}; try again in {retry_after} s" if retry_after is not None else f"{text} at any time",
        retry_after=retry_after,
        retry=retry_after is not None,
        figures=figures,
    )


def daily_budget_used(text: str, figures: Figures) -> ApiError:
    return ApiError(
        429, "insufficient_quota", "insufficient_quota", f"{text} today", retry=False, figures=figures
    )


def metrics_forbidden(key: str) -> ApiError:
    text = f"the API key {key!r} may not read metrics: they tell of all keys; that takes `metrics: true` in its spec"
    return _forbidden("metrics_not_allowed", text)


def foreign_host(host: str) -> ApiError:
    return _forbidden(
        "foreign_host",
        f"requests to the host {host[:200]!r} are refused: this endpoint has no authentication, and a web page could "
        "lead its visitors here under such a name; if it is yours, add it to `hosts` in the Gateway's spec",
    )


def foreign_page(origin: str) -> ApiError:
    text = f"requests from pages of {origin[:200]} are refused: it is none of the sites that this endpoint is for"
    return _forbidden("foreign_origin", text)


def from_elsewhere(address: str) -> ApiError:
    text = f"requests from {address} are refused: without API keys only programs of the same machine may ask"
    return _forbidden("not_local", text)


def model_not_found(model: str) -> ApiError:
    text = f"the model {model[:200]!r} does not exist; GET /v1/models lists those that do"
    return ApiError(404, "invalid_request_error", "model_not_found", text, "model")


def _unavailable(code: str, text: str, retry_after: int) -> ApiError:
    return ApiError(503, "server_error", code, text, retry_after=retry_after, retry=True)


def model_loading(model: str, retry_after: int) -> ApiError:
    text = f"no group serves the model {model!r} at the moment; it is being formed, try again"
    return _unavailable("model_loading", text, retry_after)


def model_refused(model: str, reason: str, retry_after: int) -> ApiError:
    """Return the error for a model whose groups cannot be formed until somebody acts. ``reason`` is the
    condition's."""
    return _unavailable(
        "model_unavailable",
        f"no group serves the model {model!r}, and none can be formed before somebody acts ({reason});"
        f" see on the cluster: reconciler describe modeldeployment/{model}",
        retry_after,
    )


def model_waiting(model: str, seconds: int) -> ApiError:
    """Return the error for a model that cannot have a group in time: its groups failed, and the next attempt is made
    in ``seconds``."""
    text = f"no group serves the model {model!r}: the last ones failed, and the next attempt is made in {seconds} s"
    return _unavailable("model_unavailable", text, seconds)


def prompt_quarantined(model: str, groups: int, request: str, seconds: int) -> ApiError:
    """Return the error for a prompt that ended ``groups`` groups; ``request`` was the last one to do so."""
    ended = f"{groups} groups of the model {model!r} ended while they answered it, the last one for {request}"
    return ApiError(
        422,
        "invalid_request_error",
        "prompt_quarantined",
        f"this prompt is refused: {ended}; it can be sent again in {seconds} s; change it to be answered now",
        "messages",
        retry=False,
    )


def overloaded(text: str) -> ApiError:
    return _unavailable("overloaded", text, 2)


def older_group() -> ApiError:
    """Return the error for a question to ranks of an older version, which know no questions."""
    return ApiError(
        501,
        "server_error",
        "older_group",
        "the group that serves this model was formed with an earlier version, which answers prompts and says nothing else "
        "of them; `reconciler rollout restart deployment/NAME` forms it again",
        retry=False,
    )


def shutting_down() -> ApiError:
    return _unavailable("shutting_down", "the gateway is being stopped", 2)


def internal(text: str) -> ApiError:
    """Return the error for a failure that is not the client's; a retry would most likely fail as well."""
    return ApiError(500, "server_error", "internal_error", text, retry=False)
