"""``POST /v1/chat/completions``."""

from __future__ import annotations

from .endpoint import Asked, Endpoint
from .openai_chat import ChatReply, ChatStream
from .openai_request import parse_chat


class Chat(Endpoint):
    """A conversation in, its next message out."""

    def understand(self, body: bytes) -> Asked:
        request = parse_chat(body, self._sources.new_seed())
        heading = self.heading("chatcmpl-", request.model)
        shape = ChatStream if request.stream else ChatReply
        return Asked(request.model, request.choices, shape(request, heading, self._call_id))

    def _call_id(self) -> str:
        return "call_" + self._sources.new_id()
