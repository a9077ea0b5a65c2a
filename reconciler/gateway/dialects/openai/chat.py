"""``POST /v1/chat/completions``: a conversation in, its next message out. Pure but for ``sources``."""

from __future__ import annotations

from reconciler.gateway.dialects.dialect import Catalog, Parsed, Sources

from .chat_reply import ChatReply, ChatStream
from .model_list import only_model
from .request import parse_chat
from .shape import new_heading


def parse(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body, and choose the writer of the answer. Raises ``ApiError`` (400)."""

    def call_id() -> str:
        return "call_" + sources.new_id()

    request = parse_chat(body, sources.new_seed())
    model = request.model or only_model(catalog)
    heading = new_heading("chatcmpl-", model, sources)
    shape = ChatStream if request.stream else ChatReply
    return Parsed(
        model,
        request.choices,
        shape(request, heading, call_id),
        request.session,
        answers=len(request.choices),
        reports=request.return_groups,
    )
