"""``POST /v1/chat/completions``."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from .dispatch import Run
from .exchange import Sources, read_body, send_fault, send_reply, send_stream, watching
from .faults import ClientGone, Fault
from .openai_chat import ChatReply, ChatStream
from .openai_request import ChatRequest, parse_chat
from .openai_shape import Heading
from .pool import Pool


class Chat:
    """One conversation in, its next message out."""

    def __init__(self, pool: Pool, sources: Sources) -> None:
        self._pool = pool
        self._sources = sources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(scope, receive, self._pool.timing)
            request = parse_chat(body, self._sources.new_seed())
            await self._answer(request, receive, send)
        except Fault as fault:
            await send_fault(send, fault)
        except ClientGone:
            return

    async def _answer(self, request: ChatRequest, receive: Receive, send: Send) -> None:
        name = "chatcmpl-" + self._sources.new_id()
        heading = Heading(name, int(self._sources.now()), request.model)
        with Run(self._pool, request.model, request.generate, name) as run:
            async with watching(receive, run):
                if request.stream:
                    stream = ChatStream(request, heading, self._call_id)
                    await send_stream(send, run, stream, self._pool.timing)
                else:
                    reply = ChatReply(request, heading, self._call_id)
                    await send_reply(send, run, reply, self._pool.timing)

    def _call_id(self) -> str:
        return "call_" + self._sources.new_id()
