"""From a chat completion request as OpenAI defines it to the internal request. Pure.

Clients rely on these rules: null is the same as absent, an int is a float, unknown fields are ignored, and a known
field that is not supported is refused by name rather than ignored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.errors import invalid, unsupported
from reconciler.wire.generation import Generate

from .messages import parse_messages
from .parameters import (
    parse_answers,
    parse_include_usage,
    parse_object,
    parse_sampling,
    parse_stop,
    refuse_penalties,
    several,
)

_ENUMS = {
    "reasoning_effort": ("none", "minimal", "low", "medium", "high", "xhigh"),
    "service_tier": ("auto", "default", "flex", "scale", "priority"),
    "verbosity": ("low", "medium", "high"),
}
"""Fields that are accepted and change nothing here."""


@dataclasses.dataclass(frozen=True, slots=True)
class ChatRequest:
    """A parsed request, and how to write the answer."""

    model: str
    choices: Sequence[Generate]
    """One for each answer. Without their ids, which belong to attempts."""
    stream: bool
    include_usage: bool
    return_token_ids: bool
    """vLLM's extension: token ids beside the text."""


def parse_chat(body: bytes, drawn_seed: int) -> ChatRequest:
    """Check a body and translate it. ``drawn_seed`` is for a client that gave none.

    Raises ``ApiError`` (400) with the path of the field that is wrong.
    """
    fields = parse_object(body)
    _refuse_unsupported(fields)
    tools = _tools(fields)
    parallel = fields.flag("parallel_tool_calls", default=True)
    generate = Generate(
        request="",
        messages=parse_messages(fields),
        tools=tools,
        tokens_max=_tokens_max(fields),
        stop=parse_stop(fields),
        sampling=parse_sampling(fields, drawn_seed),
        tool_calls_max=1 if tools and not parallel else None,
    )
    return ChatRequest(
        model=fields.text("model"),
        choices=several(generate, parse_answers(fields)),
        stream=fields.flag("stream"),
        include_usage=parse_include_usage(fields),
        return_token_ids=fields.flag("return_token_ids"),
    )


def _refuse_unsupported(fields: Fields) -> None:
    refuse_penalties(fields)
    if fields.flag("logprobs"):
        raise unsupported("logprobs", "logprobs")
    if fields.integer("top_logprobs", 0, low=0, high=20):
        raise unsupported("top_logprobs", "top_logprobs")
    response_format = fields.object("response_format")
    if response_format is not None:
        kind = response_format.choice("type", ("text", "json_object", "json_schema"))
        if kind != "text":
            raise unsupported(f"the response format {kind}", "response_format")
    for name in ("functions", "function_call", "audio"):
        if fields.value(name) not in (None, [], "none", "auto"):
            raise unsupported(name, name)
    if fields.value("modalities") not in (None, ["text"]):
        raise unsupported('a modality other than "text"', "modalities")
    for name, choices in _ENUMS.items():
        if fields.value(name) is not None:
            fields.choice(name, choices)


def _tokens_max(fields: Fields) -> int | None:
    newer = fields.optional_integer("max_completion_tokens", low=1)
    older = fields.optional_integer("max_tokens", low=1)
    return older if newer is None else newer


def _tools(fields: Fields) -> tuple[Mapping[str, Any], ...]:
    """Return the tools to render: none where the model must not call any."""
    tools = tuple(_tool(tool) for tool in fields.objects("tools"))
    choice = fields.value("tool_choice")
    if isinstance(choice, dict) or choice == "required":
        raise unsupported("a tool_choice other than none and auto", "tool_choice")
    if choice not in (None, "none", "auto"):
        raise invalid('tool_choice must be "none" or "auto"', "tool_choice")
    return () if choice == "none" else tools


def _tool(tool: Fields) -> Mapping[str, Any]:
    tool.choice("type", ("function",))
    function = tool.object("function")
    if function is None:
        raise invalid("a tool of type function needs a function", tool.path("function"))
    rendered: dict[str, Any] = {"name": function.text("name")}
    description = function.optional_text("description")
    if description is not None:
        rendered["description"] = description
    parameters = function.object("parameters")
    if parameters is not None:
        rendered["parameters"] = parameters.plain()
    return {"type": "function", "function": rendered}
