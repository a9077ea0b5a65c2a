"""``POST /v1/messages``: a conversation in, its next message out. Pure but for ``sources``."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.gateway.dialects.dialect import Catalog, Headers, Parsed, Sources
from reconciler.gateway.dialects.openai.model_list import only_model

from .reply import MessageReply, MessageStream
from .request import parse_request

DROPPED_TOOLS = b"x-dropped-tools"
"""The header with the types of the tools that the model does not see."""


def parse(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body, and choose the writer of the answer. Raises ``ApiError`` (400)."""

    def call_id() -> str:
        return "toolu_" + sources.new_id()

    request = parse_request(body, sources.new_seed())
    model = request.model or only_model(catalog)
    shape = MessageStream if request.stream else MessageReply
    answer = shape(request, "msg_" + sources.new_id(), model, call_id)
    return Parsed(model, (request.generate,), answer, request.session, dropped_headers(request.dropped))


def dropped_headers(dropped: Sequence[str]) -> Headers:
    """Return the header with the types of the tools that the model does not see, if there are any."""
    return ((DROPPED_TOOLS, ", ".join(dropped).encode()),) if dropped else ()
