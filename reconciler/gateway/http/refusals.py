"""Requests that are refused before their endpoint, and the answers to requests without an endpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from reconciler.gateway.errors import ApiError, foreign_host, foreign_page, internal
from reconciler.serving.addresses import host_in, is_address, is_local

from .answer import JSON
from .cross_origin import allowed
from .paths import Paths

_ADDRESS_MAX = 300
"""Characters of the client's own URL that an error repeats."""


class ForeignPages:
    """Finds requests that a web page of another site makes a visitor's browser send.

    Browsers reach loopback addresses, also through names that the owner of a page points there (DNS rebinding). They
    send the page's site in ``Origin`` with every POST, and the requested host in ``Host`` always. Other clients send no
    ``Origin``. Without API keys, this check alone protects the models from web pages. An IP address in ``Host`` is
    good: virtual machines use one for their host (10.0.2.2 in QEMU), and it cannot be rebound.

    With keys, any host is good, because a page knows no key. A page may then come from the host that it asks. Pages of
    other hosts are refused as before, so that none tries out keys from its visitors' browsers.

    ``hosts`` returns further names of the endpoint in lower case, ``origins`` the origins whose pages the Gateway lets
    in, and ``keys`` whether keys are on.
    """

    def __init__(
        self,
        hosts: Callable[[], Collection[str]],
        origins: Callable[[], Collection[str]],
        keys: Callable[[], bool],
    ) -> None:
        self._hosts = hosts
        self._keys = keys
        self._origins = origins

    def refusal(self, scope: Scope) -> ApiError | None:
        origins, keys = _given(scope, b"origin"), self._keys()
        if keys and not origins:
            return None
        own, asked = self._hosts(), _given(scope, b"host")
        own_of_pages = [*own, *(host_in(host) for host in asked)] if keys else own
        for origin in origins:
            if not _is_own(origin, own_of_pages) and not allowed(origin, self._origins()):
                return foreign_page(origin)
        for host in asked:
            if not keys and not _is_own(host, own) and not is_address(host_in(host)):
                return foreign_host(host)
        return None


def _given(scope: Scope, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]


def _is_own(authority: str, further: Collection[str]) -> bool:
    """Return whether a host or an origin is this machine, or has a name that is this endpoint's own."""
    host = host_in(authority)
    return is_local(host) or host in further


class ErrorPages:
    """Answers to requests that have no endpoint, or whose endpoint fails, in the shape that their client parses."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def refuse(self, request: Request, error: HTTPException) -> Response:
        """Answer the router's refusals, 404 and 405, with the paths and methods that exist, or that the client probably
        meant."""
        path = request.scope["path"]
        if path == "*" and request.method == "OPTIONS":  # a check of the server (RFC 9110, 9.3.7)
            return Response(status_code=204)
        if error.status_code == 405:
            allowed = ", ".join(self._paths.methods(path))
            text = f"{path} does not take {request.method}; it takes {allowed}"
            refusal = ApiError(405, "invalid_request_error", "method_not_allowed", text)
            return self._response(request, refusal, {"allow": allowed})
        text = self._paths.advice(path, str(request.base_url)[:_ADDRESS_MAX].rstrip("/"))
        return self._response(
            request, ApiError(error.status_code, "invalid_request_error", "unknown_url", text), {}
        )

    def fail(self, request: Request) -> Response:
        """Answer in case of a defect in the gateway."""
        return self._response(request, internal("the gateway failed unexpectedly"), {})

    def _response(self, request: Request, error: ApiError, headers: dict[str, str]) -> Response:
        dialect = self._paths.dialect(request.url.path)
        rendered = dialect.rendered(error, request.scope.get("request_id", ""))
        own = {name.decode(): value.decode() for name, value in rendered.headers}
        return Response(rendered.body, rendered.status, {**own, **headers}, JSON.decode())
