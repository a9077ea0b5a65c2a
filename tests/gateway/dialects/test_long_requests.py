"""A request of many parts takes the time of its length: all other clients wait while the gateway reads it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from reconciler.gateway.dialects.anthropic.request import parse_request
from reconciler.gateway.dialects.openai.request import parse_chat
from reconciler.gateway.dialects.responses.request import parse_response

MANY = 20_000
SECONDS = 1.5
"""What is done once for each pair of parts takes several times as long."""
NUMBERS = range(MANY)
USER = {"role": "user", "content": "x"}
OBJECT = {"type": "object"}


def chat_tool(number: int, **more: Any) -> Mapping[str, Any]:
    return {"type": "function", "function": {"name": f"f{number}", "parameters": OBJECT, **more}}


def chat_call(number: int) -> Mapping[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def item(kind: str, number: int, **more: Any) -> Mapping[str, Any]:
    return {"type": kind, "call_id": f"c{number}", **more}


CHAT: Mapping[str, Mapping[str, Any]] = {
    "messages": {"messages": [USER] * MANY},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * MANY}]},
    "calls": {
        "messages": [
            USER,
            {"role": "assistant", "tool_calls": [*map(chat_call, NUMBERS)]},
            *({"role": "tool", "tool_call_id": f"c{number}", "content": "r"} for number in reversed(NUMBERS)),
        ]
    },
    "strict tools": {"tools": [chat_tool(number, strict=True) for number in NUMBERS]},
    "allowed tools": {
        "tools": [*map(chat_tool, NUMBERS)],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [*map(chat_tool, NUMBERS)]},
        },
    },
    "unknown parameters": {f"temperatur{number}": 1 for number in NUMBERS},
}
MESSAGES: Mapping[str, Mapping[str, Any]] = {
    "messages": {"messages": [USER] * MANY},
    "calls": {
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": f"c{n}", "name": "f", "input": {}} for n in NUMBERS],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": f"c{n}"} for n in reversed(NUMBERS)],
            },
        ]
    },
    "tools": {
        "tools": [{"name": f"f{number}", "input_schema": OBJECT} for number in NUMBERS],
        "tool_choice": {"type": "any"},
    },
}
FUNCTIONS = [{"type": "function", "name": f"f{number}", "parameters": OBJECT} for number in NUMBERS]
SPACES = [
    {
        "type": "namespace",
        "name": f"n{number}",
        "tools": [{"type": "function", "name": "f", "parameters": OBJECT}],
    }
    for number in NUMBERS
]
RESPONSES: Mapping[str, Mapping[str, Any]] = {
    "items": {"input": [USER] * MANY},
    "calls": {
        "input": [
            *(item("function_call", number, name="f", arguments="{}") for number in NUMBERS),
            *(item("function_call_output", number, output="r") for number in reversed(NUMBERS)),
        ]
    },
    "allowed tools": {
        "tools": FUNCTIONS,
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": FUNCTIONS},
    },
    "tools of namespaces": {
        "tools": SPACES,
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "f", "namespace": f"n{number}"} for number in NUMBERS],
        },
    },
}


def seconds_of(parse: Any, body: Mapping[str, Any]) -> float:
    written = orjson.dumps(body)
    began = time.process_time()
    parse(written, 1)
    return time.process_time() - began


@pytest.mark.parametrize("parts", CHAT)
def test_a_chat_completion(parts: str) -> None:
    assert seconds_of(parse_chat, {"model": "m", "messages": [USER], **CHAT[parts]}) < SECONDS


@pytest.mark.parametrize("parts", MESSAGES)
def test_messages_of_anthropic(parts: str) -> None:
    body = {"model": "m", "max_tokens": 5, "messages": [USER], **MESSAGES[parts]}
    assert seconds_of(parse_request, body) < SECONDS


@pytest.mark.parametrize("parts", RESPONSES)
def test_a_response(parts: str) -> None:
    assert seconds_of(parse_response, {"model": "m", "input": "x", **RESPONSES[parts]}) < SECONDS
