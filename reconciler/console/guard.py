"""Refuses requests from other sites before anything else, and adds the headers of each answer."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reconciler.serving.addresses import host_in, is_address, is_local

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with none at all, browsers name no origin in the forms of these pages either
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


class Guard:
    """ASGI: answers only to known host names and to its own pages."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], any_address: bool = False) -> None:
        """``hosts``: further names, in lower case; any other name that leads here is DNS rebinding. ``any_address``: answer to
        IP addresses too, which no name server can redirect. Without keys only this machine can connect."""
        self._app = app
        self._hosts = frozenset(hosts)
        self._any_address = any_address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with 403 a request that another site's page sent, or that names an unknown host."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        objection = self._objection(Headers(scope=scope))
        if objection:
            await PlainTextResponse(f"{objection}\n", 403)(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)

    def _objection(self, headers: Headers) -> str:
        host = headers.get("host", "")
        name = host_in(host)
        if not (is_local(name) or name in self._hosts or (self._any_address and is_address(name))):
            return "the console does not know this host name; add it to spec.hosts of the Gateway"
        origin = headers.get("origin")
        if origin is not None and _authority(origin) != host:
            return "pages of another origin may not use the console"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            navigation = (
                headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
            )
            if not navigation:
                return "pages of another site may not use the console"
        return ""


def _authority(origin: str) -> str | None:
    """Return host and port of an origin; None if it is no URL."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
