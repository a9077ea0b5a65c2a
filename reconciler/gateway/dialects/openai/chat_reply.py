"""Answers as OpenAI's chat completions write them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reconciler.gateway.events import Answer, Piece
from reconciler.wire.generation import Accepted, Delta, Finished, ToolCall

from .event_stream import DONE, EventStream
from .request import ChatRequest
from .shape import Heading, dumps, header, usage


class ChatStream(EventStream):
    """Writes the answer as server-sent events. ``call_id`` draws the id of a tool call."""

    def __init__(self, request: ChatRequest, heading: Heading, call_id: Callable[[], str]) -> None:
        self._request = request
        self._call_id = call_id
        self._head = b"data: " + dumps(header(heading, "chat.completion.chunk"))[:-1]
        self._no_usage = b',"usage":null' if request.include_usage else b""
        self._deltas = [
            self._head
            + self._no_usage
            + b',"choices":[{"index":%d,"logprobs":null,"finish_reason":null,"delta":' % index
            for index in range(len(request.choices))
        ]
        self._finished: list[Finished] = []

    def _encode_one(self, index: int, answer: Answer) -> bytes:
        match answer:
            case Delta():
                return self._text(self._deltas[index], answer)
            case Accepted():
                role = self._deltas[index] + b'{"role":"assistant","content":""}}]'
                if not self._request.return_token_ids:
                    return role + b"}\n\n"
                return role + b',"prompt_token_ids":' + dumps(answer.prompt_tokens) + b"}\n\n"
            case ToolCall():
                call = {"tool_calls": [{"index": answer.index, **_tool_call(answer, self._call_id())}]}
                return self._deltas[index] + dumps(call) + b"}]}\n\n"
            case Finished():
                return self._finish(index, answer)

    def _text(self, head: bytes, delta: Delta) -> bytes:
        ids = b',"token_ids":' + dumps(delta.tokens) if self._request.return_token_ids else b""
        chunks = b""
        if delta.reasoning:
            reasoning = dumps(delta.reasoning)
            written = b'{"reasoning_content":' + reasoning + b',"reasoning":' + reasoning + b"}"
            chunks = head + written + ids + b"}]}\n\n"
            ids = b',"token_ids":[]' if ids else b""
        if delta.text or (ids and not chunks):
            chunks += head + b'{"content":' + dumps(delta.text) + b"}" + ids + b"}]}\n\n"
        return chunks

    def _finish(self, index: int, finished: Finished) -> bytes:
        choice = {"index": index, "delta": {}, "logprobs": None, "finish_reason": finished.reason}
        chunks = self._head + self._no_usage + b',"choices":' + dumps([choice]) + b"}\n\n"
        self._finished.append(finished)
        if len(self._finished) < len(self._request.choices):
            return chunks
        if self._request.include_usage:
            chunks += self._head + b',"choices":[],"usage":' + self._usage() + b"}\n\n"
        return chunks + DONE

    def _usage(self) -> bytes:
        return dumps(usage(self._finished, len(self._request.choices)))


class ChatReply:
    """Writes the answers as one JSON object. ``call_id`` draws the id of a tool call."""

    def __init__(self, request: ChatRequest, heading: Heading, call_id: Callable[[], str]) -> None:
        self._request = request
        self._heading = heading
        self._choices = [_Choice(call_id) for _ in request.choices]

    def add(self, pieces: Sequence[Piece]) -> None:
        """Keep ``pieces`` for the object."""
        for index, answer in pieces:
            self._choices[index].add(answer)

    def body(self) -> bytes:
        """Return the completion, once every choice is finished."""
        reply = header(self._heading, "chat.completion")
        if self._request.return_token_ids:
            reply["prompt_token_ids"] = self._choices[0].prompt_tokens
        choices = [
            choice.shaped(index, self._request.return_token_ids) for index, choice in enumerate(self._choices)
        ]
        finished = [choice.finished for choice in self._choices if choice.finished is not None]
        return dumps({**reply, "choices": choices, "usage": usage(finished, len(choices))})


class _Choice:
    """The part of one answer that has arrived."""

    def __init__(self, call_id: Callable[[], str]) -> None:
        self._call_id = call_id
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._tokens: list[int] = []
        self.prompt_tokens: tuple[int, ...] = ()
        self.finished: Finished | None = None

    def add(self, answer: Answer) -> None:
        """Keep a part of the answer."""
        match answer:
            case Delta():
                self._text.append(answer.text)
                self._reasoning.append(answer.reasoning)
                self._tokens.extend(answer.tokens)
            case Accepted():
                self.prompt_tokens = answer.prompt_tokens
            case ToolCall():
                self._calls.append(_tool_call(answer, self._call_id()))
            case Finished():
                self.finished = answer

    def shaped(self, index: int, with_token_ids: bool) -> dict[str, Any]:
        """Return the choice as OpenAI writes it."""
        assert self.finished is not None
        choice = {
            "index": index,
            "message": self._message(),
            "logprobs": None,
            "finish_reason": self.finished.reason,
        }
        return {**choice, "token_ids": self._tokens} if with_token_ids else choice

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
