"""``POST /v1/chat/completions``: a conversation in, its next message out. Pure but for ``sources``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from reconciler.gateway.dialects.dialect import Catalog, Parsed, Sources
from reconciler.gateway.events import Answer, Part, Piece, Reading, Report, Waiting, Working
from reconciler.wire.generation import Accepted, CallPart, Delta, Finished, Scored, TokenLogprobs, ToolCall

from .event_stream import EventStream
from .logprobs import chat_logprobs
from .model_list import only_model
from .request import ChatRequest, parse_chat
from .shape import Heading, dumps, finish, header, new_heading, usage


def parse(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body, and choose the writer of the answer. Raises ``ApiError`` (400)."""

    def call_id() -> str:
        return "call_" + sources.new_id()

    request = parse_chat(body, sources.new_seed())
    model = request.model or only_model(catalog)
    heading = new_heading("chatcmpl-", model, sources)
    shape = ChatStream if request.stream else ChatReply
    return Parsed(
        model,
        request.choices,
        shape(request, heading, call_id),
        request.session,
        answers=len(request.choices),
        reports=request.return_groups,
    )


class ChatStream(EventStream):
    """Writes the answer as server-sent events. ``call_id`` draws the id of a tool call."""

    def __init__(self, request: ChatRequest, heading: Heading, call_id: Callable[[], str]) -> None:
        count = len(request.choices)
        super().__init__(heading, "chat.completion.chunk", request.include_usage, count, count)
        self._request = request
        self._call_id = call_id
        self._deltas = [self._delta_head(index, b"null") for index in range(count)]

    def _delta_head(self, index: int, logprobs: bytes) -> bytes:
        choice = b',"choices":[{"index":%d,"logprobs":%b,"finish_reason":null,"delta":'
        return self._head + self._no_usage + choice % (index, logprobs)

    def keep_alive(self) -> bytes:
        """Return a chunk without a role: the first chunk of each choice has it, and clients join the chunks of a
        choice."""
        return self._deltas[next(iter(self._open))] + b"{}}]}\n\n"

    def _encode_one(self, index: int, answer: Part) -> bytes:
        match answer:
            case Delta():
                return self._text(index, answer)
            case Accepted():
                role = self._deltas[index] + b'{"role":"assistant","content":""}}]'
                if not self._request.return_token_ids:
                    return role + b"}\n\n"
                return role + b',"prompt_token_ids":' + dumps(answer.prompt_tokens) + b"}\n\n"
            case ToolCall():
                call = {"tool_calls": [{"index": answer.index, **_tool_call(answer, self._call_id())}]}
                return self._deltas[index] + dumps(call) + b"}]}\n\n"
            case Finished():
                choice = {"index": index, "delta": {}, "logprobs": None, **finish(answer)}
                return self._chunk(choice) + self._end(index, answer)
            case Scored():
                return b""
            case Working() | Waiting() | Reading():
                report = b',"choices":[],' + dumps(_report(index, answer))[1:]
                return self._head + self._no_usage + report + b"\n\n"

    def _text(self, index: int, delta: Delta) -> bytes:
        """Return a chunk for each kind of text. The first has the ids and log-probabilities of all tokens."""
        with_ids = self._request.return_token_ids
        if delta.text and not (delta.reasoning or delta.calls or delta.logprobs or with_ids):
            return b'%b{"content":%b}}]}\n\n' % (self._deltas[index], dumps(delta.text))  # nearly every delta
        parts = _deltas(delta)
        if not parts and (with_ids or delta.logprobs):
            parts = [b'{"content":""}']
        head = self._deltas[index]
        first = self._delta_head(index, dumps(chat_logprobs(delta.logprobs))) if delta.logprobs else head
        ids = b',"token_ids":' + dumps(delta.tokens) if with_ids else b""
        no_ids = b',"token_ids":[]' if with_ids else b""
        return b"".join(
            (head if at else first) + part + (no_ids if at else ids) + b"}]}\n\n"
            for at, part in enumerate(parts)
        )


def _deltas(delta: Delta) -> list[bytes]:
    """Return each kind of text as the ``delta`` of a chunk."""
    parts = []
    if delta.reasoning:
        reasoning = dumps(delta.reasoning)
        parts.append(b'{"reasoning_content":' + reasoning + b',"reasoning":' + reasoning + b"}")
    calls = [_streamed(part) for part in delta.calls if not part.withdrawn]
    if calls:
        parts.append(dumps({"tool_calls": calls}))
    if delta.text:
        parts.append(b'{"content":' + dumps(delta.text) + b"}")
    return parts


def _report(index: int, report: Report) -> dict[str, Any]:
    """Return the progress of a choice as a field of a chunk."""
    if isinstance(report, Waiting):
        return {"waiting": {"index": index, "for": report.reason}}
    if isinstance(report, Reading):
        return {"reading": {"index": index, "done": report.done, "total": report.total}}
    return {"group": {"index": index, **dataclasses.asdict(report)}}


class ChatReply:
    """Writes the answers as one JSON object. ``call_id`` draws the id of a tool call."""

    def __init__(self, request: ChatRequest, heading: Heading, call_id: Callable[[], str]) -> None:
        self._request = request
        self._heading = heading
        self._choices = [_Choice(call_id, generate.logprobs is not None) for generate in request.choices]
        self._groups: list[Any] = []

    def add(self, pieces: Sequence[Piece]) -> None:
        for index, answer in pieces:
            match answer:
                case Working():
                    self._groups.append(_report(index, answer)["group"])
                case Waiting() | Reading():
                    pass
                case _:
                    self._choices[index].add(answer)

    def body(self) -> bytes:
        reply = header(self._heading, "chat.completion")
        if self._request.return_token_ids:
            reply["prompt_token_ids"] = self._choices[0].prompt_tokens
        if self._request.return_groups:
            reply["groups"] = self._groups
        choices = [
            choice.shaped(index, self._request.return_token_ids) for index, choice in enumerate(self._choices)
        ]
        finished = [choice.finished for choice in self._choices if choice.finished is not None]
        return dumps({**reply, "choices": choices, "usage": usage(finished, len(choices))})


class _Choice:
    """The part of one answer that has arrived."""

    def __init__(self, call_id: Callable[[], str], with_logprobs: bool) -> None:
        self._call_id = call_id
        self._logprobs: list[TokenLogprobs] | None = [] if with_logprobs else None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
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
                if self._logprobs is not None:
                    self._logprobs.extend(answer.logprobs)
                for part in answer.calls:
                    self._add(part)
            case Accepted():
                self.prompt_tokens = answer.prompt_tokens
            case ToolCall():
                self._calls[answer.index] = _tool_call(answer, self._call_id())
            case Finished():
                self.finished = answer
            case Scored():
                pass

    def _add(self, part: CallPart) -> None:
        if part.withdrawn:
            self._calls.pop(part.index, None)
        elif part.name:
            self._calls[part.index] = _call(part.id, part.name, part.arguments)
        else:
            self._calls[part.index]["function"]["arguments"] += part.arguments

    def shaped(self, index: int, with_token_ids: bool) -> dict[str, Any]:
        """Return the choice as OpenAI writes it."""
        assert self.finished is not None
        choice = {
            "index": index,
            "message": self._message(),
            "logprobs": None if self._logprobs is None else chat_logprobs(self._logprobs),
            **finish(self.finished),
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
            message["tool_calls"] = list(self._calls.values())
        return message


def _tool_call(call: ToolCall, call_id: str) -> dict[str, Any]:
    return _call(call_id, call.name, call.arguments)


def _call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _streamed(part: CallPart) -> dict[str, Any]:
    """Return a part of a call as chunks have it: only the first part has an id and a name."""
    if part.name:
        return {"index": part.index, **_call(part.id, part.name, part.arguments)}
    return {"index": part.index, "function": {"arguments": part.arguments}}
