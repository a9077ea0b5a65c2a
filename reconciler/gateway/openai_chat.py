"""Answers and faults as OpenAI's chat completions write them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reconciler.wire.generation import Accepted, Delta, Finished, ToolCall

from .events import Answer
from .faults import Fault
from .openai_request import ChatRequest
from .openai_shape import DONE, Heading, dumps, fault_body, header, usage


class ChatStream:
    """Answers to server-sent events. ``call_id`` draws the id of a tool call."""

    def __init__(self, request: ChatRequest, heading: Heading, call_id: Callable[[], str]) -> None:
        self._request = request
        self._call_id = call_id
        self._head = b"data: " + dumps(header(heading, "chat.completion.chunk"))[:-1]
        no_usage = b',"usage":null' if request.include_usage else b""
        self._delta = (
            self._head + no_usage + b',"choices":[{"index":0,"logprobs":null,"finish_reason":null,"delta":'
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
                return self._delta + role + b',"prompt_token_ids":' + dumps(answer.prompt_tokens) + b"}\n\n"
            case ToolCall():
                call = _tool_call(answer, self._call_id())
                return self._delta + dumps({"tool_calls": [{"index": answer.index, **call}]}) + b"}]}\n\n"
            case Finished():
                return self._finish(answer)

    def _text(self, delta: Delta) -> bytes:
        ids = b',"token_ids":' + dumps(delta.tokens) if self._request.return_token_ids else b""
        chunks = b""
        if delta.reasoning:
            reasoning = dumps(delta.reasoning)
            written = b'{"reasoning_content":' + reasoning + b',"reasoning":' + reasoning + b"}"
            chunks = self._delta + written + ids + b"}]}\n\n"
            ids = b',"token_ids":[]' if ids else b""
        if delta.text or (ids and not chunks):
            chunks += self._delta + b'{"content":' + dumps(delta.text) + b"}" + ids + b"}]}\n\n"
        return chunks

    def _finish(self, finished: Finished) -> bytes:
        choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": finished.reason}
        no_usage = b',"usage":null' if self._request.include_usage else b""
        chunks = self._head + no_usage + b',"choices":' + dumps([choice]) + b"}\n\n"
        if self._request.include_usage:
            chunks += self._head + b',"choices":[],"usage":' + dumps(usage(finished)) + b"}\n\n"
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
        reply = header(self._heading, "chat.completion")
        if self._request.return_token_ids:
            choice["token_ids"] = self._tokens
            reply["prompt_token_ids"] = self._prompt_tokens
        return dumps({**reply, "choices": [choice], "usage": usage(self._finished)})

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


def _tool_call(call: ToolCall, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
