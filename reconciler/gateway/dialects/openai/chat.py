"""``POST /v1/chat/completions``."""

from __future__ import annotations

from .chat_reply import ChatReply, ChatStream
from .endpoint import Endpoint, Parsed
from .request import parse_chat


class Chat(Endpoint):
    """A conversation in, its next message out."""

    def understand(self, body: bytes) -> Parsed:
        request = parse_chat(body, self._sources.new_seed())
        heading = self.heading("chatcmpl-", request.model)
        shape = ChatStream if request.stream else ChatReply
        return Parsed(request.model, request.choices, shape(request, heading, self._call_id))

    def _call_id(self) -> str:
        return "call_" + self._sources.new_id()
