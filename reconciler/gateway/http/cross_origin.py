"""Web pages of other sites, where the Gateway names them: answers to browsers' questions before a request.

The Fetch standard calls this CORS: https://fetch.spec.whatwg.org/#http-cors-protocol.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reconciler.gateway.dialects.dialect import Headers as Pairs

_HEADER_NAMES = re.compile(r"[\s,A-Za-z0-9!#$%&'*+.^_`|~-]{1,4096}")
_METHODS = b"GET, HEAD, POST"
_REMEMBER_SECONDS = b"600"
"""How long a browser need not ask again: a change of the manifest is seen by then. Chromium takes no more than 7200."""
_NO_CREDENTIALS_NEEDED = (b"access-control-expose-headers", b"*")
"""Pages may read all headers, as rate limits and request ids. The ``*`` holds because no cookies are asked for."""


def allowed(origin: str, origins: Collection[str]) -> bool:
    """Return whether pages of ``origin`` may use the endpoint."""
    return origin in origins or "*" in origins


class CrossOrigin:
    """Tells browsers that pages of ``origins`` may ask, with the headers that they want to send. Never with cookies."""

    def __init__(self, app: ASGIApp, origins: Callable[[], Collection[str]]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        origins = self._origins() if scope["type"] == "http" else ()
        if not origins:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "")
        if not origin or not allowed(origin, origins):
            await self._app(scope, receive, _with(send, ((b"vary", b"Origin"),)))
            return
        named = b"*" if "*" in origins else origin.encode("latin-1")
        answer = ((b"access-control-allow-origin", named), (b"vary", b"Origin"))
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await _answer_question(headers, answer, send)
        else:
            await self._app(scope, receive, _with(send, (*answer, _NO_CREDENTIALS_NEEDED)))


async def _answer_question(asked: Headers, answer: Pairs, send: Send) -> None:
    """Answer a preflight request. SDKs add headers of their own to each request: whatever is asked for is allowed."""
    more = [(b"access-control-allow-methods", _METHODS), (b"access-control-max-age", _REMEMBER_SECONDS)]
    names = asked.get("access-control-request-headers", "")
    if _HEADER_NAMES.fullmatch(names):
        more.append((b"access-control-allow-headers", names.encode("latin-1")))
    if asked.get("access-control-request-private-network") == "true":
        more.append((b"access-control-allow-private-network", b"true"))
    await send({"type": "http.response.start", "status": 204, "headers": [*answer, *more]})
    await send({"type": "http.response.body", "body": b""})


def _with(send: Send, headers: Pairs) -> Send:
    async def send_with(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *headers]
        await send(message)

    return send_with
