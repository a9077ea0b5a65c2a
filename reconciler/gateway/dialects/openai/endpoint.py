"""What all endpoints that generate have in common: from a request's body to the end of its answer."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence

from starlette.types import Receive, Scope, Send

from reconciler.gateway.errors import ApiError, ClientGone
from reconciler.gateway.http.exchange import (
    Reply,
    Sources,
    Stream,
    read_body,
    send_error,
    send_reply,
    send_stream,
    watching,
)
from reconciler.gateway.http.shape import Heading
from reconciler.gateway.routing.pool import Pool
from reconciler.gateway.routing.runs import Runs
from reconciler.wire.generation import Generate


@dataclasses.dataclass(frozen=True, slots=True)
class Parsed:
    """A request that is understood."""

    model: str
    choices: Sequence[Generate]
    answer: Stream | Reply


class Endpoint(ABC):
    """``POST`` of a JSON body that asks a model for something."""

    def __init__(self, pool: Pool, sources: Sources) -> None:
        self._pool = pool
        self._sources = sources

    @abstractmethod
    def understand(self, body: bytes) -> Parsed:
        """What a body asks for. Raises ``Fault`` (400)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        timing = self._pool.timing
        try:
            asked = self.understand(await read_body(scope, receive, timing))
            name = "run-" + self._sources.new_id()
            with Runs(self._pool, asked.model, asked.choices, name) as runs:
                async with watching(receive, runs):
                    if isinstance(asked.answer, Stream):
                        await send_stream(send, runs, asked.answer, timing)
                    else:
                        await send_reply(send, runs, asked.answer, timing)
        except ApiError as fault:
            await send_error(send, fault)
        except ClientGone:
            return

    def heading(self, prefix: str, model: str) -> Heading:
        """A new answer's."""
        return Heading(prefix + self._sources.new_id(), int(self._sources.now()), model)
