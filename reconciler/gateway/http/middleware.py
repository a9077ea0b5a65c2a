"""What every request passes before it comes to an endpoint, and the shape of what none of them answers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reconciler.gateway.errors import ApiError, foreign_page, internal

from .exchange import send_error
from .shape import error_body

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class RequestIds:
    """``x-request-id`` on every answer: the client's own where it is a sensible one."""

    def __init__(self, app: ASGIApp, new_id: Callable[[], str]) -> None:
        self._app = app
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else "req_" + self._new_id()
        scope["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)


class NoForeignPages:
    """Refuse what a web page of another site has its visitor's browser send.

    Browsers reach loopback addresses, also under names that a page's owner points there, and name the page's
    site in ``Origin`` with every POST; other clients send none. Without keys this is all that stands between
    a page and the models.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        origin = Headers(scope=scope).get("origin") if scope["type"] == "http" else None
        if origin is None or _is_loopback(origin):
            await self._app(scope, receive, send)
            return
        await send_error(send, foreign_page(origin))


def _is_loopback(origin: str) -> bool:
    try:
        host = urlsplit(origin).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def http_error(request: Request, error: Exception) -> Response:
    """404 and 405 of the router, in the shape that clients parse."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        text = f"{request.method} is not for {path}; it takes {allowed}"
        fault = ApiError(405, "invalid_request_error", "method_not_allowed", text)
    else:
        text = f"no such endpoint: {path}; there are {', '.join(_paths(request.app.routes))}"
        fault = ApiError(error.status_code, "invalid_request_error", "unknown_url", text)
    return Response(error_body(fault), fault.status, error.headers, "application/json")


def _paths(routes: Iterable[BaseRoute]) -> Iterator[str]:
    """What there is, without the paths that take a name."""
    for route in routes:
        if isinstance(route, Route) and not route.param_convertors:
            methods = sorted((route.methods or set()) - {"HEAD"})
            yield f"{', '.join(methods)} {route.path}"


async def unexpected(request: Request, error: Exception) -> Response:
    """A defect of the gateway; Starlette raises it again, so that the log has it."""
    headers = {"x-request-id": request.scope.get("request_id", "")}
    body = error_body(internal("the gateway failed unexpectedly"))
    return Response(body, 500, headers, "application/json")
