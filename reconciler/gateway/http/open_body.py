"""The body of an answer that has begun, as its connection takes it."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

SCOPE_KEY = "open_body"
"""Where a request's scope has the ``OpenBody`` of its answer, in its ``state``."""


class OpenBody:
    """Writes parts of a body at once, in chunks as HTTP has them (RFC 9112, 7.1).

    ``send`` of ASGI does the same through a coroutine for each layer of the application: that is most of what a part
    costs.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self.told: Callable[[bytes], None] | None = None
        self._cycle = cycle
        self._flow = cycle.flow
        self._write = cycle.transport.write

    @property
    def ready(self) -> bool:
        """Return whether the answer has begun, in chunks, and its client reads it."""
        cycle = self._cycle
        return bool(cycle.chunked_encoding) and not (self._flow.write_paused or cycle.disconnected)

    def write(self, part: bytes) -> None:
        """Write a part, which must not be empty: that would be the end."""
        self._write(b"%x\r\n%b\r\n" % (len(part), part))
        if self.told is not None:
            self.told(part)


def open_body(scope: Scope, told: Callable[[bytes], None] | None) -> OpenBody:
    """Return the body of the answer to a request; ``told`` is called with each part that is written to it."""
    body: OpenBody = scope["state"][SCOPE_KEY]
    body.told = told
    return body
