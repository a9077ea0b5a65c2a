"""``POST /v1/completions``."""

from __future__ import annotations

from .completions_reply import CompletionReply, CompletionStream, parse_completion
from .endpoint import Endpoint, Parsed


class Completions(Endpoint):
    """Text or tokens in, what the model goes on with out."""

    def understand(self, body: bytes) -> Parsed:
        request = parse_completion(body, self._sources.new_seed())
        heading = self.heading("cmpl-", request.model)
        shape = CompletionStream if request.stream else CompletionReply
        return Parsed(request.model, request.choices, shape(request, heading))
