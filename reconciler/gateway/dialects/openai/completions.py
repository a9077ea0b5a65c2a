"""``POST /v1/completions``: text or tokens in, their continuation out. Pure but for ``sources``."""

from __future__ import annotations

from reconciler.gateway.dialects.dialect import Catalog, Parsed, Sources

from .completions_reply import CompletionReply, CompletionStream, parse_completion
from .model_list import only_model
from .shape import new_heading


def parse(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body, and choose the writer of the answers. Raises ``ApiError`` (400)."""
    request = parse_completion(body, sources.new_seed())
    model = request.model or only_model(catalog)
    heading = new_heading("cmpl-", model, sources)
    shape = CompletionStream if request.stream else CompletionReply
    return Parsed(model, request.choices, shape(request, heading), request.session, (), request.answers)
