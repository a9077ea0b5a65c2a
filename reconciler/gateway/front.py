"""The gateway as one ASGI application: the checks that every request passes before its endpoint."""

from __future__ import annotations

import re
from collections.abc import Callable

from starlette.datastructures import Headers as Given
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from reconciler.gateway.errors import refused
from reconciler.serving.exchange import exchange_of

from .dialects.dialect import Headers
from .errors import ApiError
from .http.answer import send_error
from .http.authentication import SCOPE_KEY, Authentication, client_of
from .http.cross_origin import answer_question, headers_for, is_question
from .http.paths import Paths
from .http.refusals import ErrorPages, ForeignPages
from .metrics import Metrics
from .records import recording
from .records.entry import note_error
from .records.logs import Logs
from .routing.routes import RoutesFile

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_ID = b"x-request-id"
_METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"})


class Front:
    """Takes every request: gives it an id, refuses it or hands it to its endpoint, then counts and records the
    answer. Layers of middleware, each with a coroutine for each part of an answer, took a third of the time of a
    short request.

    ``new_id`` draws ids of requests; ``now``: seconds since the Unix epoch.
    """

    def __init__(
        self,
        paths: Paths,
        file: RoutesFile,
        metrics: Metrics,
        logs: Logs,
        new_id: Callable[[], str],
        now: Callable[[], float],
    ) -> None:
        self._paths = paths
        self._file = file
        self._metrics = metrics
        self._logs = logs
        self._new_id = new_id
        self._plain = paths.plain()
        self._router = Router(paths.routes(), redirect_slashes=False)
        self._names = paths.names()
        self._pages = ErrorPages(paths)
        self._foreign = ForeignPages(
            lambda: file.current.hosts, lambda: file.current.origins, lambda: file.ring is not None
        )
        self._authentication = Authentication(paths, lambda: file.ring, now)
        self._behind_proxy = ProxyHeadersMiddleware(self._answer)  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope["headers"])
        if b"x-forwarded-for" in given or b"x-forwarded-proto" in given:
            await self._behind_proxy(scope, receive, send)  # type: ignore[arg-type]
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = recording.begin(self._logs, scope)
        if record is not None:
            receive = record.receiving(receive)
        passage = _Passage(scope, send, record, self._count, self._id_headers(scope))
        try:
            await self._pass(scope, receive, passage)
        except HTTPException as error:
            await self._pages.refuse(Request(scope), error)(scope, receive, passage.send)
        except Exception:
            if record is not None:
                record.entry.error = record.entry.error or "internal_error"
            if not passage.began:
                await self._pages.fail(Request(scope))(scope, receive, passage.send)
            raise
        finally:
            if record is not None:
                record.end(client_of(scope))

    async def _pass(self, scope: Scope, receive: Receive, passage: _Passage) -> None:
        origins = self._file.current.origins
        if origins:
            origin = Given(scope=scope).get("origin", "")
            if is_question(scope, origin, origins):
                await answer_question(scope, origin, origins, passage.send)
                return
            passage.headers = (*headers_for(origin, origins), *passage.headers)
        objection = exchange_of(scope).objection
        refusal = refused(objection) if objection is not None else self._foreign.refusal(scope)
        if refusal is None:
            try:
                scope[SCOPE_KEY] = self._authentication.caller(scope)
            except ApiError as error:
                refusal = error
        if refusal is not None:
            note_error(scope, refusal)
            dialect = self._paths.dialect(scope["path"])
            await send_error(passage.send, dialect.rendered(refusal, scope["request_id"]))
            return
        endpoint = self._plain.get((scope["method"], scope["path"]))
        if endpoint is None:
            scope["app"] = self  # makes the router raise an error for an unknown path, rather than answer
            endpoint = self._router
        await endpoint(scope, receive, passage.send)

    def _id_headers(self, scope: Scope) -> Headers:
        """Give a request its id: the client's own if it is well formed. Returns the headers with the id, under
        ``x-request-id`` and under the name that the dialect's clients know."""
        given = next((value.decode("latin-1") for name, value in scope["headers"] if name == _ID), "")
        scope["request_id"] = id = given if _REQUEST_ID.fullmatch(given) else "req_" + self._new_id()
        known_as = self._paths.dialect(scope["path"]).id_header
        return [(name, id.encode()) for name in (_ID, known_as.encode()) if name]

    def _count(self, scope: Scope, status: int) -> None:
        path, method = scope["path"], scope["method"]
        known = path if path in self._names else "other"
        self._metrics.answered(known, method if method in _METHODS else "other", status)


class _Passage:
    """The way of one answer back to its client."""

    __slots__ = ("_count", "_record", "_scope", "_send", "began", "headers")

    def __init__(
        self,
        scope: Scope,
        send: Send,
        record: recording.Recording | None,
        count: Callable[[Scope, int], None],
        headers: Headers,
    ) -> None:
        self._scope = scope
        self._send = send
        self._record = record
        self._count = count
        self.headers = headers
        """Headers that the answer has in addition to those of its endpoint."""
        self.began = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.began = True
            message["headers"] = [*message.get("headers", ()), *self.headers]
            self._count(self._scope, message["status"])
            if self._record is not None:
                self._record.entry.status = message["status"]
        elif self._record is not None:
            self._record.sent(message.get("body", b""))
        await self._send(message)
