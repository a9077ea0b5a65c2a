"""Chat completions and messages say the same of one answer, whole and streamed, however its events are cut."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import orjson
from anthropic.types import RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from reconciler.gateway.dialects.anthropic.messages import MessageReply, MessageStream
from reconciler.gateway.dialects.anthropic.request import parse_request
from reconciler.gateway.dialects.dialect import Reply, Stream
from reconciler.gateway.dialects.openai.chat import ChatReply, ChatStream
from reconciler.gateway.dialects.openai.request import parse_chat
from reconciler.gateway.dialects.openai.shape import Heading
from reconciler.gateway.events import Answer, Piece
from tests.gateway.conftest import HELLO

from .tales import Tale, told

EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)
ENDS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
}
BODY: dict[str, Any] = {"model": "m", "messages": HELLO, "max_tokens": 1000}


@dataclasses.dataclass
class Said:
    """What a client makes of an answer."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, object]] = dataclasses.field(default_factory=list)
    end: str = ""
    used: tuple[int, int, int] = (0, 0, 0)
    """Tokens of the prompt, those of them that were not read, and of the answer."""

    @property
    def tight(self) -> Said:
        """The same without white space: a message has no block of nothing else."""
        text, reasoning = ("".join(part.split()) for part in (self.text, self.reasoning))
        return dataclasses.replace(self, text=text, reasoning=reasoning)


def complete(calls: Sequence[tuple[str, str]]) -> list[tuple[str, object]]:
    """The calls whose arguments are an object: a stream cannot take back those that turned out to be none."""
    found = []
    for name, arguments in calls:
        try:
            found.append((name, json.loads(arguments)))
        except ValueError:
            continue
    return found


def of_tale(tale: Tale) -> Said:
    last = tale.finished
    used = (last.prompt_tokens, last.cached_tokens, last.completion_tokens)
    return Said(tale.text, tale.reasoning, tale.calls, last.reason, used)


def of_chat(usage: dict[str, Any], finish: str, **said: Any) -> Said:
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    return Said(end=finish, used=(usage["prompt_tokens"], cached, usage["completion_tokens"]), **said)


def of_message(usage: dict[str, int], reason: str, **said: Any) -> Said:
    cached = usage["cache_read_input_tokens"]
    return Said(
        end=ENDS[reason], used=(usage["input_tokens"] + cached, cached, usage["output_tokens"]), **said
    )


def whole_chat(body: bytes) -> Said:
    reply = orjson.loads(body)
    (choice,) = reply["choices"]
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return of_chat(
        reply["usage"],
        choice["finish_reason"],
        text=message["content"] or "",
        reasoning=message.get("reasoning_content", ""),
        calls=complete([(call["name"], call["arguments"]) for call in calls]),
    )


def streamed_chat(body: bytes) -> Said:
    *lines, done = body.decode().split("\n\n")[:-1]
    assert done == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    calls: dict[int, list[str]] = {}
    for part in (call for choice in choices for call in choice["delta"].get("tool_calls", ())):
        name, arguments = calls.get(part["index"], ("", ""))
        function = part["function"]
        calls[part["index"]] = [name + function.get("name", ""), arguments + function["arguments"]]
    return of_chat(
        chunks[-1]["usage"],
        choices[-1]["finish_reason"],
        text="".join(choice["delta"].get("content", "") for choice in choices),
        reasoning="".join(choice["delta"].get("reasoning", "") for choice in choices),
        calls=complete([(name, arguments) for name, arguments in calls.values()]),
    )


def whole_message(body: bytes) -> Said:
    reply = orjson.loads(body)
    content = reply["content"]
    return of_message(
        reply["usage"],
        reply["stop_reason"],
        text="".join(block["text"] for block in content if block["type"] == "text"),
        reasoning="".join(block["thinking"] for block in content if block["type"] == "thinking"),
        calls=[(block["name"], block["input"]) for block in content if block["type"] == "tool_use"],
    )


def streamed_message(body: bytes) -> Said:
    """Also: each block begins, grows and ends, one after the other."""
    events = list(parsed(body))
    assert [event["type"] for event in (events[0], *events[-2:])] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    blocks: list[dict[str, Any]] = []
    open_block = False
    for event in events[1:-2]:
        kind = event["type"].removeprefix("content_block_")
        assert event["index"] == len(blocks) - (kind != "start")
        assert open_block is (kind != "start")
        open_block = kind != "stop"
        if kind == "start":
            blocks.append({**event["content_block"], "partial_json": ""})
        elif kind == "delta":
            name = event["delta"]["type"].removesuffix("_delta")
            field = {"input_json": "partial_json"}.get(name, name)
            blocks[-1][field] += event["delta"][field]
    assert not open_block
    assert all(block["signature"] for block in blocks if block["type"] == "thinking")
    tools = [block for block in blocks if block["type"] == "tool_use"]
    return of_message(
        events[-2]["usage"],
        events[-2]["delta"]["stop_reason"],
        text="".join(block["text"] for block in blocks if block["type"] == "text"),
        reasoning="".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        calls=complete([(block["name"], block["partial_json"]) for block in tools]),
    )


def parsed(body: bytes) -> Iterator[dict[str, Any]]:
    """The events of a stream, each as the types of Anthropic's SDK take it."""
    for event in body.decode().split("\n\n")[:-1]:
        found = re.fullmatch(r"event: (\w+)\ndata: (.*)", event)
        assert found is not None
        assert EVENT.validate_json(found[2]).type == found[1]
        yield json.loads(found[2])


def cut(rng: Random, events: Sequence[Answer]) -> Iterator[list[Piece]]:
    """The events in several reads."""
    pieces: list[Piece] = [(0, event) for event in events]
    while pieces:
        count = rng.randint(1, len(pieces))
        yield pieces[:count]
        pieces = pieces[count:]


def whole(reply: Reply, reads: Sequence[Sequence[Piece]]) -> bytes:
    for read in reads:
        reply.add(read)
    return reply.body()


def streamed(stream: Stream, reads: Sequence[Sequence[Piece]]) -> bytes:
    return b"".join(stream.encode(read) for read in reads)


@settings(max_examples=200)
@given(rng=st.randoms(use_true_random=False))
def test_one_answer_says_the_same_in_each_of_its_forms(rng: Random) -> None:
    tale = told(rng)
    expected = of_tale(tale).tight
    chat = parse_chat(orjson.dumps({**BODY, "stream_options": {"include_usage": True}}), 42)
    message = parse_request(orjson.dumps(BODY), 42)
    heading = Heading("chatcmpl-1", 0, "m")

    def id() -> str:
        return "id"

    def reads() -> list[list[Piece]]:
        return list(cut(rng, tale.events))

    assert whole_chat(whole(ChatReply(chat, heading, id), reads())).tight == expected
    assert streamed_chat(streamed(ChatStream(chat, heading, id), reads())).tight == expected
    assert whole_message(whole(MessageReply(message, "msg_1", "m", id), reads())).tight == expected
    assert streamed_message(streamed(MessageStream(message, "msg_1", "m", id), reads())).tight == expected
