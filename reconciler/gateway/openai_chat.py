"""Answers and faults as OpenAI's chat completions write them. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from reconciler.wire.generation import Accepted, Delta, Finished, ToolCall

from .events import Answer
from .faults import Fault
from .openai_request import ChatRequest

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: no client hands it to its user."""
DONE = b"data: [DONE]\n\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Heading:
    """What every chunk of an answer repeats."""

    id: str
    created: int
    """Seconds since the Unix epoch."""
    model: str
    """As the client named it."""


def fault_body(fault: Fault) -> bytes:
    """OpenAI's error object: all four fields, always."""
    error = {"message": fault.text, "type": fault.kind, "param": fault.param, "code": fault.code}
    return _dumps({"error": error})


def fault_headers(fault: Fault) -> list[tuple[bytes, bytes]]:
    """``Retry-After``, and the header by which OpenAI's SDKs override their own judgement."""
    headers: list[tuple[bytes, bytes]] = []
    if fault.retry_after is not None:
        headers.append((b"retry-after", str(fault.retry_after).encode()))
    if fault.retry is not None:
        headers.append((b"x-should-retry", b"true" if fault.retry else b"false"))
    return headers


class ChatStream:
    """Answers to server-sent events. ``call_id`` draws the id of a tool call."""

    def __init__(self, request: ChatRequest, heading: Heading, call_id: Callable[[], str]) -> None:
        self._request = request
        self._call_id = call_id
        self._head = b"data: " + _dumps(_header(heading, "chat.completion.chunk"))[:-1]
        usage = b',"usage":null' if request.include_usage else b""
        self._delta = (
            self._head + usage + b',"choices":[{"index":0,"logprobs":null,"finish_reason":null,"delta":'
        )

    def encode(self, answers: Sequence[Answer]) -> bytes:
        """All that ``answers`` say, in one write."""
        return b"".join([self._one(answer) for answer in answers])

    def fault(self, fault: Fault) -> bytes:
        """The end of a stream that broke: an error that SDKs raise, and no ``[DONE]``."""
        return b"data: " + fault_body(fault) + b"\n\n"

    def _one(self, answer: Answer) -> bytes:
        match answer:
            case Delta():
                return self._text(answer)
            case Accepted():
                role = b'{"role":"assistant","content":""}}]'
                if not self._request.return_token_ids:
                    return self._delta + role + b"}\n\n"
                return self._delta + role + b',"prompt_token_ids":' + _dumps(answer.prompt_tokens) + b"}\n\n"
            case ToolCall():
                call = _tool_call(answer, self._call_id())
                return self._delta + _dumps({"tool_calls": [{"index": answer.index, **call}]}) + b"}]}\n\n"
            case Finished():
                return self._finish(answer)

    def _text(self, delta: Delta) -> bytes:
        ids = b',"token_ids":' + _dumps(delta.tokens) if self._request.return_token_ids else b""
        chunks = b""
        if delta.reasoning:
            reasoning = _dumps(delta.reasoning)
            written = b'{"reasoning_content":' + reasoning + b',"reasoning":' + reasoning + b"}"
            chunks = self._delta + written + ids + b"}]}\n\n"
            ids = b',"token_ids":[]' if ids else b""
        if delta.text or (ids and not chunks):
            chunks += self._delta + b'{"content":' + _dumps(delta.text) + b"}" + ids + b"}]}\n\n"
        return chunks

    def _finish(self, finished: Finished) -> bytes:
        choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": finished.reason}
        usage = b',"usage":null' if self._request.include_usage else b""
        chunks = self._head + usage + b',"choices":' + _dumps([choice]) + b"}\n\n"
        if self._request.include_usage:
            chunks += self._head + b',"choices":[],"usage":' + _dumps(_usage(finished)) + b"}\n\n"
        return chunks + DONE


class ChatReply:
    """Answers to one JSON object."""

    def __init__(self, request: ChatRequest, heading: Heading, call_id: Callable[[], str]) -> None:
        self._request = request
        self._heading = heading
        self._call_id = call_id
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._prompt_tokens: tuple[int, ...] = ()
        self._tokens: list[int] = []
        self._finished: Finished | None = None

    def add(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            match answer:
                case Delta():
                    self._text.append(answer.text)
                    self._reasoning.append(answer.reasoning)
                    self._tokens.extend(answer.tokens)
                case Accepted():
                    self._prompt_tokens = answer.prompt_tokens
                case ToolCall():
                    self._calls.append(_tool_call(answer, self._call_id()))
                case Finished():
                    self._finished = answer

    def body(self) -> bytes:
        """The completion, once ``Finished`` has been added."""
        assert self._finished is not None
        choice = {
            "index": 0,
            "message": self._message(),
            "logprobs": None,
            "finish_reason": self._finished.reason,
        }
        reply = _header(self._heading, "chat.completion")
        if self._request.return_token_ids:
            choice["token_ids"] = self._tokens
            reply["prompt_token_ids"] = self._prompt_tokens
        return _dumps({**reply, "choices": [choice], "usage": _usage(self._finished)})

    def _message(self) -> dict[str, Any]:
        text = "".join(self._text)
        reasoning = "".join(self._reasoning)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if reasoning:
            message["reasoning_content"] = message["reasoning"] = reasoning
        if self._calls:
            message["content"] = text if text.strip() else None
            message["tool_calls"] = self._calls
        return message


def _header(heading: Heading, kind: str) -> dict[str, Any]:
    return {"id": heading.id, "object": kind, "created": heading.created, "model": heading.model}


def _tool_call(call: ToolCall, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _usage(finished: Finished) -> dict[str, int]:
    return {
        "prompt_tokens": finished.prompt_tokens,
        "completion_tokens": finished.completion_tokens,
        "total_tokens": finished.prompt_tokens + finished.completion_tokens,
    }


def _dumps(value: Any) -> bytes:
    """JSON. A half of a surrogate pair, which has no UTF-8, becomes a question mark."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return orjson.dumps(_mended(value))


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _mended(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mended(entry) for entry in value]
    return value
