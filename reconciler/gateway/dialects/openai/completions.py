"""``POST /v1/completions``: text or tokens in, what the model continues them with out. Pure but for ``sources``."""

from __future__ import annotations

from reconciler.gateway.dialects.dialect import Parsed, Sources

from .completions_reply import CompletionReply, CompletionStream, parse_completion
from .shape import new_heading


def parse(body: bytes, sources: Sources) -> Parsed:
    """Parse a body, and choose what writes the answers. Raises ``ApiError`` (400)."""
    request = parse_completion(body, sources.new_seed())
    heading = new_heading("cmpl-", request.model, sources)
    shape = CompletionStream if request.stream else CompletionReply
    return Parsed(request.model, request.choices, shape(request, heading))
