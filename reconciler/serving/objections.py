"""What is wrong with a request before any application sees it. Each application tells its clients in its own form."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Objection:
    """The reason why a request is refused in any case, or why its body has no end."""

    status: int
    """Of HTTP."""
    code: str
    """For programs."""
    text: str
    """For people."""
    retry_after: int | None = None
    """Seconds after which the same may be accepted; None if it stays wrong."""


def not_http(why: str) -> Objection:
    return Objection(400, "invalid_http", f"this is not a valid HTTP request: {why}")


def http_version(version: str) -> Objection:
    text = f"this endpoint speaks HTTP/1.1, and the request is HTTP/{version}: have the client use HTTP/1.1"
    return Objection(505, "http_version_not_supported", text)


def unknown_expectation(value: str) -> Objection:
    text = f"the expectation {value[:100]!r} cannot be met: 100-continue alone can; leave the header `expect` away"
    return Objection(417, "expectation_failed", text)


def unknown_transfer_coding(value: str) -> Objection:
    """Return the objection to a body in a transfer coding other than chunks (RFC 9112, 6.1)."""
    return Objection(
        501,
        "unsupported_transfer_encoding",
        f"the transfer-encoding {value[:100]!r} is not understood: use `chunked` alone, and content-encoding to compress",
    )


def tunnel() -> Objection:
    text = "this endpoint is no proxy, and makes no tunnels: send requests to it itself, without CONNECT"
    return Objection(501, "method_not_implemented", text)


def body_too_slow() -> Objection:
    return Objection(408, "request_timeout", "the request's body did not arrive in time")


def head_too_slow() -> Objection:
    return Objection(408, "request_timeout", "the request's headers did not arrive in time")


def head_too_large(limit_bytes: int) -> Objection:
    text = f"the request's line and headers are too large: at most {limit_bytes} bytes are accepted"
    return Objection(431, "headers_too_large", text)


def too_many_connections() -> Objection:
    text = "the server has as many connections as it may have, and each has a request; try again"
    return Objection(503, "too_many_connections", text, retry_after=2)
