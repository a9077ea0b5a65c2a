"""``POST /v1/completions``."""

from __future__ import annotations

from .endpoint import Asked, Endpoint
from .openai_completions import CompletionReply, CompletionStream, parse_completion


class Completions(Endpoint):
    """Text or tokens in, what the model goes on with out."""

    def understand(self, body: bytes) -> Asked:
        request = parse_completion(body, self._sources.new_seed())
        heading = self.heading("cmpl-", request.model)
        shape = CompletionStream if request.stream else CompletionReply
        return Asked(request.model, request.choices, shape(request, heading))
