"""A chat completion request as OpenAI defines it, to the internal request. Pure.

The rules are those that clients rely on: null is the same as absent, an int is a float, what is unknown
is ignored, what is known and cannot be done is refused by name rather than ignored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import orjson

from reconciler.wire.generation import Generate, Sampling

from .faults import invalid, unsupported
from .openai_messages import parse_messages
from .reading import Fields

STOPS_MAX = 4
_SEED_RANGE = 2**63


@dataclasses.dataclass(frozen=True, slots=True)
class ChatRequest:
    """What is asked for, and how the answer is to be written."""

    model: str
    generate: Generate
    """Without its id, which belongs to an attempt."""
    stream: bool
    include_usage: bool
    return_token_ids: bool
    """vLLM's extension: token ids beside the text."""


def parse_chat(body: bytes, drawn_seed: int) -> ChatRequest:
    """Check a body and translate it. ``drawn_seed`` is used where the client gave none.

    Raises ``Fault`` (400) with the path of the field that is wrong.
    """
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise invalid(f"the body is not JSON: {error}", None) from None
    if not isinstance(parsed, dict):
        raise invalid("the body must be a JSON object", None)
    fields = Fields(parsed)
    _refuse_unsupported(fields)
    generate = Generate(
        request="",
        messages=parse_messages(fields),
        tools=_tools(fields),
        tokens_max=_tokens_max(fields),
        stop=_stop(fields),
        sampling=_sampling(fields, drawn_seed),
    )
    stream_options = fields.object("stream_options")
    return ChatRequest(
        model=fields.text("model"),
        generate=generate,
        stream=fields.flag("stream"),
        include_usage=stream_options is not None and stream_options.flag("include_usage"),
        return_token_ids=fields.flag("return_token_ids"),
    )


def _refuse_unsupported(fields: Fields) -> None:
    if fields.whole("n", 1, low=1) != 1:
        raise invalid("only n = 1 is supported", "n", "unsupported_parameter")
    if fields.flag("logprobs"):
        raise unsupported("logprobs", "logprobs")
    if fields.whole("top_logprobs", 0, low=0, high=20):
        raise unsupported("top_logprobs", "top_logprobs")
    bias = fields.object("logit_bias")
    if bias is not None and bias.names():
        raise unsupported("logit_bias", "logit_bias")
    for name in ("frequency_penalty", "presence_penalty"):
        if fields.number(name, 0.0, low=-2.0, high=2.0):
            raise unsupported(f"a {name} other than 0", name)
    response_format = fields.object("response_format")
    if response_format is not None:
        kind = response_format.choice("type", ("text", "json_object", "json_schema"))
        if kind != "text":
            raise unsupported(f"the response format {kind}", "response_format")


def _sampling(fields: Fields, drawn_seed: int) -> Sampling:
    seed = fields.optional_whole("seed", low=-_SEED_RANGE, high=_SEED_RANGE - 1)
    top_p = fields.number("top_p", 1.0, low=0.0, high=1.0)
    temperature = fields.number("temperature", 1.0, low=0.0, high=2.0)
    return Sampling(
        temperature=temperature if top_p else 0.0,  # of no probability mass, only the likeliest token is left
        top_p=top_p or 1.0,
        top_k=max(0, fields.whole("top_k", 0, low=-1)),
        min_p=fields.number("min_p", 0.0, low=0.0, high=1.0),
        seed=drawn_seed if seed is None else seed % _SEED_RANGE,
    )


def _tokens_max(fields: Fields) -> int | None:
    newer = fields.optional_whole("max_completion_tokens", low=1)
    older = fields.optional_whole("max_tokens", low=1)
    return older if newer is None else newer


def _stop(fields: Fields) -> tuple[str, ...]:
    value = fields.value("stop")
    if value is None:
        return ()
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
        raise invalid("stop must be a non-empty string or a list of them", "stop")
    if len(stops) > STOPS_MAX:
        raise invalid(f"stop takes at most {STOPS_MAX} strings, got {len(stops)}", "stop")
    return tuple(stops)


def _tools(fields: Fields) -> tuple[Mapping[str, Any], ...]:
    """The tools to render: none when the model must not call any."""
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
