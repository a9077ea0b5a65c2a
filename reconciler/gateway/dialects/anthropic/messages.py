"""``POST /v1/messages``: a conversation in, its next message out. Pure but for ``sources``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from reconciler.gateway.dialects.dialect import Catalog, Parsed, Sources
from reconciler.gateway.dialects.openai.model_list import only_model
from reconciler.gateway.dialects.openai.shape import dumps
from reconciler.gateway.dialects.replaced import dropped_headers
from reconciler.gateway.errors import ApiError
from reconciler.gateway.events import Piece
from reconciler.wire.generation import Accepted, Finished

from .blocks import SIGNATURE, TEXT, THINKING, TOOL_USE, Begun, Blocks, Ended, Grown, Step
from .errors import error_body
from .request import MessagesRequest, parse_request

_DELTAS = {
    TEXT: ("text_delta", "text"),
    THINKING: ("thinking_delta", "thinking"),
    SIGNATURE: ("signature_delta", "signature"),
    TOOL_USE: ("input_json_delta", "partial_json"),
}
"""The type of a delta, and its field."""
_NO_ENDING = dict.fromkeys(("stop_reason", "stop_sequence", "stop_details", "container"))
_NO_DETAILS = dict.fromkeys(("cache_creation", "inference_geo", "service_tier"))
"""Fields that Anthropic's published schema requires, and that have no value here."""


def parse(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body, and choose the writer of the answer. Raises ``ApiError`` (400)."""

    def call_id() -> str:
        return "toolu_" + sources.new_id()

    request = parse_request(body, sources.new_seed())
    model = request.model or only_model(catalog)
    shape = MessageStream if request.stream else MessageReply
    answer = shape(request, "msg_" + sources.new_id(), model, call_id)
    return Parsed(model, (request.generate,), answer, request.session, dropped_headers(request.dropped))


class MessageStream:
    """Writes the answer as server-sent events. ``call_id`` draws the id of a tool call."""

    content_type = b"text/event-stream; charset=utf-8"

    def __init__(self, request: MessagesRequest, id: str, model: str, call_id: Callable[[], str]) -> None:
        self._request = request
        self._heading = _heading(id, model)
        self._blocks = Blocks(call_id, request.shows_thinking)

    def keep_alive(self) -> bytes:
        return b'event: ping\ndata: {"type":"ping"}\n\n'

    def encode(self, pieces: Sequence[Piece]) -> bytes:
        events: list[bytes] = []
        for _, answer in pieces:
            if isinstance(answer, Accepted):
                events.append(self._start(answer))
                continue
            events += [_event(step) for step in self._blocks.take(answer)]
            if isinstance(answer, Finished):
                events += [self._end(answer), _named("message_stop", {})]
        return b"".join(events)

    def error(self, error: ApiError) -> bytes:
        """Return the end of a stream that broke: an error that SDKs raise, and no ``message_stop``."""
        return b"event: error\ndata: " + error_body(error) + b"\n\n"

    def _start(self, accepted: Accepted) -> bytes:
        """Return the first event. It is not known yet how much of the prompt was cached."""
        usage = _usage(len(accepted.prompt_tokens), 0, 0)
        message = {**self._heading, "content": [], **_NO_ENDING, "usage": usage | _NO_DETAILS}
        return _named("message_start", {"message": message})

    def _end(self, finished: Finished) -> bytes:
        fields: dict[str, Any] = {"delta": _ending(finished, self._request), "usage": _used(finished)}
        return _named("message_delta", fields | _edits(self._request))


class MessageReply:
    """Writes the answer as one JSON object. ``call_id`` draws the id of a tool call."""

    def __init__(self, request: MessagesRequest, id: str, model: str, call_id: Callable[[], str]) -> None:
        self._request = request
        self._heading = _heading(id, model)
        self._blocks = Blocks(call_id, request.shows_thinking)
        self._content: dict[int, dict[str, Any]] = {}
        self._texts: dict[int, list[str]] = {}
        self._finished: Finished | None = None

    def add(self, pieces: Sequence[Piece]) -> None:
        for _, answer in pieces:
            for step in self._blocks.take(answer):
                self._keep(step)
            if isinstance(answer, Finished):
                self._finished = answer

    def _keep(self, step: Step) -> None:
        match step:
            case Begun():
                self._content[step.index] = step.block
                self._texts[step.index] = []
            case Grown() if step.what == SIGNATURE:
                self._content[step.index][SIGNATURE] = step.text
            case Grown():
                self._texts[step.index].append(step.text)
            case Ended():
                if step.withdrawn:
                    del self._content[step.index]

    def body(self) -> bytes:
        assert self._finished is not None
        content = [_whole(block, "".join(self._texts[index])) for index, block in self._content.items()]
        ending = _ending(self._finished, self._request)
        fields = {"content": content, **ending, "usage": _used(self._finished) | _NO_DETAILS}
        return dumps(self._heading | fields | _edits(self._request))


def _heading(id: str, model: str) -> dict[str, Any]:
    return {"id": id, "type": "message", "role": "assistant", "model": model}


def _whole(block: dict[str, Any], text: str) -> dict[str, Any]:
    kind = block["type"]
    return {**block, "input": _arguments(text)} if kind == TOOL_USE else {**block, kind: text}


def _arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call: always an object, because clients take nothing else, and ranks send nothing
    else."""
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _event(step: Step) -> bytes:
    match step:
        case Grown():
            kind, field = _DELTAS[step.what]
            head = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
            return head % (step.index, kind.encode(), field.encode()) + dumps(step.text) + b"}}\n\n"
        case Begun():
            return _named("content_block_start", {"index": step.index, "content_block": step.block})
        case Ended():
            return _named("content_block_stop", {"index": step.index})


def _named(name: str, fields: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), dumps({"type": name, **fields}))


def _ending(finished: Finished, request: MessagesRequest) -> dict[str, Any]:
    reason = _stop_reason(finished, request.tokens_max)
    sequence = finished.stop if reason == "stop_sequence" else None
    return {**_NO_ENDING, "stop_reason": reason, "stop_sequence": sequence}


def _stop_reason(finished: Finished, tokens_max: int) -> str:
    match finished.reason:
        case "tool_calls":
            return "tool_use"
        case "length":
            short = finished.completion_tokens < tokens_max
            return "model_context_window_exceeded" if short else "max_tokens"
        case _:
            return "end_turn" if finished.stop is None else "stop_sequence"


def _used(finished: Finished) -> dict[str, int | None]:
    return _usage(finished.prompt_tokens, finished.cached_tokens, finished.completion_tokens)


def _usage(prompt: int, cached: int, completion: int) -> dict[str, int | None]:
    """Return the tokens of an answer. Cached tokens of the prompt are not counted as input here."""
    return {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": completion,
        "output_tokens_details": None,
        "server_tool_use": None,
    }


def _edits(request: MessagesRequest) -> dict[str, Any]:
    """Return the answer to ``context_management``: no edit was applied."""
    return {"context_management": {"applied_edits": []}} if request.edits_context else {}
