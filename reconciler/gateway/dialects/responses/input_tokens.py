"""``POST /v1/responses/input_tokens``: the number of tokens that a request would be charged for. Pure but for
``sources``."""

from __future__ import annotations

from reconciler.gateway.dialects.counting import CountReply, counting
from reconciler.gateway.dialects.dialect import Catalog, Parsed, Sources
from reconciler.gateway.dialects.openai.model_list import only_model

from .request import parse_response


def parse(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body, and choose the writer of the number. Raises ``ApiError`` (400)."""
    request = parse_response(body, sources.new_seed())
    model = request.model or only_model(catalog)
    return Parsed(model, [counting(request.generate)], CountReply({"object": "response.input_tokens"}))
