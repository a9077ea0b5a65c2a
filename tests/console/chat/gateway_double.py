"""A gateway on loopback that answers as it is told to, in a thread of its own; it notes what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from reconciler.console.app import build_app
from reconciler.console.settings import Settings
from reconciler.resources.gateway import CONSOLE_LISTEN
from reconciler.wire.objects import ApiKey
from tests.console.doors import doors_of, with_keys
from tests.console.snapshots import recorded

SECONDS_MAX = 30
Script = Callable[["GatewayDouble"], AsyncIterator[bytes]]


def chunk(**fields: Any) -> bytes:
    """A part of a stream as the gateway writes it."""
    return (
        b"data: "
        + json.dumps({"object": "chat.completion.chunk", "choices": [], **fields}).encode()
        + b"\n\n"
    )


def said(text: str, finish: str | None = None, **delta: Any) -> bytes:
    """A part with text."""
    return chunk(choices=[{"index": 0, "delta": {"content": text, **delta}, "finish_reason": finish}])


GROUP = {"index": 0, "replica": 0, "epoch": 7, "nodes": ["studio-1", "studio-2", "studio-3", "studio-4"]}
END = b"data: [DONE]\n\n"


@dataclass
class GatewayDouble:
    """What it is asked, and what it answers."""

    url: str = ""
    stream: Script | None = None
    """The parts of each stream."""
    reply: Response | None = None
    """Instead of a stream."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)
    """Set when somebody has gone before the end of a stream."""
    go: threading.Event = field(default_factory=threading.Event)
    """For scripts that wait for the test."""

    def reset(self) -> None:
        """Forget what was."""
        self.stream = self.reply = None
        for noted in (self.asked, self.headers):
            noted.clear()
        for event in (self.left, self.go):
            event.clear()

    async def until_go(self) -> None:
        """Wait for the test."""
        await asyncio.to_thread(self.go.wait, SECONDS_MAX)

    async def answer(self, request: Request) -> Response:
        self.asked.append(await request.json())
        self.headers.append(dict(request.headers))
        if self.reply is not None:
            return self.reply
        return StreamingResponse(self._parts(), media_type="text/event-stream")

    async def _parts(self) -> AsyncIterator[bytes]:
        assert self.stream is not None
        try:
            async for part in self.stream(self):
                yield part
        except (asyncio.CancelledError, GeneratorExit):
            self.left.set()
            raise
        finally:
            self.go.set()


@contextlib.contextmanager
def gateway_double(**how: Any) -> Iterator[GatewayDouble]:
    """Serve on a free port of loopback. ``how``: as ``uvicorn.Config`` takes it, for TLS."""
    double = GatewayDouble()
    app = Starlette(routes=[Route("/v1/chat/completions", double.answer, methods=["POST"])])
    with serving(app, **how) as address:
        double.url = f"{'https' if how else 'http'}://{address}/v1"
        yield double


@contextlib.contextmanager
def console_at(endpoint: str | None, *keys: ApiKey, **spec: Any) -> Iterator[str]:
    """The address of a console of four Macs whose controller names this gateway. ``keys``: those that are in force; ``spec``:
    further fields of the Gateway's."""
    known = recorded("four-macs")
    snapshot = with_keys(known, *keys, **spec) if keys or spec else known
    snapshot = replace(snapshot, status={**snapshot.status, "localEndpoint": endpoint})
    doors = doors_of(snapshot)
    if not keys:
        doors.settings = lambda: Settings(CONSOLE_LISTEN)
    with serving(build_app(doors.feed, doors, doors.settings())) as address:
        yield f"http://{address}"


@contextlib.contextmanager
def serving(app: Starlette, **how: Any) -> Iterator[str]:
    """Serve an application in a thread of its own, until the block ends; the address."""
    config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_graceful_shutdown=1, **how)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            yield f"127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)


def whole(text: str, **message: Any) -> JSONResponse:
    """An answer that is not streamed."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, **message},
        "finish_reason": "stop",
    }
    return JSONResponse({"choices": [choice], "groups": [GROUP], "usage": {}})
