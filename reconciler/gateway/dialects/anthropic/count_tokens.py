"""``POST /v1/messages/count_tokens``: how many tokens a request would be charged for. Pure.

Rank 0 counts them, with the template and the tokenizer of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.gateway.dialects.dialect import Catalog, Parsed, Sources
from reconciler.gateway.dialects.known_parameters import refuse_unsupported
from reconciler.gateway.dialects.openai.model_list import only_model
from reconciler.gateway.dialects.openai.parameters import parse_model, parse_object
from reconciler.gateway.dialects.openai.shape import dumps
from reconciler.gateway.dialects.parameter import MESSAGES
from reconciler.gateway.events import Piece
from reconciler.wire.generation import Finished, Generate
from reconciler.wire.question import Question

from .messages import dropped_headers
from .request import parse_prompt


def parse(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body, and choose what writes the number. Raises ``ApiError`` (400)."""
    fields = parse_object(body)
    refuse_unsupported(fields, MESSAGES)
    prompt = parse_prompt(fields)
    asked = Generate(
        request="",
        messages=prompt.messages,
        tools=tuple(prompt.tools.shown),
        tokens_max=0,
        template=prompt.template,
        question=Question(),
    )
    model = parse_model(fields) or only_model(catalog)
    return Parsed(model, [asked], CountReply(), headers=dropped_headers(prompt.tools.dropped))


class CountReply:
    """Writes how many tokens there are."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, pieces: Sequence[Piece]) -> None:
        """Keep what rank 0 says."""
        self._count += sum(answer.prompt_tokens for _, answer in pieces if isinstance(answer, Finished))

    def body(self) -> bytes:
        """Return Anthropic's object."""
        return dumps({"input_tokens": self._count})
