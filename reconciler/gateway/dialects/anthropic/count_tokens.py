"""``POST /v1/messages/count_tokens``: the number of tokens that a request would be charged for. Pure."""

from __future__ import annotations

from reconciler.gateway.dialects.counting import CountReply, counting
from reconciler.gateway.dialects.dialect import Catalog, Parsed, Sources
from reconciler.gateway.dialects.known_parameters import refuse_unsupported
from reconciler.gateway.dialects.openai.model_list import only_model
from reconciler.gateway.dialects.openai.parameters import parse_model, parse_object
from reconciler.gateway.dialects.parameter_table import MESSAGES
from reconciler.gateway.dialects.replaced import dropped_headers
from reconciler.wire.generation import Generate

from .request import parse_prompt


def parse(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body, which needs no ``max_tokens``, and choose the writer of the number. Raises ``ApiError`` (400)."""
    fields = parse_object(body)
    refuse_unsupported(fields, MESSAGES)
    prompt = parse_prompt(fields)
    asked = Generate(
        "",
        prompt.messages,
        tuple(prompt.tools.shown),
        template=prompt.template,
        replaced=prompt.replaced,
    )
    model = parse_model(fields) or only_model(catalog)
    headers = dropped_headers(prompt.tools.dropped)
    return Parsed(model, [counting(asked)], CountReply({}), headers=headers)
