"""The events of a streamed response, each checked against the class that OpenAI's SDK has for its type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import orjson
from openai.types.responses import Response, ResponseStreamEvent

_UNION = get_args(get_args(ResponseStreamEvent)[0])
CLASSES: Mapping[str, Any] = {get_args(each.model_fields["type"].annotation)[0]: each for each in _UNION}

REQUIRED = {
    *(
        "id",
        "object",
        "created_at",
        "error",
        "incomplete_details",
        "instructions",
        "model",
        "tools",
        "output",
    ),
    *("parallel_tool_calls", "metadata", "tool_choice", "temperature", "top_p"),
}
"""Of ``Response`` in OpenAI's published schema. The SDK takes a null for absent."""
NEVER_NULL = {"user", "usage", "prompt_cache_key"}
"""Those that may be absent there."""


def events_of(stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream without its comments. Their numbers have no gaps."""
    events = list(_events(stream))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def _events(stream: bytes) -> Iterator[dict[str, Any]]:
    assert stream.endswith(b"\n\n")
    for block in stream[:-2].split(b"\n\n"):
        if block.startswith(b":"):
            continue
        kind, data = block.split(b"\n")
        event = orjson.loads(data.removeprefix(b"data: "))
        assert kind == b"event: " + event["type"].encode()
        CLASSES[event["type"]].model_validate(event)
        if "response" in event:
            check(event["response"])
        yield event


def check(response: Mapping[str, Any]) -> None:
    """See that nothing which clients rely on is missing."""
    assert response.keys() >= REQUIRED
    assert not [name for name in NEVER_NULL & response.keys() if response[name] is None]
    Response.model_validate(response)


def text_of(response: Mapping[str, Any]) -> str:
    """The text of all messages."""
    return "".join(
        part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]
    )


def reasoning_of(response: Mapping[str, Any]) -> str:
    items = [item for item in response["output"] if item["type"] == "reasoning"]
    return "".join(part["text"] for item in items for part in [*item["summary"], *item.get("content", ())])


def calls_of(response: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Id, name and arguments of each call."""
    return [
        (item["call_id"], item["name"], item["arguments"])
        for item in response["output"]
        if item["type"] == "function_call"
    ]


def deltas_of(events: Sequence[Mapping[str, Any]], kind: str) -> str:
    """What the deltas of a type say together."""
    return "".join(event["delta"] for event in events if event["type"] == f"response.{kind}.delta")
