"""Answers a browser that chats: with the gateway's stream as it comes, or, without scripts, with a whole page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from reconciler.console.access.visitor import visitor_of
from reconciler.console.feed import Feed
from reconciler.console.pages import CHAT, Pages
from reconciler.console.view.chat import said

from .asked import Form, WrongRequest, completion, from_form, from_json
from .upstream import Answer, NoGateway, asking, error_of, gateway_of, parts

BODY_BYTES_MAX = 8 * 1024 * 1024
CHATS_MAX = 100
"""Most answers to pass on at a time: each holds two connections."""
NO_STORE = {"cache-control": "no-store", "x-accel-buffering": "no"}

T = TypeVar("T")


class ClientLeft(Exception):
    """The browser has closed its connection."""


class Chat:
    def __init__(self, feed: Feed, pages: Pages) -> None:
        self._feed = feed
        self._pages = pages
        self._open = 0

    def routes(self) -> list[Route]:
        return [
            Route("/chat/{name}", self._page, methods=["POST"], name="Chat without scripts"),
            Route("/chat/{name}/answer", self._answer, methods=["POST"], name="Answer of a chat"),
        ]

    async def _answer(self, request: Request) -> Response:
        """Pass a stream on. A page of another origin cannot send JSON without asking first."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _refusal(415, "the body must be application/json")
        if self._open >= CHATS_MAX:
            return _refusal(503, f"{CHATS_MAX} answers are on their way already; try again in a moment")
        stack = AsyncExitStack()
        self._open += 1
        stack.callback(self._close)
        try:
            name = request.path_params["name"]
            body = completion(name, from_json(await _body(request)), stream=True)
            gateway = gateway_of(self._feed.snapshot)
            entering = stack.enter_async_context(
                asking(gateway, body, visitor_of(request).secret, stream=True)
            )
            answer = await _unless_gone(request, entering)
            return _Passed(stack.pop_all(), answer)
        except WrongRequest as error:
            return _refusal(400, str(error))
        except NoGateway as error:
            return _refusal(502, str(error))
        except ClientLeft:
            return Response(status_code=499)
        finally:
            await stack.aclose()

    def _close(self) -> None:
        self._open -= 1

    async def _page(self, request: Request) -> Response:
        """Answer a form with a page that has the whole answer."""
        name, form, problem = request.path_params["name"], None, ""
        try:
            form = from_form(await _body(request))
            message = await _unless_gone(request, self._whole(request, name, form))
            form = Form(form.typed, (*form.messages, message))
        except (WrongRequest, NoGateway) as error:
            problem = str(error)
        except ClientLeft:
            return Response(status_code=499)
        shown: dict[str, Any] = {"problem": problem}
        if form is not None:
            shown["said"] = [said(each) for each in form.messages]
            shown |= {"kept": json.dumps(form.messages), "typed": form.typed}
        html = self._pages.whole(
            CHAT, name, self._feed.snapshot, wall=False, key=visitor_of(request).key, **shown
        )
        return HTMLResponse(html, headers=NO_STORE)

    async def _whole(self, request: Request, name: str, form: Form) -> dict[str, Any]:
        """Return the message that answers a form, with the groups that worked on it."""
        body = completion(name, form.fields(), stream=False)
        gateway = gateway_of(self._feed.snapshot)
        async with asking(gateway, body, visitor_of(request).secret, stream=False) as answer:
            read = await answer.aread()
        if answer.status_code != 200:
            raise NoGateway(error_of(answer.status_code, read)["message"])
        reply = json.loads(read)
        return {**reply["choices"][0]["message"], "groups": reply["groups"]}


class _Passed(StreamingResponse):
    """An answer as it comes. The request to the gateway always ends with it."""

    def __init__(self, stack: AsyncExitStack, answer: Answer) -> None:
        self._stack = stack
        headers = {**NO_STORE, "content-type": answer.headers.get("content-type", "application/json")}
        super().__init__(_parts(answer), answer.status_code, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            await super().__call__(scope, receive, send)


async def _parts(answer: Answer) -> AsyncIterator[bytes]:
    try:
        async for part in parts(answer):
            yield part
    except NoGateway as error:  # an answer that has begun can say so only in its stream
        yield b"data: " + json.dumps({"error": {"message": str(error)}}).encode() + b"\n\n"


async def _body(request: Request) -> bytes:
    """Return the body. Raises ``WrongRequest`` for one that is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            raise WrongRequest(
                f"the conversation is larger than {BODY_BYTES_MAX // 2**20} MiB; begin a new one"
            )
    return bytes(body)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``. Raises ``ClientLeft``, and cancels it, once the browser has closed its connection."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientLeft
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _refusal(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": {"message": text}}, status)
