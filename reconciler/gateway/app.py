"""HTTP: paths, bodies, headers, and clients that go away before their answer comes."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import re
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import orjson
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .dispatch import Run
from .events import Answer
from .faults import ClientGone, Fault, body_too_slow, foreign_page, internal, too_large
from .health import Counted, Probes
from .openai_chat import KEEP_ALIVE, ChatReply, ChatStream, Heading, fault_body, fault_headers
from .openai_request import ChatRequest, parse_chat
from .pool import Pool

BODY_BYTES_MAX = 12 * 1024 * 1024
"""Less than a frame to a rank holds, so that the token ids to resume with fit as well."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_JSON = (b"content-type", b"application/json")
_EVENT_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """Where time and chance come from."""

    now: Callable[[], float]
    """Seconds since the Unix epoch."""
    new_id: Callable[[], str]
    """Letters and digits that no other call returns."""
    new_seed: Callable[[], int]
    """A number of 63 random bits."""


def build_app(pool: Pool, sources: Sources) -> Starlette:
    """The endpoint over ``pool``, whose ``watch`` the caller keeps running."""
    probes = Probes(pool)
    routes = [
        Route("/health", probes.health, methods=["GET"]),
        Route("/ready", probes.ready, methods=["GET"]),
        Route("/metrics", probes.metrics, methods=["GET"]),
        Route("/v1/models", _Models(pool), methods=["GET"]),
        Route("/v1/chat/completions", _Chat(pool, sources), methods=["POST"]),
    ]
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(Counted, metrics=pool.metrics, paths=frozenset(route.path for route in routes)),
            Middleware(_RequestIds, new_id=sources.new_id),
            Middleware(_NoForeignPages),
        ],
        exception_handlers={HTTPException: _http_fault, Exception: _unexpected},
    )
    app.router.redirect_slashes = False
    return app


class _RequestIds:
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


class _NoForeignPages:
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
        fault = foreign_page(origin)
        await _send_json(send, fault.status, fault_headers(fault), fault_body(fault))


def _is_loopback(origin: str) -> bool:
    try:
        host = urlsplit(origin).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _http_fault(request: Request, error: Exception) -> Response:
    """404 and 405 of the router, in the shape that clients parse."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 405:
        fault = Fault(
            405, "invalid_request_error", "method_not_allowed", f"{request.method} is not for {path}"
        )
    else:
        fault = Fault(error.status_code, "invalid_request_error", "unknown_url", f"no such endpoint: {path}")
    return Response(fault_body(fault), fault.status, error.headers, "application/json")


async def _unexpected(request: Request, error: Exception) -> Response:
    """A defect of the gateway; Starlette raises it again, so that the log has it."""
    headers = {"x-request-id": request.scope.get("request_id", "")}
    body = fault_body(internal("the gateway failed unexpectedly"))
    return Response(body, 500, headers, "application/json")


class _Models:
    """``GET /v1/models``: every name that can be asked for, aliases as well."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._pool.refresh()
        models = [
            {"id": name, "object": "model", "created": route.created, "owned_by": "reconciler"}
            for name, route in self._pool.file.names().items()
        ]
        await _send_json(send, 200, [], orjson.dumps({"object": "list", "data": models}))


class _Chat:
    """``POST /v1/chat/completions``."""

    def __init__(self, pool: Pool, sources: Sources) -> None:
        self._pool = pool
        self._sources = sources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._body(scope, receive)
            request = parse_chat(body, self._sources.new_seed())
            await self._answer(request, receive, send)
        except Fault as fault:
            await _send_json(send, fault.status, fault_headers(fault), fault_body(fault))
        except ClientGone:
            return

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        try:
            async with asyncio.timeout(self._pool.timing.body):
                return await _read_body(scope, receive)
        except TimeoutError:
            raise body_too_slow() from None

    async def _answer(self, request: ChatRequest, receive: Receive, send: Send) -> None:
        name = "chatcmpl-" + self._sources.new_id()
        heading = Heading(name, int(self._sources.now()), request.model)
        with Run(self._pool, request.model, request.generate, name) as run:
            watcher = asyncio.create_task(_watch_client(receive, run))
            try:
                if request.stream:
                    await self._stream(run, ChatStream(request, heading, self._call_id), send)
                else:
                    await self._reply(run, ChatReply(request, heading, self._call_id), send)
            finally:
                watcher.cancel()

    def _call_id(self) -> str:
        return "call_" + self._sources.new_id()

    async def _reply(self, run: Run, reply: ChatReply, send: Send) -> None:
        while not run.done:
            reply.add(await run.next(self._pool.timing.keep_alive))
        await _send_json(send, 200, [], reply.body())

    async def _stream(self, run: Run, stream: ChatStream, send: Send) -> None:
        """Faults before the first event are statuses; after it they are the stream's last event."""
        timing = self._pool.timing
        answers: Sequence[Answer] = await run.next(timing.headers_after)
        await send({"type": "http.response.start", "status": 200, "headers": list(_EVENT_STREAM)})
        await _send_part(send, stream.encode(answers) or KEEP_ALIVE, more=not run.done)
        loop = asyncio.get_running_loop()
        written_at = loop.time()
        try:
            while not run.done:
                part = stream.encode(await run.next(timing.keep_alive))
                if not part and loop.time() - written_at >= timing.keep_alive:
                    part = KEEP_ALIVE
                if part:
                    await _send_part(send, part, more=not run.done)
                    written_at = loop.time()
        except Fault as fault:
            await _send_part(send, stream.fault(fault), more=False)


async def _read_body(scope: Scope, receive: Receive) -> bytes:
    length = Headers(scope=scope).get("content-length", "")
    if length.isdigit() and int(length) > BODY_BYTES_MAX:
        raise too_large(BODY_BYTES_MAX)
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone("the client went away while sending its request")
        body += message.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            raise too_large(BODY_BYTES_MAX)
        if not message.get("more_body", False):
            return bytes(body)


async def _watch_client(receive: Receive, run: Run) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    run.abandon()


async def _send_json(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    headers = [_JSON, (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await _send_part(send, body, more=False)


async def _send_part(send: Send, part: bytes, more: bool) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": more})
