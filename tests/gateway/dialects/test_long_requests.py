"""A request of many parts takes the time of its length: all other clients wait while the gateway reads it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

from reconciler.gateway.dialects.anthropic.request import parse_request
from reconciler.gateway.dialects.openai.request import parse_chat
from reconciler.gateway.dialects.responses.request import parse_response

MANY = 20_000
PART = 4
"""With a fourth of the parts it takes a fourth of the time, and a sixteenth if something is done for each pair."""
GROWTH_MAX = 10
ATTEMPTS = 5
"""Other work on the machine can make one measurement wrong."""
USER = {"role": "user", "content": "x"}
OBJECT = {"type": "object"}
Bodies = Mapping[str, Mapping[str, Any]]


def chat_tool(number: int, **more: Any) -> Mapping[str, Any]:
    return {"type": "function", "function": {"name": f"f{number}", "parameters": OBJECT, **more}}


def chat_call(number: int) -> Mapping[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def item(kind: str, number: int, **more: Any) -> Mapping[str, Any]:
    return {"type": kind, "call_id": f"c{number}", **more}


def chats(count: int) -> Bodies:
    numbers = range(count)
    return {
        "messages": {"messages": [USER] * count},
        "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * count}]},
        "calls": {
            "messages": [
                USER,
                {"role": "assistant", "tool_calls": [*map(chat_call, numbers)]},
                *(
                    {"role": "tool", "tool_call_id": f"c{number}", "content": "r"}
                    for number in reversed(numbers)
                ),
            ]
        },
        "strict tools": {"tools": [chat_tool(number, strict=True) for number in numbers]},
        "allowed tools": {
            "tools": [*map(chat_tool, numbers)],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [*map(chat_tool, numbers)]},
            },
        },
        "unknown parameters": {f"temperatur{number}": 1 for number in numbers},
    }


def messages(count: int) -> Bodies:
    numbers = range(count)
    return {
        "messages": {"messages": [USER] * count},
        "calls": {
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": f"c{n}", "name": "f", "input": {}} for n in numbers
                    ],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": f"c{n}"} for n in reversed(numbers)],
                },
            ]
        },
        "tools": {
            "tools": [{"name": f"f{number}", "input_schema": OBJECT} for number in numbers],
            "tool_choice": {"type": "any"},
        },
    }


def responses(count: int) -> Bodies:
    numbers = range(count)
    functions = [{"type": "function", "name": f"f{number}", "parameters": OBJECT} for number in numbers]
    spaces = [
        {
            "type": "namespace",
            "name": f"n{number}",
            "tools": [{"type": "function", "name": "f", "parameters": OBJECT}],
        }
        for number in numbers
    ]
    return {
        "items": {"input": [USER] * count},
        "calls": {
            "input": [
                *(item("function_call", number, name="f", arguments="{}") for number in numbers),
                *(item("function_call_output", number, output="r") for number in reversed(numbers)),
            ]
        },
        "allowed tools": {
            "tools": functions,
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": functions},
        },
        "tools of namespaces": {
            "tools": spaces,
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "f", "namespace": f"n{number}"} for number in numbers],
            },
        },
    }


def takes_the_time_of_its_length(
    parse: Any, bodies: Callable[[int], Bodies], parts: str, **fields: Any
) -> bool:
    few, many = (
        orjson.dumps({"model": "m", **fields, **bodies(count)[parts]}) for count in (MANY // PART, MANY)
    )
    return any(seconds_of(parse, many) < GROWTH_MAX * seconds_of(parse, few) for _ in range(ATTEMPTS))


def seconds_of(parse: Any, written: bytes) -> float:
    gc.disable()  # it would look through all that the tests before have left
    try:
        began = time.process_time()
        parse(written, 1)
        return time.process_time() - began
    finally:
        gc.enable()


@pytest.mark.parametrize("parts", chats(1))
def test_a_chat_completion(parts: str) -> None:
    assert takes_the_time_of_its_length(parse_chat, chats, parts, messages=[USER])


@pytest.mark.parametrize("parts", messages(1))
def test_messages_of_anthropic(parts: str) -> None:
    assert takes_the_time_of_its_length(parse_request, messages, parts, max_tokens=5, messages=[USER])


@pytest.mark.parametrize("parts", responses(1))
def test_a_response(parts: str) -> None:
    assert takes_the_time_of_its_length(parse_response, responses, parts, input="x")
