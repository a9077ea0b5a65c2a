"""Answers to browsers' questions before requests of web pages on other sites that the Gateway names.

The Fetch standard calls this CORS: https://fetch.spec.whatwg.org/#http-cors-protocol.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import Scope, Send

from reconciler.gateway.dialects.dialect import Headers as Pairs

_HEADER_NAMES = re.compile(r"[\s,A-Za-z0-9!#$%&'*+.^_`|~-]{1,4096}")
_VARY: Pairs = ((b"vary", b"Origin"),)
_METHODS = b"GET, HEAD, POST"
_REMEMBER_SECONDS = b"600"
"""The time in which a browser need not ask again, and after which it sees a change of the manifest. Chromium takes at
most 7200."""
_NO_CREDENTIALS_NEEDED = (b"access-control-expose-headers", b"*")
"""Pages may read all headers, such as rate limits and request ids. The ``*`` is valid because requests have no
cookies."""


def allowed(origin: str, origins: Collection[str]) -> bool:
    return origin in origins or "*" in origins


def headers_for(origin: str, origins: Collection[str]) -> Pairs:
    """Return the additional headers of answers if pages of ``origins`` may ask. ``origin`` is that of the page, and
    empty for other clients. Cookies are never allowed."""
    if not origin or not allowed(origin, origins):
        return _VARY
    return (*_allowing(origin, origins), _NO_CREDENTIALS_NEEDED)


def is_question(scope: Scope, origin: str, origins: Collection[str]) -> bool:
    """Return whether a request is a browser's question about the next request of a page that may ask here."""
    asks = scope["method"] == "OPTIONS" and bool(origin) and allowed(origin, origins)
    return asks and "access-control-request-method" in Headers(scope=scope)


async def answer_question(scope: Scope, origin: str, origins: Collection[str], send: Send) -> None:
    """Answer such a question, a preflight request. It allows all headers, because SDKs add their own to each
    request."""
    asked = Headers(scope=scope)
    more = [(b"access-control-allow-methods", _METHODS), (b"access-control-max-age", _REMEMBER_SECONDS)]
    names = asked.get("access-control-request-headers", "")
    if _HEADER_NAMES.fullmatch(names):
        more.append((b"access-control-allow-headers", names.encode("latin-1")))
    if asked.get("access-control-request-private-network") == "true":
        more.append((b"access-control-allow-private-network", b"true"))
    headers = [*_allowing(origin, origins), *more]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _allowing(origin: str, origins: Collection[str]) -> Pairs:
    named = b"*" if "*" in origins else origin.encode("latin-1")
    return ((b"access-control-allow-origin", named), *_VARY)
