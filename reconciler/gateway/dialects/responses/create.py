"""``POST /v1/responses``: a conversation in as items, the next items out. Pure but for ``sources``."""

from __future__ import annotations

from reconciler.gateway.dialects.dialect import Catalog, Parsed, Sources
from reconciler.gateway.dialects.openai.model_list import only_model

from .reply import ResponseReply, ResponseStream
from .request import parse_response

DROPPED_TOOLS = b"x-dropped-tools"
"""The header with the tools that the model does not see, by type and name."""


def parse(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body, and choose the writer of the answer. Raises ``ApiError`` (400)."""
    request = parse_response(body, sources.new_seed())
    model = request.model or only_model(catalog)
    shape = ResponseStream if request.stream else ResponseReply
    dropped = ", ".join(request.tools.dropped)
    headers = ((DROPPED_TOOLS, dropped.encode()),) if dropped else ()
    return Parsed(model, (request.generate,), shape(request, model, sources), request.session, headers)
